"""Parity of the accumulators: one bit for each sum, checked whenever the sum is used."""

from amaranth.hdl import Cat, Module, Signal, Value

from matloom_rtl.array.cells import delay

__all__ = ["SUM_BITS", "check", "with_parity", "without_parity"]

#: Width of a sum with its parity bit.
SUM_BITS = 33

#: Number of bits whose parity takes one level of logic: the inputs of a lookup table.
_LEVEL = 4


def _slices(value: Value, bits: int) -> list[Value]:
    """Return a value as a list of parts of `bits` bits each, lowest first."""
    return [value[low : low + bits] for low in range(0, len(value), bits)]


def with_parity(sums: Value) -> Value:
    """Return 32-bit sums with an even parity bit above each."""
    return Cat(Cat(each, each.xor()) for each in _slices(sums, SUM_BITS - 1))


def without_parity(stored: Value) -> Value:
    """Return stored sums of `SUM_BITS` bits without their parity bits."""
    return Cat(each[:-1] for each in _slices(stored, SUM_BITS))


def check(m: Module, index: str, fetch, store, fetched) -> Signal:
    """Return two flags: a parity error in an entry used by the array, and by post-processing.

    They are valid three cycles after the request, two after `fetched`.

    Parameters
    ----------
    index:
        Index of the bank, for names.
    fetch, store:
        Read and write port of the bank's memory.
    fetched:
        The request whose stored sums `fetch` shows in the same cycle.
    """
    meets = delay(m, store.en.any() & (store.addr == fetch.addr), name=f"meets_{index}")
    used = (fetched.read | ~fetched.replace | fetched.maximum) & ~meets
    users = Cat(fetched.sum, fetched.update | fetched.read) & used.replicate(2)
    users = delay(m, users, reset=True, name=f"users_{index}")
    # One level of logic after the memory, the rest a cycle later.
    sums = _slices(fetch.data, SUM_BITS)
    found = Cat(part.xor() for each in sums for part in _slices(each, _LEVEL))
    kept = delay(m, found, name=f"parities_{index}")
    odd = Cat(each.xor() for each in _slices(kept, len(found) // len(sums)))
    wrong = Signal(2, name=f"wrong_{index}")
    m.d.sync += wrong.eq(users & odd.any().replicate(2))
    return wrong
