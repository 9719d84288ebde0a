"""Rotation by a variable amount, in steps of powers of two."""

from amaranth.hdl import Module, Mux, Signal

__all__ = ["rotate_left", "rotate_right"]

#: Rotations with at least this many steps have a signal for each step: a step uses its input more
#: than once, and expressions without a signal are repeated at every use, which triples the Verilog
#: with each step.
_NAMED_STEPS = 6


def rotate_left(m: Module, value, amount, unit: int = 1):
    """Return `value` with its groups of `unit` bits rotated up by `amount` groups.

    The number of groups must be a power of two, and `amount` as wide as its logarithm.
    """
    for step in range(len(amount)):
        value = Mux(amount[step], value.rotate_left(unit << step), value)
        value = _name_step(m, value, amount)
    return value


def rotate_right(m: Module, value, amount, unit: int = 1):
    """Return `value` with its groups of `unit` bits rotated down by `amount` groups."""
    for step in range(len(amount)):
        value = Mux(amount[step], value.rotate_right(unit << step), value)
        value = _name_step(m, value, amount)
    return value


def _name_step(m: Module, value, amount):
    """Give the value of a step of a wide rotation a name in the netlist."""
    if len(amount) < _NAMED_STEPS:
        return value
    turned = Signal(len(value), name="turned")
    m.d.comb += turned.eq(value)
    return turned
