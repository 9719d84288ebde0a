"""Results that overwrite an input of the same size: exact, and fewer bytes in external memory."""

from dataclasses import replace

import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, Job, compile_network, run_phases
from matloom.schedule.memory.sharing import lead_bytes
from matloom.schedule.params import TileOrder, TilingParams, WeightsLifetime
from matloom.schedule.tiling.array import ArrayTiling
from support.chain import Chain, exact_programs
from support.instructions import stored

#: Room for one and a half of the maps below.
SMALL = replace(PRESETS["reference"], spad_bytes=65536, spad_banks=4)


def chain(channels=32):
    """Return depthwise and pointwise layers whose maps have one size."""
    made = Chain((1, 36, 36, 4), seed=channels).convolve(channels)
    made.halve(stride=(1, 1)).convolve(channels).convolve(channels)
    return made.convolve(4).graph()


def test_maps_of_one_size_stay_on_chip():
    (program,) = exact_programs(chain(), SMALL, (None,))
    assert stored(program) == 0


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("seed", range(1, 9))
def test_any_tiles_are_exact(seed):
    """Random choices overwrite inputs in every second plan."""
    exact_programs(chain(), SMALL, (seed,))


def tilings():
    """Yield tilings of the stages of a network by rows and by blocks."""
    job = Job(config=SMALL, options=CompileOptions())
    (run,) = run_phases(chain(), job, "bind").values["bind"].runs
    for stage in run.segment.stages:
        for order in TileOrder:
            limits = TilingParams(weights=WeightsLifetime.RESIDENT, order=order)
            yield ArrayTiling.from_limits(stage, limits, SMALL, None)


def test_no_tile_writes_what_a_later_one_reads():
    """The lead_bytes is the least for which that is so, byte by byte."""
    leads = []
    for tiling in tilings():
        layout, width = tiling.stage.output_layout, tiling.stage.grid.position_bytes
        least, unread = 0, []
        for tile in reversed(tiling.tiles):
            last = max(
                layout.byte(tile.image, row, x, 0) + width
                for row in range(tile.first_row, tile.end_row)
                for x in range(tile.first_x, tile.end_x)
            )
            least = max([least, *(last - start for start in unread)])
            unread.append(tiling.input_ranges[tiling.tiles.index(tile)].start)
        assert lead_bytes(tiling) == least
        leads.append(least)
    assert min(leads) == 0 < max(leads)


def test_engines_with_room_overwrite_nothing():
    program = compile_network(chain(8), PRESETS["reference"], check="none")
    assert stored(program) == 0
