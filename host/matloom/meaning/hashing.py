"""Hash functions of the meaning check: pseudo-random numbers from all bits of their operands."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_Integers = NDArray[np.int64]

#: From splitmix64, whose finaliser is a bijection of 64 bits.
_FACTORS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_ALL_ONES = 2**64 - 1
_FIRST, _SECOND, _ADDED = (np.uint64(factor) for factor in _FACTORS)
_LAST_STEP = 27
_HALF, _ROTATION, _LAST_ROTATION = np.uint64(32), np.uint64(30), np.uint64(_LAST_STEP)
_LOW_HALF, _FIRST_MOVED = np.uint64(2**32 - 1), np.uint64(_FACTORS[0] << 32 & _ALL_ONES)

#: Numbers that `Numbering` processes at a time, so that they stay in the cache.
_BATCH_NUMBERS = 1 << 14


def _mix_bits(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each 64-bit word."""
    # In place, because this dominates checks of many small tiles.
    bits = bits * _FIRST
    bits += _ADDED
    bits ^= bits >> _ROTATION
    bits *= _SECOND
    bits ^= bits >> _LAST_ROTATION
    return bits


def _mix_number(bits: int) -> int:
    """Return the hash of a single 64-bit integer, as `_mix_bits` does for arrays."""
    bits = (bits * _FACTORS[0] + _FACTORS[2]) & _ALL_ONES
    bits = ((bits ^ (bits >> 30)) * _FACTORS[1]) & _ALL_ONES
    return bits ^ (bits >> 27)


def hash_key(*keys: Any) -> Any:
    """Hash several integers, or arrays of them, into one key."""
    key: Any = 0
    with np.errstate(over="ignore"):
        for item in keys:
            # A number and an array of equal numbers give the same key.
            if isinstance(item, int) and isinstance(key, int):
                key = _mix_number((key + item) & _ALL_ONES)
            else:
                before = np.uint64(key) if isinstance(key, int) else key
                key = _mix_bits(before + np.asarray(item, np.int64).astype(np.uint64))
        return np.uint64(key) if isinstance(key, int) else key


def hash_values(values: Any, *keys: Any) -> NDArray[np.uint64]:
    """Return 64 pseudo-random bits for each of `values`, derived from the value and from `keys`.

    Keys are integers, or arrays that broadcast to the values.
    """
    with np.errstate(over="ignore"):
        return _mix_bits(np.asarray(values, np.int64).astype(np.uint64) ^ hash_key(*keys))


def to_numbers(bits: NDArray[np.uint64], first: int) -> _Integers:
    """Map each hash to an integer from `first`, a power of two, to twice `first` (exclusive)."""
    size = first.bit_length() - 1
    return ((bits >> np.uint64(64 - size)) | np.uint64(first)).view(np.int64)


class Numbering:
    """Hash function of sums modulo 2**32 that depends on a key for each channel.

    The hash is `_mix_bits` of the sum in the high half of a word, XOR the key. It is computed in
    fewer passes over the sums: the high half of the key is combined with sums before they move to
    the high half, and the low half is included in the constant that `_mix_bits` adds.

    Parameters
    ----------
    key, bias:
        An integer, or one for each channel; the bias is added to the sums first.
    """

    def __init__(self, key: Any, bias: Any) -> None:
        keys = np.atleast_1d(np.asarray(key, np.uint64))
        added = (keys & _LOW_HALF) * _FIRST + _ADDED
        biases = np.atleast_1d(np.asarray(bias, np.int64))
        self._channels = max(len(keys), len(biases))
        #: For each channel: bias, high half of the key, and the constant with its low half.
        self._numbers = biases, (keys >> _HALF).view(np.int64), added
        self._repeated: tuple[NDArray[Any], ...] = self._numbers

    def apply(self, sums: _Integers, first: int) -> _Integers:
        """Return hashes of sums (..., channels) from `first`, a power of two, to twice `first`.

        The end is exclusive. `sums` are not changed.
        """
        numbers: _Integers = np.array(sums, np.int64, order="C")
        flat = numbers.reshape(-1)
        some = max(1, _BATCH_NUMBERS // self._channels) * self._channels
        for start in range(0, len(flat), some):
            self._finish(flat[start : start + some], first)
        return numbers

    def _finish(self, numbers: _Integers, first: int) -> None:
        """Replace sums by their hashes in place; `numbers` holds all channels of each position."""
        biases, high, added = self._for_each(len(numbers))
        numbers += biases
        numbers ^= high
        bits = numbers.view(np.uint64)
        bits *= _FIRST_MOVED
        bits += added
        bits ^= bits >> _ROTATION
        bits *= _SECOND
        size = first.bit_length() - 1
        if size > _LAST_STEP:
            # The step leaves this many high bits unchanged.
            bits ^= bits >> _LAST_ROTATION
        bits >>= np.uint64(64 - size)
        bits |= np.uint64(first)

    def _for_each(self, count: int) -> tuple[NDArray[Any], ...]:
        """Return the bias and the constants of each channel, repeated for `count` sums.

        With one channel, return just one each. They are repeated in memory, because NumPy takes
        several times as long to broadcast arrays of few channels.
        """
        if self._channels == 1:
            return self._numbers
        if len(self._repeated[0]) < count:
            shape = -(-count // self._channels), self._channels
            self._repeated = tuple(
                np.broadcast_to(each, shape).reshape(-1) for each in self._numbers
            )
        biases, high, added = self._repeated
        return biases[:count], high[:count], added[:count]
