"""Digest that links reports of area and clock to the netlist for which they were made."""

import hashlib
import re

__all__ = ["netlist_digest"]

#: Parts of Verilog that do not affect logic: comments and attributes.
_UNBUILT = re.compile(r"//[^\n]*|/\*.*?\*/|\(\* .*? \*\)", re.DOTALL)


def netlist_digest(verilog: str) -> str:
    """Return 16 hexadecimal digits that identify the logic of a Verilog text.

    Comments, attributes and white space do not affect them.
    """
    built = _UNBUILT.sub(" ", verilog)
    return hashlib.sha256(" ".join(built.split()).encode()).hexdigest()[:16]
