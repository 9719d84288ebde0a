"""Fixed-point functions compared with real numbers; softmax is compared bit by bit elsewhere."""

import numpy as np

from matloom.kernels.fixedpoint import exp_of_negative, reciprocal_of_sum


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
