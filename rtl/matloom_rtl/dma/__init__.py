"""DMA: all transfers between external memory and the core."""
