"""Algebra of the meaning check: numbers that represent unknown bytes, words and sums.

A known byte is represented by its value, -128 to 127. A byte that depends on the network's inputs
is represented by a *probe*, a pseudo-random number of at least `PROBE` derived from everything that
the byte depends on. Sums of products are computed from probes as from bytes, modulo 2**32. So two
sums are equal if they are the same linear map of the same bytes, and otherwise differ, except in
one case in millions. A non-linear result becomes a new probe, derived from its operand and
parameters.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matloom.arch.numerics import LIMBS, Rounding, low_nibble, wrap32
from matloom.meaning.hashing import Numbering, hash_key, hash_values, to_numbers

Integers = NDArray[np.int64]

#: Probes of bytes are PROBE plus 24 bits; bytes that nothing wrote are FREE plus 24 bits.
PROBE, FREE = 2**24, 2**25

#: Probes of words are WORD plus 30 bits, which distinguishes them from bytes.
WORD = 2**30

#: Number of products of 31-bit probes with bytes, or with 12-bit weights, whose sum stays below
#: 2**53.
_MAX_EXACT_TERMS = 2**13

#: Factor that splits a probe of a byte into a high and a low half.
_HALF_PROBE = 2**13

#: Multiplier and shift of the identity (`numerics.requantize`).
_IDENTITY = (2**30, 1)


def exact_product(rows: NDArray[np.float64], matrix: NDArray[np.float64]) -> Integers:
    """Return the exact matrix product of (..., inner) and (inner, outputs)."""
    if len(matrix) <= _MAX_EXACT_TERMS:
        return (rows @ matrix).astype(np.int64)
    total = np.zeros((*rows.shape[:-1], matrix.shape[1]), np.int64)
    for first in range(0, len(matrix), _MAX_EXACT_TERMS):
        part = slice(first, first + _MAX_EXACT_TERMS)
        total += (rows[..., part] @ matrix[part]).astype(np.int64)
    return total


def product_of_probes(rows: NDArray[np.float64], matrix: NDArray[np.float64]) -> Integers:
    """Return (..., inner) times (inner, outputs), of probes for unknowns, modulo 2**32."""
    high = np.floor(matrix / _HALF_PROBE)
    # Each half has 13 bits, so it is multiplied exactly.
    halves = [exact_product(rows, half) for half in (high, matrix - high * _HALF_PROBE)]
    return np.asarray(wrap32(wrap32(halves[0]) * _HALF_PROBE + halves[1]))


def _probes(values: Any, *keys: Any) -> Integers:
    """Return new numbers for unknown bytes, derived from `values` one by one, and from `keys`."""
    return to_numbers(hash_values(values, *keys), PROBE)


def fresh_probes(count: int, *keys: int, words: bool = False) -> Integers:
    """Return numbers (probes) for `count` unknown bytes or words; `keys` identify them."""
    return to_numbers(hash_values(np.arange(count), 1, *keys), WORD if words else PROBE)


def wrap(sums: Integers) -> NDArray[np.int32]:
    """Return sums modulo 2**32, like `numerics.wrap32` but in a single pass."""
    return sums.astype(np.int32)


def all_known(values: NDArray[np.float64]) -> bool:
    """Return whether all values are constant bytes, not numbers (probes) for unknown bytes."""
    return bool(values.min() >= -128 and values.max() <= 127)


def is_known(values: Any) -> NDArray[np.bool_]:
    """Return a mask of the values that are constant bytes, not probes (for unknown bytes)."""
    return np.asarray((values >= -128) & (values <= 127))


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Parameters of a requantisation: those of `numerics.requantize`, zero point and limits.

    `multiplier` and `shift` may vary by channel, the last axis. Results are from `low` to `high`
    (inclusive).
    """

    multiplier: Any = _IDENTITY[0]
    shift: Any = _IDENTITY[1]
    rounding: int = Rounding.DOUBLE
    pre_shift: int = 0
    zero: int = 0
    low: int = -128
    high: int = 127

    @property
    def linear(self) -> Any:
        """Whether each channel's sums are neither scaled nor rounded."""
        same = (self.multiplier == np.int64(_IDENTITY[0])) & (self.shift == np.int64(_IDENTITY[1]))
        return same & (not self.pre_shift) & (self.rounding != Rounding.FLOAT)


