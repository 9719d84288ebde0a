"""Sums by tables: words added as specified, and tables for the results of ADD."""

import random

import numpy as np
import pytest

from matloom.kernels.result_sums import sum_bytes, sum_table, table_sums

BYTES = np.arange(-128, 128)


def signed(value, bits):
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def test_words_are_added_and_limited():
    """As the instruction set defines it, byte by byte."""
    generator = random.Random(0)
    tables = np.random.default_rng(0).integers(0, 256, (4, 256), np.uint8)
    results, others = np.random.default_rng(1).integers(0, 256, (2, 50, 4), np.uint8)
    made = sum_bytes(tables, results, others)
    for _ in range(100):
        at, column = generator.randrange(50), generator.randrange(4)
        rows = (results[at, column] % 16, results[at, column] // 16)
        rows += (others[at, column] % 16, others[at, column] // 16)
        words = (
            int.from_bytes(tables[column, 16 * row + 4 * number :][:4].tobytes(), "little")
            for number, row in enumerate(rows)
        )
        total = signed(sum(words), 32) // 2**22
        assert made[at, column] == min(max(total, -128), 127) % 256


@pytest.mark.parametrize("slopes", [(0.7577, 0.5276), (1.0, 1.0), (0.5, 0.25), (0.1377, 0.9324)])
@pytest.mark.parametrize("constant", [0.50003, -17.25007, 60.12504])
def test_a_table_makes_all_sums(slopes, constant):
    first, second = slopes
    sums = np.floor(first * BYTES[:, None] + second * BYTES + constant)
    wanted = np.clip(sums, -128, 127).astype(np.int8)
    table = sum_table(wanted, slopes)
    assert table is not None
    assert np.array_equal(table_sums(table), wanted)


def test_no_table_for_other_functions_or_large_sums():
    first = np.clip(BYTES[:, None] * BYTES // 128, -128, 127).astype(np.int8)
    assert sum_table(first, (1.0, 1.0)) is None
    large = np.clip(4.5 * BYTES[:, None] + 4.5 * BYTES, -128, 127).astype(np.int8)
    assert sum_table(large, (4.5, 4.5)) is None


def test_sums_beyond_the_words_are_limited():
    """As of a byte of ten times the scale, whose sums would need more than ten bits."""
    slopes = (2.4557, 0.4783)
    sums = np.floor(slopes[0] * (BYTES[:, None] - 31) + slopes[1] * (BYTES + 128) - 127.50003)
    wanted = np.clip(sums, -128, 127).astype(np.int8)
    assert sums.min() < -512
    table = sum_table(wanted, slopes)
    assert table is not None
    assert np.array_equal(table_sums(table), wanted)
