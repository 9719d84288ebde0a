"""Building blocks of arithmetic units: registers, shifters, leading-zero counters."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data

__all__ = [
    "FP32_LAYOUT",
    "delay",
    "leading_zeros",
    "reduce_in_pairs",
    "reduction_latency",
    "register",
    "shift_left",
    "shift_right",
]

#: Fields of an fp32 number.
FP32_LAYOUT = data.StructLayout({"fraction": 23, "exponent": 8, "sign": 1})


def register(m: Module, value, name: str):
    """Return a register, without reset, that holds a value of the previous cycle."""
    later = Signal.like(value, name=name, reset_less=True)
    m.d.sync += later.eq(value)
    return later


def delay(m: Module, value, cycles: int, name: str):
    """Return a value `cycles` cycles later, delayed by registers without reset."""
    for cycle in range(cycles):
        value = register(m, value, f"{name}_{cycle}")
    return value


def reduce_in_pairs(m: Module, values: list, join, name: str):
    """Return all values combined by the associative `join` of two, as a tree.

    There is a register after each level, so that the latency is `reduction_latency`.
    """
    for stage in range(reduction_latency(len(values))):
        pairs = [values[index : index + 2] for index in range(0, len(values), 2)]
        values = [
            register(m, join(*pair) if pair[1:] else pair[0], f"{name}_{stage}_{index}")
            for index, pair in enumerate(pairs)
        ]
    return values[0]


def reduction_latency(count: int) -> int:
    """Return the latency of `reduce_in_pairs` for a number of values, in cycles."""
    return (count - 1).bit_length()


def leading_zeros(value):
    """Return the number of leading zeros of a value that is not zero.

    The logic is a tree of pairs, so its depth is logarithmic in the width.
    """
    below = (1 << (len(value) - 1).bit_length()) - len(value)
    _any, count = _count(Cat(Const((1 << below) - 1, below), value))
    return count


def _count(bits):
    """Return whether 2**n bits contain a one, and the number of zeros above the highest one."""
    if len(bits) == 2:
        return bits.any(), ~bits[1]
    half = len(bits) // 2
    low_any, low = _count(bits[:half])
    high_any, high = _count(bits[half:])
    return low_any | high_any, Cat(Mux(high_any, high, low), ~high_any)


def shift_left(value, count):
    """Return a value shifted left by `count` within its width.

    Each level of multiplexers handles two bits of the count.
    """
    return _shift(value, count, lambda each, places: (each << places)[: len(each)])


def shift_right(value, count, unit=1):
    """Return a value shifted right by ``count * unit`` bits.

    The lowest bit of the result is sticky: it is also set if any bit that was shifted out was.
    """
    return _shift(
        value,
        count,
        lambda each, places: Cat(each[: places + 1].any(), each[places + 1 :]),
        unit,
    )


def _shift(value, count, shifted, unit=1):
    """Return `value` shifted by `count` times `unit` places, two bits of `count` per multiplexer.

    `shifted` is a function that shifts a value by a constant.
    """
    width = len(value)
    for low in range(0, len(count), 2):
        places = unit << low
        once = Mux(count[low], shifted(value, places), value)[:width]
        if low + 1 < len(count):
            twice, thrice = shifted(value, 2 * places), shifted(value, 3 * places)
            once = Mux(count[low + 1], Mux(count[low], thrice, twice), once)[:width]
        value = once
    return value
