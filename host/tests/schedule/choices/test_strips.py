"""Strips of rows of maps larger than the scratchpad: exact, with fewer reads."""

from dataclasses import replace

import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, compile_network
from matloom.schedule import clear_gains, tuning
from support.chain import Chain, exact_programs
from support.instructions import loaded

pytestmark = pytest.mark.usefixtures("no_fused_layers")

#: Two fifths of the scratchpad that `reference` has, and too little for the maps below.
SMALL = replace(PRESETS["reference"], spad_bytes=131072, spad_banks=4)


def chain(*, taps=(3, 3), stride=(1, 1), channels=96):
    """Return a depthwise layer whose input and output stay in external memory."""
    made = Chain((1, 50, 28, 8), seed=channels).convolve(channels)
    return made.halve(taps=taps, stride=stride).convolve(8).graph()


def test_strips_are_exact_and_save_reads(monkeypatch):
    """Tiles of one or two rows read each row two or three times; strips rarely do.

    Stages do not take turns, as those of other networks cannot.
    """
    graph = chain()
    monkeypatch.setattr(tuning, "TURNS_GAIN", 1)
    monkeypatch.setattr(tuning, "TURNS_SURE", 1e9)
    monkeypatch.setattr(clear_gains, "estimated_ratio", lambda *_arguments: 1)
    plain = compile_network(graph, SMALL, CompileOptions())
    monkeypatch.setattr(clear_gains, "estimated_ratio", lambda *_arguments: 0.97)
    (found,) = exact_programs(graph, SMALL, (None,))
    monkeypatch.setattr(clear_gains, "estimated_ratio", lambda *_arguments: 0.9)
    sure = compile_network(graph, SMALL, CompileOptions(), check="none")
    assert sure.predicted_cycles == found.predicted_cycles
    # The depthwise layer reads its map, and so does the last layer.
    maps = 2 * 50 * 28 * 96
    assert maps <= loaded(found) <= 1.25 * maps
    assert loaded(found) < loaded(plain)
    assert found.predicted_cycles < plain.predicted_cycles


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("stride", [(1, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("taps", [(3, 3), (5, 5)], ids=str)
@pytest.mark.parametrize("number", [3, 8, 12])
def test_strips_in_any_tiles(number, taps, stride):
    """Random tiles with these seeds use strips."""
    exact_programs(chain(channels=24, taps=taps, stride=stride), SMALL, (number,))


def test_small_maps_have_no_strips():
    graph = chain(channels=16)
    plain = compile_network(graph, PRESETS["reference"], CompileOptions())
    assert loaded(plain) == 0
