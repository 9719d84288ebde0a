"""Converts model files to graphs and back, with one reader per format, chosen by file content."""

from matloom.frontend.readers import (
    declaration,
    load,
    load_complete,
    load_floats,
    loop,
    macs,
    reshape,
    write,
)

__all__ = [
    "declaration",
    "load",
    "load_complete",
    "load_floats",
    "loop",
    "macs",
    "reshape",
    "write",
]
