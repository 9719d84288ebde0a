"""Fixed-point functions compared with real numbers; softmax is compared bit by bit elsewhere."""

import numpy as np

from matloom.kernels.fixedpoint import exp_of_negative, log_of_sum, reciprocal_of_sum


def test_exponential():
    given = -np.arange(0, 2**31, 2**31 // 5000)
    exact = np.exp(given / 2**26)
    # A series of four terms ends here.
    assert np.abs(exp_of_negative(given) / 2**31 - exact).max() < 2**-22


def test_reciprocal():
    given = np.unique(np.geomspace(2**19, 2**31 - 1, 4000).astype(np.int64))
    reciprocal, exponent = reciprocal_of_sum(given, 12)
    exact = 2**19 / given
    assert np.abs(reciprocal / 2**31 / 2.0**exponent / exact - 1).max() < 2**-26


def test_logarithm():
    given = np.unique(np.geomspace(2**19, 2**31 - 1, 4000).astype(np.int64))
    # Between powers of two, and between roots of them, another approximation applies.
    edges = (2.0 ** (np.arange(39, 62) / 2)).astype(np.int64)
    given = np.unique(np.concatenate([given, edges, edges + 1]))
    exact = np.log(given / 2**19)
    assert np.abs(log_of_sum(given, 12) / 2**26 - exact).max() < 2**-24
