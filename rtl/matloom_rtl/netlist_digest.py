"""Digest that ties reports of area and clock to the netlist they are about."""

import hashlib
import re

__all__ = ["netlist_digest"]

#: Parts of Verilog that do not affect logic: comments and attributes.
_UNBUILT = re.compile(r"//[^\n]*|/\*.*?\*/|\(\* .*? \*\)", re.DOTALL)


def netlist_digest(verilog: str) -> str:
    """Return 16 hexadecimal digits that identify Verilog, ignoring comments."""
    built = _UNBUILT.sub(" ", verilog)
    return hashlib.sha256(" ".join(built.split()).encode()).hexdigest()[:16]
