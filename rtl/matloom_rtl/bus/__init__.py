"""AXI4 and AXI4-Lite, as streams."""
