"""Host link without a processor: registers and memory over a serial line (docs/link.md)."""
