"""Curves: every argument that differs, as by the definition and near the functions; cycles."""

import math
import random

import pytest

from matloom.arch.curves import ARGUMENT_SCALE, Curve, apply_curve
from matloom_rtl.post.curves import Curves
from matloom_rtl.testing import simulate

LANES = 4
#: Beyond these, results stay the same.
ENDS = {Curve.LOGISTIC: 2**17, Curve.TANH: 2**16}


def results_of(curve, arguments):
    """Return the results of arguments, LANES in each cycle, and the cycles until the last."""
    dut, found = Curves(LANES), []
    beats = [arguments[first : first + LANES] for first in range(0, len(arguments), LANES)]

    async def bench(ctx):
        ctx.set(dut.tanh, curve == Curve.TANH)
        for number in range(len(beats) + Curves.LATENCY):
            if number >= Curves.LATENCY:
                words = [ctx.get(dut.results[lane]) for lane in range(LANES)]
                found.extend((word ^ 2**15) - 2**15 for word in words)
            if number < len(beats):
                for lane, value in enumerate(beats[number]):
                    ctx.set(dut.values[lane], value)
            await ctx.tick()

    simulate(dut, bench, cycles=len(beats) + 20)
    return found


def check(curve, arguments):
    found = results_of(curve, arguments)
    assert found == [apply_curve(each, curve) for each in arguments]
    function = math.tanh if curve == Curve.TANH else lambda x: 1 / (1 + math.exp(-x))
    for argument, result in zip(arguments, found, strict=True):
        exact = function(max(-20, min(20, argument / ARGUMENT_SCALE)))
        assert abs(result / 2**15 - exact) < 1.2e-4


@pytest.mark.parametrize("curve", ENDS)
def test_random_arguments_one_in_each_cycle(seed, curve):
    generator, end = random.Random(seed), ENDS[curve]
    corners = [0, 1, -1, end - 1, end, end + 1, -end, 255 * 512 - 1, 2**31 - 1, -(2**31)]
    corners += [2**17, -(2**17), 2**18, 2**24 + 5]
    drawn = [generator.randint(-end - 500, end + 500) for _ in range(4000)]
    wide = [generator.randint(-(2**31), 2**31 - 1) for _ in range(50)]
    arguments = corners + drawn + wide
    check(curve, arguments[: len(arguments) // LANES * LANES])


@pytest.mark.slow
@pytest.mark.parametrize("curve", ENDS)
def test_all_arguments(curve):
    """All arguments are tried; a result depends on nothing else, so the test is exhaustive."""
    end = ENDS[curve]
    check(curve, list(range(-end - 512, end + 512)))
