"""Depthwise layers of stride 2 on blocks of positions: exact, used where possible, and faster."""

from dataclasses import replace

import pytest

from matloom.arch.config import PRESETS, Config
from matloom.compiler import CompileOptions, compile_network
from matloom.ir.attributes import NO_PADDING, Padding
from support.chain import Chain, exact_programs, executes

CONFIGS = {
    "reference": PRESETS["reference"],
    "12x8": Config(rows=12, columns=8, lanes=4, weight_rows=4, acc_bytes=16384),
}

#: What frameworks pad with that do not look at the size of the image.
AROUND = Padding(top=1, bottom=1, left=1, right=1)


def check(graph, config="reference", seeds=(1, 2)):
    """Compare a graph in several tilings with the interpreter; return whether it uses blocks."""
    programs = exact_programs(graph, CONFIGS[config], seeds)
    (answer,) = {any(execute.paired for execute in executes(program)) for program in programs}
    return answer


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(
    ("image", "padding"),
    [
        ((10, 8), None),
        ((2, 4), None),
        ((9, 7), NO_PADDING),
        ((9, 7), None),
        ((9, 8), None),
        ((10, 7), None),
        ((10, 8), AROUND),
        ((2, 3), AROUND),
    ],
    ids=str,
)
@pytest.mark.parametrize("channels", [8, 37])
def test_blocks_in_any_tiles(config, image, padding, channels):
    chain = Chain((1, *image, 5), seed=channels).convolve(12).convolve(channels)
    graph = chain.halve(padding=padding).convolve(9).graph()
    # A map of two rows meets only two rows of the kernel, so the third one is left out.
    assert check(graph, config) == (image[0] > 2)
    # Where it does not make the network faster, it is left out.
    check(graph, config, seeds=(None,))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1)])
def test_any_convolution_may_make_them(kernel, stride):
    assert check(Chain((1, 16, 24, 9)).convolve(16, kernel, stride).halve().graph())


def test_a_table_is_looked_up_before_blocks_are_written():
    assert check(
        Chain((1, 10, 8, 5)).convolve(12).look_up().halve().convolve(9).graph(), seeds=(1,)
    )


def test_one_after_the_other():
    chain = Chain((1, 32, 32, 4)).convolve(16).halve().convolve(32).halve().convolve(64).halve()
    assert check(chain.graph())


def refused():
    twice, below = replace(AROUND, top=2), Padding(bottom=2, right=2)
    yield "two rows above", Chain((1, 16, 16, 4)).convolve(16).halve(padding=twice)
    yield "padding in the last block", Chain((1, 9, 9, 4)).convolve(16).halve(padding=below)
    yield "another stride", Chain((1, 16, 16, 4)).convolve(16).halve(stride=(1, 1))
    yield "an input from outside", Chain((1, 16, 16, 16)).halve()
    yield "an input of windows", Chain((1, 16, 16, 16)).halve(stride=(1, 1)).halve()
    yield "several images", Chain((2, 16, 16, 4)).convolve(16).halve()


@pytest.mark.parametrize(("chain"), [pytest.param(chain, id=name) for name, chain in refused()])
def test_layers_without_blocks(chain):
    assert not check(chain.graph(), seeds=(None, 1))


def test_tensors_with_other_readers_have_no_blocks():
    chain = Chain((1, 16, 16, 4)).convolve(16)
    made = chain.last
    assert not check(chain.halve().graph(made), seeds=(None, 1))


def test_one_layer_without_blocks_leaves_the_others():
    config = replace(PRESETS["reference"], spad_bytes=5 * 16384)
    chain = Chain((1, 48, 48, 4)).convolve(48).halve().convolve(48).halve().convolve(16)
    program = compile_network(chain.graph(), config)
    assert config.spad_bytes < 48 * 48 * 48
    assert any(execute.paired for execute in executes(program))


def test_a_border_needs_planes_that_a_pitch_reaches():
    config = Config(
        rows=64,
        columns=64,
        lanes=64,
        weight_rows=4,
        spad_banks=8,
        spad_bytes=2**23,
        acc_bytes=2**20,
    )
    chain = Chain((1, 66, 250, 2)).convolve(65).halve(padding=AROUND)
    program = compile_network(chain.graph(), config, CompileOptions(tiling_seed=1))
    assert 67 * 251 * 64 > 2**20
    assert not any(execute.paired for execute in executes(program))


@pytest.mark.parametrize(("side", "padding"), [(48, None), (48, AROUND), (49, None)])
def test_a_layer_takes_a_block_a_cycle(side, padding):
    """Borders of the image and of the tiles take a part of the 144 MACs per cycle."""
    chain = Chain((1, side, side, 8)).convolve(16).halve(padding=padding).convolve(32)
    outputs = chain.tensors[chain.nodes[1].output].size
    program = compile_network(chain.graph(), PRESETS["reference"])
    streamed = sum(each.width * each.height for each in executes(program) if each.paired)
    assert outputs * 9 / streamed > 120


@pytest.mark.parametrize(("outputs", "lines", "last"), [(64, 13, 1), (16, 13, 2)])
def test_windows_over_blocks_take_all_rows_of_a_channel(outputs, lines, last):
    """A next layer of as many blocks starts with finished channels while the last are computed."""
    chain = Chain((1, 24, 24, 16)).convolve(32).halve().convolve(outputs)
    (program,) = exact_programs(chain.graph(), PRESETS["reference"], (None,))
    found = executes(program)
    paired = [number for number, each in enumerate(found) if each.paired]
    assert {found[number].height for number in paired} == {lines}
    assert found[paired[0] - 1].oc_blocks == last
