"""Floating-point numbers in the meaning check: probes of elements, weights and results.

Sums are linear in the probes of elements: the check shows that each product occurs once, but not
the order of additions.
"""

from typing import Any

import numpy as np

from matloom.meaning.hashing import hash_values
from matloom.meaning.terms import PROBE, Integers, is_known

#: fp32 -0, the neutral element of addition.
NEGATIVE_ZERO = -(2**31)

#: Patterns of fp8_e5m2 that impose no limit.
_NO_LIMITS = (0xFC, 0x7C)


def element_probes(parts: list[Integers]) -> Integers:
    """Return a number for each unknown element, made of the numbers of its bytes; 0 for +0.

    `parts` has an array for each byte of an element, lowest first.
    """
    known = np.logical_and.reduce([is_known(part) for part in parts])
    zero = np.logical_and.reduce([part == 0 for part in parts])
    bits = hash_values(parts[0], 11, len(parts), *parts[1:])
    probes = (bits >> np.uint64(40)).astype(np.int64) + PROBE
    return np.where(known & zero, 0, probes)


def weight_probes(patterns: Integers) -> Integers:
    """Return the number, from 1 to 4096, that represents each bit pattern of a weight; 0 for +0."""
    bits = hash_values(patterns, 12) >> np.uint64(52)
    return np.where(patterns == 0, 0, bits.astype(np.int64) + 1)


def limit_sums(sums: Integers, bias: Any, low: int, high: int) -> Integers:
    """Return probes (numbers for unknowns) of sums plus a bias, clamped from `low` to `high`.

    Sums with neither are unchanged.

    `bias` holds fp32 bit patterns, `low` and `high` are fp8_e5m2 patterns.
    """
    limits = (low & 255, high & 255)
    probes = (hash_values(sums, 13, bias, *limits) >> np.uint64(32)).astype(np.int64) - 2**31
    if limits != _NO_LIMITS:
        return probes
    return np.where(np.equal(bias, NEGATIVE_ZERO), sums, probes)


def element_bytes(results: Integers, form: int, size: int) -> list[Integers]:
    """Return probes (numbers for unknown bytes) for the bytes of results, lowest first.

    `form` is the code of their floating-point format, of `size` bytes.
    """
    return [
        (hash_values(results, 14, form, place) >> np.uint64(40)).astype(np.int64) + PROBE
        for place in range(size)
    ]