@dataclass(frozen=True, kw_only=True, eq=False)
class RequantisedTerm:
    """Requantisation of sums plus `bias` to results of a kind: ``"byte"``, ``"word"`` or ``"sum"``.

    Where nothing is rounded, results of kind ``"sum"`` are the sums, and single bytes or words are
    kept unless `scale` limits them further than their type. Sums that become zero under any
    rounding are zero. All other results are new probes, derived from the sum and all parameters. An
    instance serves many sums, because computing its keys takes time.
    """

    bias: Any
    scale: Scale
    kind: str = "byte"

    def apply(self, values: Integers) -> Integers:
        """Return the results, numbers or probes, for sums (..., channels)."""
        scale, linear = self.scale, self._linear
        if self.kind == "sum":
            rounded = self._numbering.apply(values, 2**31)
            rounded -= 2**32
            np.copyto(rounded, 0, where=self._vanishes(values))
            if not self._any_linear:
                return rounded
            return np.where(linear, wrap32(values + self._added_before), rounded)
        if scale.low == scale.high:
            return np.full(np.shape(values + self._added_before), scale.low, np.int64)
        first = WORD if self.kind == "word" else PROBE
        if not self._any_linear:
            return self._numbering.apply(values, first)
        moved = wrap32(values + self._added_before + scale.zero)
        same = to_numbers(hash_values(moved, 3, scale.low, scale.high), first)
        if (scale.low, scale.high) == ((-(2**15), 2**15 - 1) if first == WORD else (-128, 127)):
            same = np.where(_pass_unchanged(moved, self.kind), moved, same)
        if self._all_linear:
            return same
        return np.where(linear, same, self._numbering.apply(values, first))

    def _vanishes(self, values: Integers) -> NDArray[np.bool_]:
        """Return a mask of the sums whose result is zero under any rounding.

        These sums are zero with the bias, or the multiplier is zero, and nothing is added after
        rounding.
        """
        zero = np.equal(values, self._cancelling_sums)
        if self._scaled_away is not None:
            zero = zero | self._scaled_away
        return np.asarray(
            zero if self._adds_nothing_after is None else zero & self._adds_nothing_after
        )

    @cached_property
    def _cancelling_sums(self) -> Any:
        """Sums that the bias cancels before scaling: its negative, an integer or by channel."""
        return -self._added_before

    @cached_property
    def _scaled_away(self) -> Any:
        """Mask of the channels whose multiplier is zero; None if there are none."""
        zero = np.equal(self.scale.multiplier, 0)
        return zero if zero.any() else None

    @cached_property
    def _adds_nothing_after(self) -> Any:
        """Mask of the channels to which nothing is added after rounding; None if these are all."""
        stays = np.equal(self._added_after, 0)
        return None if stays.all() else stays

    @cached_property
    def _numbering(self) -> Numbering:
        """Hash function from sums to the numbers for their unknown results."""
        return Numbering(self._parameters_key, self._added_before)

    @cached_property
    def _added_before(self) -> Any:
        """Addend before rounding: the bias, but 0 if the rounding is that of averages."""
        return 0 if self.scale.rounding == Rounding.AVERAGE else self.bias

    @cached_property
    def _added_after(self) -> Any:
        """Addend after rounding: the bias if the rounding is that of averages, else 0."""
        return self.bias if self.scale.rounding == Rounding.AVERAGE else 0

    @cached_property
    def _linear(self) -> Any:
        """Whether the requantisation neither scales nor rounds, for each channel."""
        return self.scale.linear & np.equal(self._added_after, 0)

    @cached_property
    def _any_linear(self) -> bool:
        """Whether any channel is neither scaled nor rounded."""
        return bool(np.any(self._linear))

    @cached_property
    def _all_linear(self) -> bool:
        """Whether no channel is scaled or rounded."""
        return bool(np.all(self._linear))

    @cached_property
    def _parameters_key(self) -> Any:
        """Hash key of the parameters; the numbers for unknown rounded results derive from it."""
        scale = self.scale
        limits = () if self.kind == "sum" else (scale.zero, scale.low, scale.high)
        settings = (2, int(scale.rounding), scale.pre_shift)
        return hash_key(*settings, *limits, self._added_after, scale.multiplier, scale.shift)


