"""SDRAM parts: cycles are rounded up, refreshes down; the message of each rule."""

import dataclasses

import pytest

from matloom.arch.sdram import SDRAMS, InvalidSdramError, load_sdram
from matloom.arch.sdram_timing import Delay

SIZES = {
    "IS42S16160": 32,
    "MT48LC16M16A2": 32,
    "AS4C32M16": 64,
    "W9825G6KH": 32,
    "M12L16161A": 2,
    "GW2AR-18": 8,
    "2 x M12L16161A": 4,
}


@pytest.mark.parametrize(("name", "mebibytes"), SIZES.items())
def test_sizes(name, mebibytes):
    assert load_sdram(name).bytes == mebibytes << 20


def test_every_part_has_a_size_here():
    assert set(SDRAMS) <= set(SIZES)


@pytest.mark.parametrize(
    ("delay", "clock", "cycles"),
    [
        (Delay(20), 100_000_000, 2),
        (Delay(20), 100_000_001, 3),
        (Delay(20), 50_000_000, 1),
        (Delay(20, 2), 50_000_000, 2),
        (Delay(cycles=2), 143_000_000, 2),
        (Delay(0.1), 1_000_000, 1),
    ],
)
def test_a_delay_is_never_shorter_than_asked(delay, clock, cycles):
    assert delay.at(clock) == cycles


@pytest.mark.parametrize("part", SDRAMS.values(), ids=SDRAMS)
@pytest.mark.parametrize("clock", [25_000_000, 85_000_000, 100_000_000, 133_000_000])
def test_no_row_waits_longer_than_its_data_sheet_says(part, clock):
    """Each refresh may be late by almost a period; the same row comes up once per round."""
    timing = part.timing(clock)
    longest = (part.refreshes + 1) * timing.refresh_due
    assert longest <= part.refresh_ms * clock // 1000 < longest + part.refreshes + 1
    assert timing.rc <= timing.ras + timing.rp + 1
    assert timing.power_up * 10**6 >= part.power_up_us * clock


def test_timing_at_twice_the_controllers_clock():
    """By hand, at 142 MHz (7.04 ns): 20, 45 and 70 ns are 3, 7 and 10 cycles, so 2, 4 and 5."""
    part = SDRAMS["IS42S16160"]
    own = part.timing_of_gear(71_000_000, 2)
    assert own == part.timing(142_000_000, 3)
    assert (own.rcd, own.rp, own.ras, own.rc, own.rfc, own.wr) == (3, 3, 7, 10, 10, 3)
    geared = own.for_gear(2)
    assert (geared.rcd, geared.rp, geared.ras, geared.rc, geared.rfc) == (2, 2, 4, 5, 5)
    assert (geared.wr, geared.cas_latency, geared.initial_refreshes) == (2, 2, 8)
    # 64 ms / 8,193 are 1,109 cycles, and 554: never later.
    assert (own.refresh_due, geared.refresh_due) == (1109, 554)
    assert 2 * geared.power_up >= own.power_up
    assert own.for_gear(1) == own
    assert part.timing_of_gear(71_000_000, 1) == part.timing(71_000_000)


def test_the_latency_is_the_least_that_the_clock_allows():
    part = SDRAMS["IS42S16160"]
    assert part.timing(100_000_000).cas_latency == 2
    assert part.timing(100_000_001).cas_latency == 3
    assert part.timing(85_000_000, 3).cas_latency == 3


def test_two_side_by_side():
    part = load_sdram("2 x M12L16161A")
    assert (part.data_bits, part.row_bytes, part.name) == (32, 1024, "2 x M12L16161A")
    assert load_sdram(part) is part


def test_names_of_parts_side_by_side():
    for count in (1, 2):
        part = SDRAMS["M12L16161A"].side_by_side(count)
        assert load_sdram(part.name) == part
    with pytest.raises(InvalidSdramError, match="data_bits must be 16 or 32, not 48"):
        load_sdram("3 x M12L16161A")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_bits": 8}, "data_bits must be 16 or 32, not 8"),
        ({"banks": 8}, "banks must be 2 or 4, not 8"),
        ({"rows": 3000}, "rows must be a power of two from 256 on, not 3000"),
        ({"columns": 2048}, r"columns must be at most 1024 \(A10 is no column\), not 2048"),
    ],
)
def test_a_part_that_cannot_be_is_refused(changes, message):
    with pytest.raises(InvalidSdramError, match=message):
        dataclasses.replace(SDRAMS["IS42S16160"], **changes)


@pytest.mark.parametrize(
    ("clock", "latency", "message"),
    [
        (144_000_000, None, "the clock of IS42S16160 must be at most 143000000, not 144000000"),
        (120_000_000, 2, "cas_latency must be 3 at 120000000 Hz, not 2"),
        (80_000_000, 1, "cas_latency must be 2 or 3 at 80000000 Hz, not 1"),
    ],
)
def test_a_clock_that_cannot_be_is_refused(clock, latency, message):
    with pytest.raises(InvalidSdramError, match=message):
        SDRAMS["IS42S16160"].timing(clock, latency)


@pytest.mark.parametrize("name", ["MT48", "two x IS42S16160", " x IS42S16160", "2 x MT48"])
def test_an_unknown_part_is_refused(name):
    with pytest.raises(InvalidSdramError, match="an SDRAM must be one of IS42S16160, "):
        load_sdram(name)
