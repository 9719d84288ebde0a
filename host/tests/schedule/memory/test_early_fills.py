"""Tables that POST fills while earlier tiles run."""

from types import SimpleNamespace

import numpy as np

from matloom.arch.config import load_config
from matloom.schedule.memory.early_fills import early_fills

CONFIG = load_config("small+softmax=1+result_sums=1")


def stage(**kind):
    plain = {"is_softmax": False, "adds_results": False, "table": None}
    return SimpleNamespace(**{**plain, **kind})


def fills(*stages):
    """Return the early fills of stages with one short tile each."""
    cut = SimpleNamespace(cycles=[1], output_bytes=[64])
    slots = [SimpleNamespace(stage=index, number=0) for index in range(len(stages))]
    plan = SimpleNamespace(slots=slots, tilings=[cut] * len(stages))
    return early_fills(SimpleNamespace(stages=stages, config=CONFIG), plan)


def test_different_tables_may_be_filled_before_the_same_tile():
    table = np.zeros(1, np.int8)
    softmax = stage(is_softmax=True, table=table)
    sums = stage(adds_results=True, table=table)
    assert fills(stage(), softmax, sums) == {0: (1, 2)}
    assert fills(stage(), softmax, stage(), softmax, sums) == {0: (1, 4), 2: (3,)}
