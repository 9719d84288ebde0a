"""Reset follows the PLL's lock: long enough for the engine, and again if the lock is lost."""

from fractions import Fraction

import pytest

from matloom_rtl.board.clocking import Reset, pll_for
from matloom_rtl.testing import simulate


def test_reset_outlasts_the_lock():
    dut, held = Reset(), []

    async def run(ctx):
        for cycle in range(40):
            ctx.set(dut.locked, cycle >= 10)
            _, _, reset = await ctx.tick().sample(dut.reset)
            held.append(reset)

    simulate(dut, run, cycles=50)
    # Two cycles of the synchroniser, then LENGTH; it ends once and for all.
    end = held.index(0)
    assert 10 + Reset.LENGTH <= end <= 10 + Reset.LENGTH + 3
    assert not any(held[end:])


@pytest.mark.parametrize("gone", [1, 3])
def test_a_lost_lock_resets_again(gone):
    dut, held = Reset(), []

    async def run(ctx):
        for cycle in range(80):
            ctx.set(dut.locked, not 40 <= cycle < 40 + gone)
            _, _, reset = await ctx.tick().sample(dut.reset)
            held.append(reset)

    simulate(dut, run, cycles=100)
    first = held.index(1, 40)
    assert first <= 44
    length = held[first:].index(0)
    assert length >= Reset.LENGTH
    assert not any(held[first + length :])


def test_a_clock_twice_as_fast():
    """With a gear of 2 the oscillator (25 MHz / 3 * 68) is divided by a multiple of four."""
    pll = pll_for("ecp5", 25_000_000, 71_000_000, gear=2)
    assert (pll.oscillator_hz, pll.output_divider) == (Fraction(1_700_000_000, 3), 8)
    # Without it there is a nearer one, whose divider has no quarter: 25 / 2 * 17 / 3.
    assert pll_for("ecp5", 25_000_000, 71_000_000).output_divider % 4
    with pytest.raises(ValueError, match="gear must be 1 with a PLL of the GW2A, not 2"):
        pll_for("gowin", 27_000_000, 54_000_000, gear=2)


def test_families():
    assert pll_for("ecp5", 25_000_000, 75_000_000).output_hz == 75_000_000
    assert pll_for("gowin", 27_000_000, 54_000_000).output_hz == 54_000_000
    with pytest.raises(ValueError, match="PLL of the GW2A"):
        pll_for("gowin", 27_000_000, 1_000_000)
