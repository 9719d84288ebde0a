"""Facts shared by hardware and software: configuration, numerics, instructions, registers, bus."""
