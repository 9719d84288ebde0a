"""Multipliers that round like ONNX Runtime: sum by sum, and against the runtime itself."""

import numpy as np
import pytest

from matloom.arch.numerics import Rounding, requantize
from matloom.frontend.onnx.steps import fit_multipliers, requantise


def results(sums, multiplier, shift):
    return np.clip(requantize(sums, int(multiplier), int(shift), Rounding.SINGLE), -128, 127)


def draw(seed, channels):
    generator = np.random.default_rng(seed)
    scale = np.exp(generator.uniform(np.log(1e-4), np.log(0.3), channels)).astype(np.float32)
    reach = -generator.integers(2000, 60000, channels), generator.integers(2000, 60000, channels)
    return scale, reach


def test_every_sum_that_is_reached_is_rounded_as_there():
    scale, reach = draw(0, 60)
    found = fit_multipliers(scale, reach, (-128, 127))
    proven = np.nonzero(found.differing == 0)[0]
    assert found.absent == ()
    assert len(proven) > 50
    for at in proven:
        sums = np.arange(reach[0][at], reach[1][at] + 1)
        wanted = np.clip(requantise(sums, scale[at]), -128, 127)
        np.testing.assert_array_equal(results(sums, *found.data[:, at]), wanted)


def test_sums_that_are_rounded_otherwise_are_counted():
    """If no multiplier is exact, the stated number of sums differ, each by one."""
    scale, reach = draw(0, 60)
    scale[:2] = 0.5, 0.375
    reach = reach[0] * 20, reach[1] * 20
    found = fit_multipliers(scale, reach, (-100, 155))
    differing = np.nonzero(found.differing)[0]
    assert len(differing) > 2
    for at in differing:
        sums = np.arange(reach[0][at], reach[1][at] + 1)
        wanted = np.clip(requantise(sums, scale[at]), -100, 155)
        made = requantize(sums, *map(int, found.data[:, at]), Rounding.SINGLE)
        off = np.abs(np.clip(made, -100, 155) - wanted)
        assert off.max() == 1
        assert off.sum() == found.differing[at]


def test_a_repaired_channel_needs_another_multiplier_than_the_nearest():
    scale, reach = draw(3, 60)
    found = fit_multipliers(scale, reach, (-128, 127))
    repaired = np.nonzero(found.repaired)[0]
    assert len(repaired) > 0
    for at in repaired:
        sums = np.arange(reach[0][at], reach[1][at] + 1)
        wanted = np.clip(requantise(sums, scale[at]), -128, 127)
        shift = int(found.data[1, at])
        nearest = round(float(scale[at]) * 2 ** (31 - shift))
        assert (results(sums, nearest, shift) != wanted).any()
        assert (results(sums, *found.data[:, at]) == wanted).all()


def test_another_multiplier_moves_a_step():
    """The proof notices a multiplier just large enough to change one reachable sum."""
    scale, reach = draw(1, 1)
    (multiplier,), (shift,) = fit_multipliers(scale, reach, (-128, 127)).data
    sums = np.arange(reach[0][0], reach[1][0] + 1)
    wanted = np.clip(requantise(sums, scale[0]), -128, 127)
    assert (results(sums, multiplier, shift) == wanted).all()
    assert (results(sums, multiplier + 2**22, shift) != wanted).any()


def test_halves_of_both_parities_cannot_be_proven():
    """Half to even and half up differ for every second tie."""
    scale, reach = np.array([0.5], np.float32), (np.array([-100]), np.array([100]))
    assert fit_multipliers(scale, reach, (-128, 127)).differing[0] > 0


def test_halves_that_are_not_reached_do_not_matter():
    scale, reach = np.array([0.5], np.float32), (np.array([0]), np.array([1]))
    found = fit_multipliers(scale, reach, (-128, 127))
    assert found.differing[0] == 0
    np.testing.assert_array_equal(results(np.array([0, 1]), *found.data[:, 0]), [0, 0])


@pytest.mark.parametrize("scale", [1.5, 1e-12])
def test_scales_beyond_the_shifts(scale):
    reach = np.array([-1000]), np.array([1000])
    assert fit_multipliers(np.array([scale], np.float32), reach, (-128, 127)).absent == (0,)
