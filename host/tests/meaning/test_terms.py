"""Probe algebra: values stay the same where lanes pass them unchanged, and differ elsewhere."""

import itertools

import numpy as np
import pytest

from matloom.arch.numerics import LIMBS, Rounding, low_nibble, requantize
from matloom.meaning.hashing import Numbering
from matloom.meaning.terms import (
    FREE,
    PROBE,
    Scale,
    fresh_probes,
    is_known,
    join_words,
    limbs,
    look_up,
    nibbles,
    peaks,
    requantise,
    split_words,
)

EVERY_BYTE = np.arange(-128, 128)
ROUNDINGS = (Rounding.DOUBLE, Rounding.SINGLE, Rounding.AVERAGE)
CHANGES = (
    {"multiplier": 2**30 + 1},
    {"shift": 0},
    {"pre_shift": 1},
    {"zero": 1},
    {"low": -127},
    {"high": 126},
)


def splitmix64(number):
    """Return the finaliser of splitmix64 of `number`, in the order of the factors of `hashing`."""
    number = (number * 0x9E3779B97F4A7C15 + 0x94D049BB133111EB) % 2**64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    return number ^ number >> 27


@pytest.mark.parametrize("first", [2**24, 2**30, 2**31])
def test_numbering_hashes_the_sum_above_and_the_key_below(first):
    sums = np.array([[-(2**31), -1, 0], [1, 12345, 2**31 - 1]], np.int64)
    keys, bias = [0, 2**64 - 1, 0x0123456789ABCDEF], [0, -7, 2**31 - 1]
    found = Numbering(np.array(keys, np.uint64), np.array(bias)).apply(sums, first)
    for row, numbers in zip(sums.tolist(), found.tolist(), strict=True):
        for each, key, more, number in zip(row, keys, bias, numbers, strict=True):
            bits = splitmix64((each + more) % 2**32 << 32 ^ key)
            assert number == first + bits // (2**64 // first)


def test_many_sums_are_hashed_like_few():
    sums = np.random.default_rng(0).integers(-(2**31), 2**31, (7000, 3))
    numbering = Numbering(np.array([3, 5, 8], np.uint64), np.array([0, -7, 11]))
    few = [numbering.apply(sums[first : first + 10], 2**24) for first in range(0, 7000, 10)]
    assert np.array_equal(numbering.apply(sums, 2**24), np.concatenate(few))


def test_probes_differ_from_bytes_and_from_each_other():
    probes = fresh_probes(10_000, 7)
    assert probes.min() >= PROBE
    assert probes.max() < FREE
    assert not is_known(probes).any()
    assert len(np.unique(probes)) > 9_980
    assert np.isin(probes, fresh_probes(10_000, 8)).sum() < 30
    assert is_known(EVERY_BYTE).all()


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_unchanged_probes_pass_a_lane_unchanged(rounding):
    scale = Scale(rounding=rounding)
    values = np.arange(-1000, 1000)
    assert np.array_equal(requantize(values, scale.multiplier, scale.shift, rounding), values)
    probes = fresh_probes(100, 1)
    assert np.array_equal(requantise(probes, 0, scale), probes)
    assert np.array_equal(requantise(EVERY_BYTE, 0, scale), EVERY_BYTE)
    assert np.array_equal(requantise(values, 0, scale, "sum"), values)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
@pytest.mark.parametrize("base", [{}, {"multiplier": 1_500_000_000, "shift": -7}])
def test_every_parameter_changes_the_result(change, base):
    sums = fresh_probes(500, 2) * 37
    plain = requantise(sums, 11, Scale(**base))
    assert (requantise(sums, 11, Scale(**{**base, **change})) != plain).all()
    assert (requantise(sums, 12, Scale(**base)) != plain).all()
    assert (requantise(sums + 1, 10, Scale(**base)) == plain).all()


def test_rounding_rules_and_the_bias_of_an_average_differ():
    sums = fresh_probes(500, 3)
    made = [
        requantise(sums, 4, Scale(multiplier=1_500_000_000, rounding=rounding))
        for rounding in ROUNDINGS
    ]
    assert all((first != second).all() for first, second in itertools.combinations(made, 2))
    average = Scale(multiplier=1_500_000_000, rounding=Rounding.AVERAGE)
    # Away from zero: that is not the sum with a larger one.
    assert (requantise(sums + 1, 3, average) != requantise(sums, 4, average)).all()


def test_channels_have_scales_of_their_own():
    multipliers = np.array([2**30, 1_500_000_000, 1_500_000_001])
    shifts = np.array([1, -3, -3])
    sums = np.stack([fresh_probes(50, 4)] * 3, axis=-1)
    together = requantise(sums, 0, Scale(multiplier=multipliers, shift=shifts))
    for channel in range(3):
        scale = Scale(multiplier=int(multipliers[channel]), shift=int(shifts[channel]))
        assert np.array_equal(together[:, channel], requantise(sums[:, channel], 0, scale))
    assert (together[:, 1] != together[:, 2]).all()


def test_limits_that_meet_make_a_constant():
    assert (requantise(fresh_probes(9, 5), 0, Scale(low=-7, high=-7)) == -7).all()


def test_words_are_their_bytes():
    words = np.concatenate([fresh_probes(1000, 6, words=True), np.arange(-(2**15), 2**15)])
    low, high = split_words(words)
    assert np.array_equal(join_words(low, high), words)
    raw = np.arange(-(2**15), 2**15).astype("<i2").view(np.int8).reshape(-1, 2)
    assert np.array_equal(low[1000:], raw[:, 0])
    assert np.array_equal(high[1000:], raw[:, 1])
    every = Scale(low=-(2**15), high=2**15 - 1)
    assert np.array_equal(requantise(words, 0, every, "word"), words)


def test_each_limb_of_a_sum_is_another_byte():
    made = limbs(fresh_probes(100, 9))
    assert len(made) == len(LIMBS)
    assert all((first != second).any() for first, second in itertools.combinations(made, 2))


def test_tables_keep_constants_and_are_distinguished():
    table = np.roll(EVERY_BYTE, 5)[np.newaxis]
    assert np.array_equal(look_up(table, EVERY_BYTE), table[0, EVERY_BYTE & 255])
    probes, other = fresh_probes(300, 10), table.copy()
    other[0, 17] += 1
    assert (look_up(table, probes) != look_up(other, probes)).all()


def test_nibbles_of_constants_are_numbers():
    assert np.array_equal(nibbles(EVERY_BYTE), low_nibble(EVERY_BYTE))
    probes = fresh_probes(300, 11)
    assert (nibbles(probes) != probes).all()


def test_the_minimum_does_not_affect_a_maximum():
    assert peaks(np.array([-128]))[0] == 0
    assert (peaks(EVERY_BYTE[1:]) > 0).all()
