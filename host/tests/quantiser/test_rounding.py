"""Rounding of weights: never worse than to nearest, and optimal where the optimum is known."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from matloom.quantiser.moments import Moments
from matloom.quantiser.rounding import fit_weights, quadratic_form, round_weights


def moments(inputs, channels, lost=None):
    """Return moments of inputs (rows, depth) that lack `lost` (rows, channels) in the outputs."""
    covariance = np.cov(inputs.T, bias=True)
    lost = np.zeros((len(inputs), channels)) if lost is None else lost
    return Moments(
        rows=len(inputs),
        covariance=covariance[np.newaxis],
        mean=inputs.mean(axis=0)[np.newaxis],
        missing=(lost - lost.mean(axis=0)).T @ inputs / len(inputs),
        expected=np.zeros(channels),
    )


def cost(inputs, weights, made):
    """Return the mean squared error of each output, without its mean."""
    errors = inputs @ (made.integers * made.scales[:, np.newaxis] - weights).T
    return errors.var(axis=0)


@pytest.fixture
def case():
    """Return correlated inputs (200, 6), and weights (3, 6)."""
    random = np.random.default_rng(0)
    inputs = random.normal(0, 1, (200, 6)) @ random.normal(0, 1, (6, 6))
    return inputs, random.normal(0, 1, (3, 6))


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("per_channel", [True, False])
def test_outputs_change_less_than_by_rounding_to_nearest(case, bits, per_channel):
    inputs, weights = case
    options = {"bits": bits, "per_channel": per_channel}
    adaptive = round_weights(weights, moments(inputs, 3), **options)
    nearest = round_weights(weights, None, adaptive=False, **options)
    assert cost(inputs, weights, adaptive).sum() < cost(inputs, weights, nearest).sum()
    assert np.abs(adaptive.integers).max() <= 2 ** (bits - 1) - 1
    assert len(set(adaptive.scales)) == (3 if per_channel else 1)


def test_close_to_the_best_of_all_roundings(case):
    inputs, weights = case
    made = round_weights(weights, moments(inputs, 3), bits=4)
    exact = weights / made.scales[:, np.newaxis]
    found = cost(inputs, weights, made)
    for channel in range(3):
        best = min(
            (inputs @ ((np.floor(exact[channel]) + up) - exact[channel])).var()
            for up in itertools.product((0, 1), repeat=6)
        )
        # Coordinate descent may end before the best; the tail of nearest rounding is far worse.
        assert found[channel] <= 4 * best * made.scales[channel] ** 2 + 1e-3


def test_independent_inputs_are_rounded_to_nearest():
    weights = np.random.default_rng(1).normal(0, 1, (4, 5))
    independent = Moments(
        rows=100,
        covariance=np.eye(5)[np.newaxis],
        mean=np.zeros((1, 5)),
        missing=np.zeros((4, 5)),
        expected=np.zeros(4),
    )
    made = round_weights(weights, independent)
    exact = weights / made.scales[:, np.newaxis]
    assert np.array_equal(made.integers, np.clip(np.rint(exact), -127, 127))


def test_inputs_that_never_change():
    weights = np.random.default_rng(2).normal(0, 1, (2, 4))
    made = round_weights(weights, moments(np.ones((10, 4)), 2))
    assert np.allclose(made.integers * made.scales[:, np.newaxis], weights, atol=0.03)


def test_few_rows_do_not_mislead():
    """Of 20 rows of 60 independent inputs, relations are chance: other rows must not suffer."""
    random = np.random.default_rng(3)
    weights = random.normal(0, 1, (8, 60))
    seen, others = random.normal(0, 1, (20, 60)), random.normal(0, 1, (4000, 60))
    adaptive = round_weights(weights, moments(seen, 8), bits=4)
    nearest = round_weights(weights, None, bits=4, adaptive=False)
    lost = cost(others, weights, adaptive).sum() / cost(others, weights, nearest).sum()
    assert lost < 1.5


@pytest.mark.parametrize("related", [True, False])
def test_weights_fit_what_inputs_lack_unless_that_is_chance(related):
    """Errors that depend on the inputs are made up for; others must not add noise."""
    random = np.random.default_rng(4)
    missing = random.normal(0, 1, (3, 20))

    def rows(count):
        inputs = random.normal(0, 1, (count, 20))
        return inputs, inputs @ missing.T if related else random.normal(0, 1, (count, 3))

    inputs, lost = rows(60)
    halves = tuple(moments(inputs[at::2], 3, lost[at::2]) for at in (0, 1))
    given = replace(moments(inputs, 3, lost), halves=halves)
    change = fit_weights(np.zeros((3, 20)), quadratic_form(given, 20), given)
    inputs, lost = rows(4000)
    left = (lost - inputs @ change.T).var() / lost.var()
    assert left < 0.2 if related else left < 1.02


def test_one_sample_fits_nothing(case):
    inputs, weights = case
    given = moments(inputs, 3, inputs[:, :3])
    assert np.array_equal(fit_weights(weights, quadratic_form(given, 6), given), weights)
