"""Converts model files to graphs and back, with one reader per format, chosen by file content."""

from matloom.frontend.readers import (
    declaration,
    float_value_names,
    load,
    load_complete,
    load_floats,
    load_with_inner_values,
    loop,
    macs,
    reshape,
    write,
)

__all__ = [
    "declaration",
    "float_value_names",
    "load",
    "load_complete",
    "load_floats",
    "load_with_inner_values",
    "loop",
    "macs",
    "reshape",
    "write",
]
