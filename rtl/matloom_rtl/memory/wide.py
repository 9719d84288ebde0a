"""How paths of many bytes are written so that what is idle costs neither power nor simulation."""

from contextlib import AbstractContextManager, nullcontext

from amaranth.hdl import Cat, Module, Mux, Signal

__all__ = ["bytes_of", "choices", "passing", "pick", "when"]


def passing(m: Module, valid, cycles: int):
    """Return whether something passes in each of the `cycles` cycles behind `valid`.

    `valid` of None is a path that never rests, and so are the items.
    """
    items = []
    for cycle in range(cycles):
        if valid is not None:
            later = Signal(name=f"passing_{cycle}")
            m.d.sync += later.eq(valid)
            valid = later
        items.append(valid)
    return items


def when(m: Module, condition) -> AbstractContextManager:
    """Return the context of assignments under a condition, of all of them where it is None."""
    return nullcontext() if condition is None else m.If(condition)


def bytes_of(name: str, count: int, *, apart: bool):
    """Return registers of bytes, each with a name of its own where they are `apart`."""
    if apart:
        return [Signal(8, name=f"{name}_{index}", reset_less=True) for index in range(count)]
    register = Signal(8 * count, name=name, reset_less=True)
    return [register.word_select(index, 8) for index in range(count)]


def choices(m: Module, which, ones, zeros, firsts):
    """Return, a cycle later, for each bit of `which` one of two numbers, without its lowest bits.

    That is ``(ones if which[i] else zeros)[firsts[i]:]``; `firsts` never fall. A register holds
    one bit of all of them, so that they are made by a few operations on vectors.
    """
    planes = []
    for bit, (one, zero) in enumerate(zip(ones, zeros, strict=True)):
        mine = which[: sum(first <= bit for first in firsts)]
        of_one, of_zero = one.replicate(len(mine)), zero.replicate(len(mine))
        plane = Signal(len(mine), name=f"choice_{bit}", reset_less=True)
        m.d.sync += plane.eq((mine & of_one) | (~mine & of_zero))
        planes.append(plane)
    return [Cat(plane[index] for plane in planes[first:]) for index, first in enumerate(firsts)]


def pick(candidates, choice):
    """Return the candidate of a number, the last where there is none; a tree, two by two."""
    for bit in choice:
        pairs = [candidates[index : index + 2] for index in range(0, len(candidates), 2)]
        candidates = [Mux(bit, pair[-1], pair[0]) for pair in pairs]
    return candidates[0]
