"""SDRAM controller with an AXI port: bursts become chunks, chunks become commands at the pins."""
