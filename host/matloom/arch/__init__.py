"""Facts that hardware and software share: configuration, numbers, instructions, registers, bus."""
