"""Rounds the weights of a layer so that its outputs change as little as possible.

The error of an output is the error of its weights times the inputs, so its mean square is a
quadratic form in the covariance of the inputs. Rounding up or down by coordinate descent on that
form is what AdaRound (Nagel et al., Up or Down?, 2020) relaxes and solves by gradient descent.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from matloom.quantiser.moments import Moments

#: Maximum number of passes over the weights.
_DESCENT_PASSES = 4
#: Scales to try, relative to the one at which no weight saturates, by the bits of a weight.
_SHARES = {8: np.linspace(0.75, 1.0, 11), 4: np.linspace(0.4, 1.0, 31)}
#: Share of the mean variance that is added to each input's variance, because inputs may correlate
#: by chance in few samples.
_DAMPING = 0.01
#: Number of rows per input at which measured correlations weigh as much as the assumption that
#: inputs are uncorrelated. With fewer rows, most correlations are chance.
_ROWS_PER_INPUT = 0.25
#: Depth above which scales are chosen as if inputs were uncorrelated, because products with the
#: covariance matrix would take too long.
_MOST_CORRELATED = 1024

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rounded:
    """Weights as integers (channels, depth), stored as float64, and the scale of each channel."""

    integers: _Numbers
    scales: _Numbers


def quadratic_form(moments: Moments | None, depth: int) -> _Numbers:
    """Return the quadratic form of an error, positive definite: (1 or channels, depth, depth).

    It is the covariance of inputs, shrunk and damped; the identity without moments.
    """
    if moments is None:
        return np.eye(depth)[np.newaxis]
    form = moments.covariance * (1 - _uncorrelated_weight(moments))
    diagonal = np.einsum("gkk->gk", form)
    mean = diagonal.mean(axis=1, keepdims=True)
    # If an input is constant, all roundings are equally good, and nearest is used.
    diagonal /= 1 - _uncorrelated_weight(moments)
    diagonal += np.where(mean > 0, _DAMPING * mean, 1.0)
    return form


def _uncorrelated_weight(moments: Moments) -> float:
    """Return the weight, 0 to 1, of the assumption that inputs are uncorrelated.

    Covariances are shrunk by this weight, as Ledoit and Wolf do (2004).
    """
    prior = _ROWS_PER_INPUT * float(moments.covariance.shape[1])
    return prior / (prior + moments.rows)


def _multiply_by_form(errors: _Numbers, form: _Numbers) -> _Numbers:
    """Return ``errors @ form`` for each channel."""
    if len(form) == 1:
        return np.asarray(errors @ form[0])
    return np.asarray(np.einsum("ck,ckl->cl", errors, form))


def _best_scales(weights: _Numbers, form: _Numbers, bits: int, *, per_channel: bool) -> _Numbers:
    """Return the scale of each channel at which rounding to nearest changes the outputs least.

    Scales are float32 numbers, all equal unless `per_channel`.
    """
    most = 2 ** (bits - 1) - 1
    peaks = np.abs(weights).max(axis=1)
    peaks = peaks if per_channel else np.full_like(peaks, peaks.max())
    peaks = np.where(peaks > 0, peaks, 1.0)
    if weights.shape[1] > _MOST_CORRELATED:
        form = form * np.eye(weights.shape[1])
    shares = _SHARES[bits]
    costs = []
    for share in shares:
        scales = (peaks * share / most)[:, np.newaxis]
        errors = np.clip(np.rint(weights / scales), -most, most) * scales - weights
        costs.append((_multiply_by_form(errors, form) * errors).sum(axis=1))
    if per_channel:
        best = np.argmin(costs, axis=0)
    else:
        best = np.full(len(peaks), int(np.argmin(np.sum(costs, axis=1))))
    return np.asarray((peaks * shares[best] / most).astype(np.float32), np.float64)


def _round_by_descent(exact: _Numbers, form: _Numbers, bits: int) -> _Numbers:
    """Return `exact`, weights in units of their scales, rounded up or down by coordinate descent.

    The descent reduces the quadratic form of the rounding errors.
    """
    most = 2 ** (bits - 1) - 1
    low, high = (np.clip(edge(exact), -most, most) for edge in (np.floor, np.ceil))
    integers = np.clip(np.rint(exact), -most, most)
    slope = _multiply_by_form(integers - exact, form)
    for _round in range(_DESCENT_PASSES):
        changed = 0.0
        for at in range(exact.shape[1]):
            best = np.rint(integers[:, at] - slope[:, at] / form[:, at, at])
            best = np.clip(best, low[:, at], high[:, at])
            step = best - integers[:, at]
            changed += float(np.abs(step).sum())
            integers[:, at] = best
            slope += step[:, np.newaxis] * form[:, at]
        if not changed:
            break
    return integers


def round_weights(
    weights: _Numbers,
    moments: Moments | None,
    *,
    bits: int = 8,
    per_channel: bool = True,
    adaptive: bool = True,
) -> Rounded:
    """Return weights (channels, depth) as integers in a range symmetric about zero.

    Parameters
    ----------
    moments:
        Moments of the layer's inputs; None rounds every weight to the nearest integer.
    bits:
        8 for -127 to 127, 4 for -7 to 7.
    adaptive:
        Fit the weights to the quantised inputs, and round each in the direction that changes the
        outputs less; otherwise round to nearest.
    """
    form = quadratic_form(moments if adaptive else None, weights.shape[1])
    if moments is not None and adaptive:
        weights = fit_weights(weights, form, moments)
    scales = _best_scales(weights, form, bits, per_channel=per_channel)
    exact = weights / scales[:, np.newaxis]
    if adaptive:
        return Rounded(integers=_round_by_descent(exact, form, bits), scales=scales)
    most = 2 ** (bits - 1) - 1
    return Rounded(integers=np.clip(np.rint(exact), -most, most), scales=scales)


def fit_weights(weights: _Numbers, form: _Numbers, moments: Moments) -> _Numbers:
    """Return weights that fit the quantised inputs better than the float weights do.

    They change by a share of the least-squares solution. The share is the one that serves each half
    of the samples best with the solution for the other half, so that few samples do not mislead;
    without halves, the weights are returned unchanged.

    `form` is the `quadratic_form` of the moments.
    """
    gain = power = 0.0
    for known, other in (moments.halves, moments.halves[::-1]) if moments.halves else ():
        step = _weight_correction(quadratic_form(known, weights.shape[1]), known)
        gain += float((step * other.missing).sum())
        power += float((_multiply_by_form(step, other.covariance) * step).sum())
    share = min(max(gain / power, 0.0), 1.0) if power > 0 else 0.0
    return weights + share * _weight_correction(form, moments) if share else weights


def _weight_correction(form: _Numbers, moments: Moments) -> _Numbers:
    """Return the change of the weights that fits them to the quantised inputs."""
    return _solve_by_channel(form, moments.missing * (1 - _uncorrelated_weight(moments)))


def _solve_by_channel(form: _Numbers, right_side: _Numbers) -> _Numbers:
    """Return the solution of ``x @ form = right_side`` for each channel."""
    if len(form) == 1:
        return np.asarray(np.linalg.solve(form[0], right_side.T).T, np.float64)
    return np.asarray(np.linalg.solve(form, right_side[:, :, np.newaxis])[:, :, 0], np.float64)
