"""Converts model files to graphs and back, with one reader per format, chosen by file content."""

from matloom.frontend.readers import (
    complete,
    declaration,
    load,
    load_floats,
    loop,
    macs,
    reshaped,
    write,
)

__all__ = ["complete", "declaration", "load", "load_floats", "loop", "macs", "reshaped", "write"]
