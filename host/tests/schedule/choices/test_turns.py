"""Depthwise layers that take turns with the layers that read them: exact, with fewer transfers."""

from dataclasses import replace

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import Region
from matloom.compiler import CompileOptions, compile_network
from matloom.schedule import pipeline, tuning
from matloom.schedule.choices import policies
from support.chain import Chain, exact_programs
from support.instructions import loaded, stored

pytestmark = pytest.mark.usefixtures("no_fused_layers")

#: Two fifths of the scratchpad that `reference` has, and too little for the maps below.
SMALL = replace(PRESETS["reference"], spad_bytes=131072, spad_banks=4)

#: Bytes of a map.
MAP = 50 * 28 * 96


def pair(*, kernel=1, stride=(1, 1), channels=96, others=0):
    """Return a depthwise layer between two others; more of them may read its results, too."""
    network = Chain((1, 50, 28, 8), seed=channels).convolve(channels)
    depthwise = network.halve(stride=stride).last
    network.convolve(8, kernel)
    return network.graph(*[depthwise] * others)


def residual():
    """Return a block whose sum adds the input of its depthwise layer."""
    network = Chain((1, 80, 64, 8), seed=1).convolve(32)
    return network.halve(stride=(1, 1)).convolve(32).add(2).convolve(8).graph()


def without_turns(graph):
    """Return the program of a graph if no gain is large enough for stages in turns."""
    with tuning.override({"TURNS_GAIN": 1e9, "TURNS_SURE": 1e9}):
        return compile_network(graph, SMALL, CompileOptions())


def test_a_map_between_two_layers_in_turns_stays_on_chip():
    graph = pair()
    (turns,) = exact_programs(graph, SMALL, (None,))
    apart = without_turns(graph)
    assert stored(apart) == 2 * MAP
    assert stored(turns) == MAP
    # The first and last rows of a turn are read twice.
    assert MAP <= loaded(turns) <= 1.5 * MAP
    assert turns.predicted_cycles < 0.9 * apart.predicted_cycles


def test_what_both_layers_read_is_loaded_once():
    graph = residual()
    (turns,) = exact_programs(graph, SMALL, (None,))
    apart = without_turns(graph)
    # The last layer reads the sum.
    size = 80 * 64 * 32
    assert loaded(turns) <= 2.5 * size
    assert loaded(apart) >= 4 * size
    assert turns.predicted_cycles < apart.predicted_cycles


def test_a_clear_gain_is_not_compared(monkeypatch):
    """Only the schedule with turns is emitted if the estimate is sure; it is the same as ever."""
    emitted, emit = [], pipeline.emit_instructions

    def count(segment, plan, *others):
        emitted.append(plan.params.turns)
        return emit(segment, plan, *others)

    monkeypatch.setattr(pipeline, "emit_instructions", count)
    options = CompileOptions(resident=False)
    programs, counts = [], []
    for sure in (1e9, 0.05):
        emitted.clear()
        with tuning.override({"TURNS_SURE": sure}):
            programs.append(compile_network(residual(), SMALL, options, check="none"))
        counts.append(len(emitted))
    assert programs[0].to_bytes() == programs[1].to_bytes()
    assert counts[1] == counts[0] - 1


@pytest.mark.parametrize("network", [pair(kernel=3), pair(others=1)], ids=["rows", "output"])
def test_maps_that_are_read_otherwise_are_stored(network):
    """A 3x3 layer reads rows of two turns, and the host reads an output."""
    (program,) = exact_programs(network, SMALL, (None,))
    assert stored(program, Region.ARENA, Region.OUTPUT) >= 2 * MAP


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize(
    "network",
    [pair(channels=24), pair(channels=24, stride=(2, 2)), residual()],
    ids=["pair", "stride", "residual"],
)
def test_turns_in_any_tiles(network, seed, monkeypatch):
    monkeypatch.setattr(policies, "_SHARE_OF_SHAPES", 0.7)
    exact_programs(network, SMALL, (seed,))


@pytest.mark.parametrize("tiles", [2, 9])
def test_readers_may_be_several_turns_behind(tiles, monkeypatch):
    monkeypatch.setattr(tuning, "TURN_TILES", tiles)
    exact_programs(residual(), SMALL, (None,))
