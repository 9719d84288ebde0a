"""Rotation by a variable amount, in steps of powers of two."""

from amaranth.hdl import Mux

__all__ = ["rotate_left", "rotate_right"]


def rotate_left(value, amount, unit: int = 1):
    """Return `value` with all its groups of `unit` bits moved up by `amount` groups.

    The number of groups is a power of two, `amount` has that power's bits.
    """
    for step in range(len(amount)):
        value = Mux(amount[step], value.rotate_left(unit << step), value)
    return value


def rotate_right(value, amount, unit: int = 1):
    """Return `value` with all its groups of `unit` bits moved down by `amount` groups."""
    for step in range(len(amount)):
        value = Mux(amount[step], value.rotate_right(unit << step), value)
    return value
