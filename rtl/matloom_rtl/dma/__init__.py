"""DMA: everything that moves bytes between external memory and the core."""
