"""Rotation by a variable amount, in steps of powers of two."""

from amaranth.hdl import Module, Mux, Signal

__all__ = ["rotate_left", "rotate_right"]

#: Steps from which on each has a signal. A step uses its value more than once, and what has no
#: name is written out at every use: three times as much text with each step.
_NAMED_STEPS = 6


def rotate_left(m: Module, value, amount, unit: int = 1):
    """Return `value` with all its groups of `unit` bits moved up by `amount` groups.

    The number of groups is a power of two, `amount` has that power's bits.
    """
    for step in range(len(amount)):
        value = Mux(amount[step], value.rotate_left(unit << step), value)
        value = _named(m, value, amount)
    return value


def rotate_right(m: Module, value, amount, unit: int = 1):
    """Return `value` with all its groups of `unit` bits moved down by `amount` groups."""
    for step in range(len(amount)):
        value = Mux(amount[step], value.rotate_right(unit << step), value)
        value = _named(m, value, amount)
    return value


def _named(m: Module, value, amount):
    if len(amount) < _NAMED_STEPS:
        return value
    turned = Signal(len(value), name="turned")
    m.d.comb += turned.eq(value)
    return turned
