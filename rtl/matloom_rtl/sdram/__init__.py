"""SDRAM behind AXI: bursts to chunks, chunks to rows and columns, commands to pins."""
