"""Fused layers around maps larger than the scratchpad: exact, and with fewer bytes."""

from dataclasses import replace

import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, compile_network
from matloom.ir.attributes import Padding
from matloom.schedule import search, tuning
from matloom.schedule.choices.fused_layers import maps_to_fuse
from matloom.schedule.choices.layouts import LAYOUTS
from support.chain import Chain, exact_programs
from support.instructions import stored

#: A tenth of the scratchpad that `reference` has, and too little for the maps below.
SMALL = replace(PRESETS["reference"], spad_bytes=32 * 1024, spad_banks=4)
AROUND = Padding(top=1, bottom=1, left=1, right=1)


def chain(stride=(2, 2), padding=None, size=(44, 36), taps=(3, 3)):
    """Return the layers of a MobileNetV2, of which the second and the third make large maps."""
    made = Chain((1, *size, 3)).convolve(8, 3).convolve(48)
    return made.halve(stride=stride, padding=padding, taps=taps).convolve(8)


def without_fusion(graph, config=SMALL):
    """Return the program of a graph if no map is large enough for fused layers."""
    with tuning.override({"FUSED_MAPS": 1e9}):
        return compile_network(graph, config, CompileOptions(), check="none")


@pytest.mark.parametrize("stride", [(1, 1), (2, 2)], ids=str)
def test_maps_stay_on_chip(stride):
    graph = chain(stride).graph()
    (fused,) = exact_programs(graph, SMALL, (None,))
    whole = without_fusion(graph)
    assert stored(whole) >= 44 * 36 * 48
    assert stored(fused) <= 44 * 36 * 8
    assert fused.predicted_cycles < whole.predicted_cycles


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("padding", [None, AROUND], ids=str)
@pytest.mark.parametrize("size", [(44, 36), (45, 35)], ids=str)
@pytest.mark.parametrize("stride", [(1, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("taps", [(3, 3), (5, 5)], ids=str)
def test_fused_layers_in_any_tiles(taps, stride, size, padding):
    exact_programs(chain(stride, padding, size, taps).graph(), SMALL, (None, 1, 2, 3))


def test_the_last_layer_may_add():
    graph = chain((1, 1)).add(3).graph()
    exact_programs(graph, SMALL, (None, 1, 2))


def test_a_layer_that_adds_may_be_the_last_alone():
    """Those after it read another map."""
    made = Chain((1, 44, 36, 3)).convolve(24, 3).halve(stride=(1, 1)).convolve(24).add(1)
    exact_programs(made.convolve(48).convolve(8).graph(), SMALL, (None, 1, 2))


def test_what_follows_reads_rows_of_all_rounds():
    graph = chain((1, 1)).convolve(16, 3).pool().graph()
    exact_programs(graph, SMALL, (None, 1, 2))


@pytest.mark.parametrize("reader", ["output", "layer"])
def test_maps_with_other_readers_stay_whole(reader):
    made = chain((1, 1))
    wide = made.nodes[1].output
    outputs = [wide] if reader == "output" else []
    if reader == "layer":
        outputs, made.last = [made.last], wide
        made = made.convolve(8)
    graph = made.graph(*outputs)
    (program,) = exact_programs(graph, SMALL, (None,))
    whole = without_fusion(graph)
    assert program.predicted_cycles <= whole.predicted_cycles


def test_layers_around_small_maps_are_not_fused():
    graph = chain(size=(12, 10)).graph()
    (program,) = exact_programs(graph, SMALL, (None,))
    assert program.predicted_cycles == without_fusion(graph).predicted_cycles


def test_a_dense_layer_makes_one_row_of_all_positions():
    """What reads its map finds other rows, so that the two are not fused."""
    graph = Chain((1, 18, 22, 32)).dense(4).convolve(8, 5, 3).graph()
    exact_programs(graph, SMALL, (None, 1, 2))


@pytest.mark.parametrize("bus_bits", [256, 32])
def test_layers_that_load_longer_than_they_compute_are_not_fused(bus_bits, monkeypatch):
    """Fused layers gain nothing over layers in turns if the bus is busy with their other maps.

    The depthwise layer loads a map, which the pointwise layer adds.
    """
    found = []

    def note(scheduled, private):
        found.append(maps_to_fuse(scheduled, private))
        return frozenset()

    fused = replace(LAYOUTS[0], choose=note)
    monkeypatch.setattr(search, "LAYOUTS", (fused, *LAYOUTS[1:]))
    made = Chain((1, 80, 64, 8), seed=1).convolve(32)
    made = made.halve(stride=(1, 1)).convolve(32).add(2).convolve(8)
    config = replace(PRESETS["reference"], spad_bytes=131072, spad_banks=4, bus_bits=bus_bits)
    compile_network(made.graph(), config, CompileOptions(), check="none")
    assert [bool(maps) for maps in found] == [bus_bits == 256]
