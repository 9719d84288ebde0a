"""Estimates how many results change, from the float network's margins and the noise.

Counting needs thousands of samples to tell tenths of a percent apart. Normally distributed noise
changes which element is the largest with a probability that the distances between them decide, and
its mean over a hundred samples is known far better than a count.
"""

import math

import numpy as np

from matloom.ir.graph import Array

__all__ = ["expected_share"]

#: Rows that are looked at, evenly spaced: an image of classes has many.
_MOST_ROWS = 1 << 14
#: Standard normal distribution, to interpolate in.
_PLACES = np.linspace(-6, 6, 2401)
_BELOW = np.array([0.5 + 0.5 * math.erf(each / math.sqrt(2)) for each in _PLACES])
#: Points and weights of an integral over the error of one element.
_ERRORS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


def expected_share(exact: Array, rounded: Array, classes: Array) -> float:
    """Return the share of rows whose largest element is expected to be that of their class.

    Parameters
    ----------
    exact, rounded:
        Outputs of the float and of the quantised network, (rows, elements), two elements at least.
        Their difference tells the noise.
    classes:
        Element of each row: the label, or the float network's largest.
    """
    step = -(-len(exact) // _MOST_ROWS)
    exact, rounded, classes = exact[::step].astype(np.float64), rounded[::step], classes[::step]
    rows = np.arange(len(exact))
    errors = rounded - exact
    # What all elements of a row have in common changes no order.
    errors -= errors.mean(axis=1, keepdims=True)
    deviation = math.sqrt(np.square(errors).sum() / (errors.size - len(errors)))
    if not deviation:
        return float((exact.argmax(axis=1) == classes).mean())
    distances = (exact[rows, classes][:, np.newaxis] - exact) / deviation
    # The element is not its own rival.
    distances[rows, classes] = np.inf
    found = 0.0
    for error, weight in zip(_ERRORS, _WEIGHTS / _WEIGHTS.sum(), strict=True):
        below = np.interp(distances + error, _PLACES, _BELOW)
        found += weight * float(below.prod(axis=1).mean())
    return found
