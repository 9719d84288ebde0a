"""SOFTMAX of rows of bytes in NumPy, as POST computes it."""

import numpy as np
from numpy.typing import NDArray

from matloom.arch.softmax import EXPONENTIAL_BITS, quotient, reciprocal, to_sum_format


def softmax_rows(
    rows: NDArray[np.int64], valid: NDArray[np.bool_], table: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return the SOFTMAX of rows (blocks, rows, 1, columns) of signed bytes, in the same shape.

    A row spans all blocks. Only `valid` elements are taken into account; the results of others are
    arbitrary. `table` holds the bytes of the exponentials, (1024,).
    """
    exponentials = table.view("<u4").astype(np.int64) & (2**EXPONENTIAL_BITS - 1)
    along = (0, 3)
    largest = np.where(valid, rows, -128).max(axis=along, keepdims=True)
    found = exponentials[(largest - rows) & 255]
    total = np.where(valid, to_sum_format(found), 0).sum(axis=along, keepdims=True) & 0xFFFFFFFF
    results = quotient(found, *reciprocal(total))
    return (np.asarray(results) & 255).astype(np.uint8)
