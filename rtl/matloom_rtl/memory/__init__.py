"""The scratchpad: banks of bytes that serve unaligned accesses of several widths."""
