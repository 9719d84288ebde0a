"""Removes initial values from Verilog registers, to simulate from an arbitrary state."""

import re

from matloom.toolchain.rewrite_preconditions import require_any_state

#: A register declaration with an initial value, except Yosys' own `$auto`, which need theirs.
_REGISTER = re.compile(
    r"^(?P<declaration>  reg (?:signed )?(?:\[\d+:\d+\] )?(?:\\(?!\$auto)\S+ |\w+)) *= [^;\n]+;$",
    re.MULTILINE,
)


def without_initial_values(verilog: str) -> str:
    """Return generated Verilog without the initial values of its registers.

    A simulator may then start with any values; results must not depend on what a reset does not
    define. Memories with contents are tables and keep them. No other initial value may remain.

    Raises
    ------
    ValueError
        A register keeps its initial value, or a memory has a list of zeros.
    """
    verilog = _REGISTER.sub(lambda found: f"{found['declaration'].rstrip()} ;", verilog)
    require_any_state(verilog)
    return verilog
