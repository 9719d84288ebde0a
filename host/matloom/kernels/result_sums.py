"""Adds two bytes with POST's tables, and finds the tables that reproduce an ADD."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from matloom.arch.result_sums import FRACTION_BITS, ROWS, WORDS
from matloom.ir.graph import Array, Graph, Node
from matloom.kernels.elementwise import add

_BYTES = np.arange(-128, 128)
#: Largest deviation from the exact factor that is tried.
_TRIED_FACTORS = 4
#: Range of sums of words; a sum below `_LOW` gives the byte -128, one above `_HIGH` gives 127.
_SMALLEST, _LARGEST = -(1 << 31), (1 << 31) - 1
_LOW, _HIGH = -127 << FRACTION_BITS, (127 << FRACTION_BITS) - 1


def sum_bytes(
    tables: NDArray[np.uint8], first_bytes: NDArray[np.uint8], second_bytes: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return the sums of two arrays of bytes (..., columns), by the tables (256,) of the columns.

    `tables` are (n, 256); column c of the arrays uses table c modulo n.
    """
    words = _table_words(tables)
    columns = np.arange(first_bytes.shape[-1]) % len(words)
    rows = (first_bytes & 15, first_bytes >> 4, second_bytes & 15, second_bytes >> 4)
    total = np.zeros(first_bytes.shape, np.uint32)
    for number, row in enumerate(rows):
        total += words[columns, row, number]
    return _clamp_to_int8(total).view(np.uint8)


def _table_words(tables: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return tables (n, 256) as words of 32 bits: (n, 16, 4), one row for each half of a byte."""
    return np.ascontiguousarray(tables).view("<u4").reshape(-1, ROWS, WORDS)


def _clamp_to_int8(totals: NDArray[np.uint32]) -> NDArray[np.int8]:
    """Return sums of words as bytes: without their `FRACTION_BITS`, clamped to int8."""
    sums = totals.view(np.int32) >> FRACTION_BITS
    limited: NDArray[np.int8] = np.clip(sums, -128, 127).astype(np.int8)
    return limited


def add_results(graph: Graph, node: Node) -> Array:
    """Return the results of an ADD for all pairs of int8: (first operand, second operand)."""
    every = _BYTES.astype(np.int8)
    return add(graph, node, (every.reshape(-1, 1), every.reshape(1, -1)))


def table_sums(table: NDArray[np.uint8]) -> NDArray[np.int8]:
    """Return the sums of all pairs of int8, computed with a table (256,): int8 (256, 256)."""
    (words,), every = _table_words(table.reshape(1, -1)), _BYTES.astype(np.uint8)
    low, high = every & 15, every >> 4
    parts = (words[low, 0] + words[high, 1], words[low, 2] + words[high, 3])
    return _clamp_to_int8(np.add.outer(*parts))


def sum_table(sums: NDArray[np.int8], slopes: tuple[float, float]) -> NDArray[np.uint8] | None:
    """Return a table by which POST adds two bytes, with the results `sums`; None if none is found.

    Apart from rounding and clamping, a sum is ``first * byte + second * other + constant``, in
    units of 2**-22. Factors near the slopes are tried; for each pair, a range of constants may fit.

    Parameters
    ----------
    sums:
        Sum of each pair of bytes, int8 (256, 256); both axes start at the byte -128.
    slopes:
        Scales of the first and of the second operand, each divided by the scale of the sum.
    """
    wanted = sums.astype(np.int64) << FRACTION_BITS
    first, second = (round(slope * 2**FRACTION_BITS) for slope in slopes)
    for more, also in _factor_deviations():
        factors = first + more, second + also
        made = factors[0] * _BYTES[:, None] + factors[1] * _BYTES
        # A limit is also reached from beyond.
        lowest = (wanted - made)[sums > _BYTES[0]].max(initial=-(1 << 31))
        highest = (wanted + (1 << FRACTION_BITS) - 1 - made)[sums < _BYTES[-1]].min(
            initial=(1 << 31) - 1
        )
        if lowest <= highest:
            table = _linear_table(factors, int(lowest + highest) // 2)
            return table if np.array_equal(table_sums(table), sums) else None
    return None


def _factor_deviations() -> Iterator[tuple[int, int]]:
    """Yield pairs of numbers to add to the exact factors of `sum_table`, the smallest first."""
    near = range(-_TRIED_FACTORS, _TRIED_FACTORS + 1)
    yield from sorted(((a, b) for a in near for b in near), key=lambda pair: sum(map(abs, pair)))


def _linear_table(factors: tuple[int, int], constant: int) -> NDArray[np.uint8]:
    """Return the table, uint8 (256,), that adds two bytes times their factors and a constant.

    Words are corrected where their sums would exceed 32 bits, as far as that is possible.
    """
    low = np.arange(ROWS)
    # The high half of a byte has its sign.
    high = 16 * ((low ^ 8) - 8)
    words = [factor * part for factor in factors for part in (low, high)]
    words[0] = words[0] + constant
    for at in (1, 3):
        others = [word for number, word in enumerate(words) if number != at]
        words[at] = words[at] + _overflow_correction(words[at], others)
    return np.stack(words, axis=1).astype(np.uint32).astype("<u4").view(np.uint8).reshape(-1)


def _overflow_correction(
    words: NDArray[np.int64], others: list[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Return numbers that keep sums of these words and any others within 32 bits.

    Only sums that are clamped to int8 in any case are changed, and they must still be clamped.
    """
    lowest = words + sum(int(each.min()) for each in others)
    highest = words + sum(int(each.max()) for each in others)
    more, less = np.maximum(_SMALLEST - lowest, 0), np.maximum(highest - _LARGEST, 0)
    return np.where(highest + more < _LOW, more, 0) - np.where(lowest - less > _HIGH, less, 0)
