"""SDRAM on an AXI port: bursts to chunks, chunks to rows and columns, commands to pins."""
