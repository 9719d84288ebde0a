"""Multiplexer with a binary select, built from few logic tables."""

from collections.abc import Sequence

from amaranth.hdl import Mux, Value, ValueLike

__all__ = ["choose"]


def choose(values: Sequence[ValueLike], number: Value) -> Value:
    """Return the item of `values` at index `number`; undefined if the index is out of range.

    Each bit of the index controls a level of two-way multiplexers. An `Array` would become a
    multiplexer with a one-hot select, which has twice the inputs.
    """
    if len(values) == 1:
        return Value.cast(values[0])
    bit = (len(values) - 1).bit_length() - 1
    low, high = (choose(each, number) for each in (values[: 1 << bit], values[1 << bit :]))
    return Mux(number[bit], high, low)
