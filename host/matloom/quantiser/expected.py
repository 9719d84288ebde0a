"""Estimates how many results change, from the float network's margins and the noise.

Counting needs thousands of samples to distinguish tenths of a percent. With normally distributed
noise, the probability that the largest element changes follows from the distances between elements,
and its mean over a hundred samples is far more precise than a count.
"""

import math

import numpy as np

from matloom.ir.graph import Array

#: Maximum number of rows, chosen at even distances; an image of classes has many.
_MOST_ROWS = 1 << 14
#: Points of the standard normal distribution function, and its values there.
_PLACES = np.linspace(-6, 6, 2401)
_BELOW = np.array([0.5 + 0.5 * math.erf(each / math.sqrt(2)) for each in _PLACES])
#: Points and weights for the numerical integration over the error of one element.
_ERRORS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


def expected_share(exact: Array, rounded: Array, classes: Array) -> float:
    """Return the share of rows whose largest element, with noise, is expected to be the class.

    Parameters
    ----------
    exact, rounded:
        Outputs of the float and of the quantised network, (rows, elements), two elements at least.
        Their difference is the noise.
    classes:
        Index of an element in each row: the label, or the largest element of the float network.
    """
    step = -(-len(exact) // _MOST_ROWS)
    exact, rounded, classes = exact[::step].astype(np.float64), rounded[::step], classes[::step]
    rows = np.arange(len(exact))
    errors = rounded - exact
    # An error common to all elements of a row does not change their order.
    errors -= errors.mean(axis=1, keepdims=True)
    deviation = math.sqrt(np.square(errors).sum() / (errors.size - len(errors)))
    if not deviation:
        return float((exact.argmax(axis=1) == classes).mean())
    distances = (exact[rows, classes][:, np.newaxis] - exact) / deviation
    # An element does not compete with itself.
    distances[rows, classes] = np.inf
    found = 0.0
    for error, weight in zip(_ERRORS, _WEIGHTS / _WEIGHTS.sum(), strict=True):
        below = np.interp(distances + error, _PLACES, _BELOW)
        found += weight * float(below.prod(axis=1).mean())
    return found