def requantise(values: Integers, bias: Any, scale: Scale, kind: str = "byte") -> Integers:
    """Return the results of requantising sums, for a single use (see `RequantisedTerm`)."""
    return RequantisedTerm(bias=bias, scale=scale, kind=kind).apply(values)


def _pass_unchanged(values: Integers, kind: str) -> NDArray[np.bool_]:
    """Return a mask of the sums that pass unchanged: bytes and their complements, or words."""
    size = np.abs(values)
    if kind == "byte":
        return size < 2 * FREE
    return (size <= 2**15) | (values >= WORD)


def limbs(sums: Integers) -> list[Integers]:
    """Return the four byte limbs that POST writes for sums (`numerics.to_limbs`), lowest first."""
    return [
        requantise(
            sums, 0, Scale(shift=shift, rounding=Rounding.SINGLE, pre_shift=pre_shift), "byte"
        )
        for pre_shift, shift in LIMBS
    ]


def join_words(low: Integers, high: Integers) -> Integers:
    """Return words joined from low bytes, which are taken as unsigned, and high bytes."""
    return np.asarray(wrap32(low + 256 * (is_known(low) & (low < 0)) + 256 * high))


def split_words(words: Integers) -> tuple[Integers, Integers]:
    """Return the low and high bytes of words: the inverse of `join_words`."""
    known = np.abs(words) <= 2**15
    hashes = (hash_values(words >> 8, 4) >> np.uint64(48)).astype(np.int64)
    low = PROBE + (hashes << 8) + (words & 255)
    known_low = ((words & 255) ^ 128) - 128
    return np.where(known, known_low, low), np.where(known, words, words - low) >> 8


def apply_curve(arguments: Integers, curve: int) -> Integers:
    """Return what the function `curve` of POST makes of scaled sums: numbers for unknown words."""
    return to_numbers(hash_values(arguments, 9, curve), WORD)


def nibbles(values: Integers) -> Integers:
    """Return the low four bits of bytes: signed numbers, or probes (for unknown bytes)."""
    return np.where(is_known(values), low_nibble(values), _probes(values, 5))


def peaks(values: Integers) -> Integers:
    """Encode bytes so that the sum of several codes stands for the maximum of the bytes.

    The code of -128 is zero, as it never raises a maximum.
    """
    return np.where(values == -128, 0, to_numbers(hash_values(values, 6), 2**30))


def pool_maximum(values: Integers) -> Integers:
    """Return probes for maxima of 2 x 2 blocks of bytes (rows, positions, channels)."""
    rows, positions, channels = values.shape
    blocks = peaks(values).reshape(rows // 2, 2, positions // 2, 2, channels)
    return requantise(blocks.sum(axis=(1, 3)), 0, Scale())


def look_up(tables: Integers, values: Integers) -> Integers:
    """Return the entries of lookup tables for bytes (..., channels); hashes for unknown bytes.

    `tables` are (tables, 256), with entry n for unsigned byte n; channel c uses table c modulo the
    number of tables.
    """
    known = is_known(values)
    keys = hash_values(tables, np.arange(256)).sum(axis=-1, dtype=np.uint64) >> np.uint64(1)
    column = np.arange(values.shape[-1]) % len(tables)
    entries = tables[column, np.where(known, values, 0) & 255]
    key = int(keys[0]) if len(keys) == 1 else keys.astype(np.int64)[column]
    return np.where(known, entries, _probes(values, 7, key))


def apply_softmax(exponentials: Integers, rows: Integers) -> Integers:
    """Return probes for the SOFTMAX of rows (..., elements).

    `exponentials` are the bytes (1024,) of its table of exponentials.
    """
    places = np.arange(rows.shape[-1])
    of_table = hash_values(exponentials, np.arange(len(exponentials))).sum(dtype=np.uint64)
    of_row = hash_values(rows, places).sum(axis=-1, keepdims=True, dtype=np.uint64)
    keys = (each >> np.uint64(1) for each in (of_table, of_row))
    return _probes(rows, 8, *keys)
