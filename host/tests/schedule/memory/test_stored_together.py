"""Results of several tiles that one STORE brings to external memory."""

from dataclasses import replace

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import Opcode, Region
from matloom.schedule import tuning
from matloom.schedule.choices.tighten import store_one_by_one
from matloom.schedule.plan import OutOfScratchpad, ScheduleParams
from support.chain import Chain, exact_programs
from support.instructions import instructions

pytestmark = pytest.mark.usefixtures("no_fused_layers")

#: Room for fewer bytes than a map has; a tile of a row has eight channels.
SMALL = PRESETS["nano"]


def maps(channels):
    """Return a network with two maps that do not fit on chip."""
    return Chain((1, 64, 64, 4)).convolve(channels).convolve(channels).convolve(4).graph()


def stores(program, region):
    """Return the STOREs to a region."""
    return [each for each in instructions(program, Opcode.STORE) if each.region == region]


def times_stored(program, size):
    """Return how often each byte of the arena is stored."""
    written = np.zeros(size, int)
    for store in stores(program, Region.ARENA):
        for plane in range(store.planes):
            for row in range(store.rows):
                first = store.dram_offset + row * store.dram_row_step
                first += plane * store.dram_plane_step
                written[first : first + store.row_bytes] += 1
    return written


@pytest.mark.parametrize("channels", [31, 32])
def test_few_channels_are_stored_with_others(channels, monkeypatch):
    (program,) = exact_programs(maps(channels), SMALL, (None,))
    assert (times_stored(program, 2 * 64 * 64 * channels) == 1).all()
    together = [store.row_bytes for store in stores(program, Region.ARENA)]
    monkeypatch.setattr(tuning, "JOINT_BEATS", 0.5)
    (program,) = exact_programs(maps(channels), SMALL, (None,))
    apart = [store.row_bytes for store in stores(program, Region.ARENA)]
    assert min(apart) <= 8 < min(together)
    assert 2 * len(together) < len(apart)


def test_results_too_large_to_hold_are_exact(monkeypatch):
    monkeypatch.setattr(tuning, "JOINT_SHARE", 1)
    exact_programs(maps(24), replace(SMALL, spad_bytes=8192), (None,))


def test_what_is_held_where_nothing_fits_is_stored_one_by_one():
    params = ScheduleParams(one_by_one=frozenset({7}))
    failure = OutOfScratchpad(slot=0, stage=1, kind="weights", size=1)
    assert store_one_by_one(params, (failure,)) is None
    held = [replace(failure, joint=frozenset({at})) for at in (1, 2)]
    found = store_one_by_one(params, (failure, *held))
    assert found == replace(params, one_by_one=frozenset({1, 2, 7}))


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("seed", range(1, 9))
def test_any_tiles_are_exact(seed):
    network = Chain((1, 12, 12, 4)).convolve(23).convolve(23, 3).halve().convolve(4)
    exact_programs(network.graph(), SMALL, (seed,))
