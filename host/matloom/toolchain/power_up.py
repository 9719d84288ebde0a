"""Removes initial values from Verilog registers, to simulate from an arbitrary state."""

import re

from matloom.toolchain.rewrite_preconditions import require_any_state

#: A register's declaration with an initial value; registers of Yosys, `$auto`, must keep theirs.
_REGISTER = re.compile(
    r"^(?P<declaration>  reg (?:signed )?(?:\[\d+:\d+\] )?(?:\\(?!\$auto)\S+ |\w+)) *= [^;\n]+;$",
    re.MULTILINE,
)


def without_initial_values(verilog: str) -> str:
    """Return generated Verilog without the initial values of its registers.

    A simulator may then start with any values, which shows whether results depend on state that a
    reset does not define. Memories with nonzero contents are tables, and keep them.

    Raises
    ------
    ValueError
        An initial value remains: a register's, or a memory's list of zeros.
    """
    verilog = _REGISTER.sub(lambda found: f"{found['declaration'].rstrip()} ;", verilog)
    require_any_state(verilog)
    return verilog
