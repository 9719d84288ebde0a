"""Verilog whose registers have no value before the first reset, for simulation from any state."""

import re

from matloom.toolchain.rewrite_preconditions import require_any_state

__all__ = ["without_initial_values"]

#: A declared register with its initial value; `$auto` is Yosys' own, whose value is its purpose.
_REGISTER = re.compile(
    r"^(?P<declaration>  reg (?:signed )?(?:\[\d+:\d+\] )?(?:\\(?!\$auto)\S+ |\w+)) *= [^;\n]+;$",
    re.MULTILINE,
)


def without_initial_values(verilog: str) -> str:
    """Return generated Verilog without the initial values of its registers.

    A simulator may then begin with any: results must not depend on what a reset does not define.
    Memories that have contents keep them, for they are tables. That no other value is left is
    required of every text.

    Errors
    ------
    ValueError
        A register keeps its value, or a memory has a list of zeros.
    """
    verilog = _REGISTER.sub(lambda found: f"{found['declaration'].rstrip()} ;", verilog)
    require_any_state(verilog)
    return verilog
