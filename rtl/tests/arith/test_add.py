"""FloatAdd, compared with the number rules, which are tested against float32."""

import numpy as np
import pytest

from matloom.arch.floats import add
from matloom_rtl.arith.add import FloatAdd


def test_sums(numbers, check):
    a, b = numbers.pairs(2000)
    check(FloatAdd(), FloatAdd.LATENCY, add(a, b), a=a, b=b)


@pytest.mark.slow
def test_a_million_sums(numbers, check_all):
    a, b = numbers.pairs(1_000_000)
    with np.errstate(all="ignore"):
        values = [each.astype(np.uint32).view(np.float32) for each in (a, b)]
        total = values[0] + values[1]
    wanted = np.where(np.isnan(total), 0x7FC00000, total.view(np.uint32).astype(np.int64))
    check_all(FloatAdd(), FloatAdd.LATENCY, wanted, a=a, b=b)
