"""SDRAM controller: cuts AXI bursts into chunks, and serves chunks by commands at the pins."""
