"""Pipelined floating-point arithmetic: one result per cycle, without stalls."""
