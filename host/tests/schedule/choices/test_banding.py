"""Depthwise layers of few channels on two bands of rows: exact, used where possible, and faster."""

from dataclasses import replace

import pytest

from matloom.arch.config import PRESETS, Config
from matloom.compiler import CompileOptions, compile_network
from matloom.ir.attributes import NO_PADDING, Padding
from support.chain import Chain, exact_programs, executes

REFERENCE = PRESETS["reference"]


def chain(channels=8, image=(12, 10), *, stride=(1, 1), padding=None, first=3):
    """Return a convolution, a depthwise layer, and a convolution of one tap."""
    made = Chain((1, *image, 3), seed=channels).convolve(channels, first)
    return made.halve(stride=stride, padding=padding).convolve(16)


def bands(program, channels=8):
    """Return the EXECs whose windows see twice a tensor's channels per position."""
    windows = [each for each in executes(program) if each.window and not each.paired]
    return [each for each in windows if each.x_step >= 2 * channels]


def banded(graph, config=REFERENCE, seeds=(1, 2)):
    """Compare a graph with the interpreter; return whether it uses bands."""
    programs = exact_programs(graph, config, seeds)
    channels = graph.tensors[graph.nodes[1].outputs[0]].shape[3]
    (answer,) = {bool(bands(program, channels)) for program in programs}
    return answer


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    ("first", "image"),
    [(first, image) for first in (1, 3) for image in ((12, 10), (4, 2))] + [(3, (6, 7))],
    ids=str,
)
@pytest.mark.parametrize("channels", [8, 5])
def test_bands_in_any_tiles(image, channels, first):
    graph = chain(channels, image, first=first).graph()
    assert banded(graph)
    # Where it does not make the network faster, it is left out.
    exact_programs(graph, REFERENCE, (None,))


def test_bands_where_windows_take_several_steps():
    """An array of eight rows holds two lines of a window."""
    config = Config(rows=8, columns=8, lanes=8, acc_bytes=16384)
    made = Chain((1, 12, 10, 3)).convolve(4, 3).halve(stride=(1, 1)).convolve(8)
    assert all(bands(program, 4) for program in exact_programs(made.graph(), config, (1, 2, 3)))


def test_a_table_is_looked_up_once():
    """Rows in both bands are copied after the lookup."""
    made = Chain((1, 12, 10, 3)).convolve(8, 3).look_up().halve(stride=(1, 1)).convolve(16)
    (program,) = exact_programs(made.graph(), REFERENCE, (1,))
    assert bands(program)


def test_blocks_after_bands():
    """The layer after the bands may write blocks for windows of stride 2."""
    made = chain(image=(24, 24)).halve().convolve(32)
    (program,) = exact_programs(made.graph(), REFERENCE, (3,))
    assert bands(program)
    assert any(each.paired for each in executes(program))


def test_one_after_the_other():
    made = chain(image=(16, 12)).convolve(8).halve(stride=(1, 1)).convolve(16)
    (program,) = exact_programs(made.graph(), REFERENCE, (4,))
    assert bands(program)


def refused():
    around = Padding(top=2, left=1, right=1)
    yield "an odd number of rows", chain(image=(13, 10))
    yield "no padding", chain(padding=NO_PADDING)
    yield "two rows above", chain(padding=around)
    yield "a stride", chain(stride=(1, 2))
    yield "too many channels", chain(9)
    yield "columns shared across rows", chain(image=(6, 7), first=1)
    yield "three positions in the columns", chain(5, (12, 9))
    narrow = Chain((1, 12, 10, 3)).convolve(8).halve(stride=(1, 1))
    yield "a reader of several taps", narrow.convolve(16, 3)
    narrow = Chain((1, 12, 10, 3)).convolve(8).halve(stride=(1, 1))
    yield "a reader of two taps in one run", narrow.convolve(16, 1, width=2)
    yield "an input from outside", Chain((1, 12, 10, 8)).halve(stride=(1, 1)).convolve(16)
    yield "a result", Chain((1, 12, 10, 3)).convolve(8).halve(stride=(1, 1))
    yield "several images", Chain((2, 12, 10, 3)).convolve(8).halve(stride=(1, 1)).convolve(16)


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("made", [pytest.param(made, id=name) for name, made in refused()])
def test_layers_without_bands(made):
    assert not banded(made.graph(), seeds=(None, 1))


@pytest.mark.parametrize("number", [0, 1])
def test_tensors_with_other_readers_have_no_bands(number):
    made = chain()
    assert not banded(made.graph(made.nodes[number].outputs[0]), seeds=(None, 1))


def test_a_layer_takes_two_positions_a_cycle():
    """The only loss is one vector per line and two lines per tile."""
    program = compile_network(chain(image=(48, 48)).graph(), REFERENCE)
    streamed = sum(each.width * each.height for each in bands(program))
    assert 48 * 48 / 2 <= streamed <= 49 * (24 + 3 * 2)


def test_misfits_stay_unchanged():
    config = replace(REFERENCE, spad_bytes=5 * 16384)
    graph = chain(image=(128, 128)).graph()
    assert config.spad_bytes < 66 * 128 * 16
    assert not bands(compile_network(graph, config, CompileOptions(tiling_seed=1)))
