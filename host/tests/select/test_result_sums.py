"""ADD of a layer's results by POST: exact for every kind of layer, in a single pass."""

import dataclasses

import pytest

from matloom.arch.config import load_config
from matloom.ir.attributes import Activation
from matloom.program.disassemble import disassemble
from support.chain import Chain, exact_programs

SEEDS = (None, 1, 2)
CONFIG = load_config("reference")
#: So few bytes that tensors are loaded and stored tile by tile.
SHORT = dataclasses.replace(CONFIG, spad_bytes=32 * 1024, spad_banks=4)


def unit(shape, channels):
    """Return a chain of two layers, behind which a third may add what the second reads."""
    return Chain(shape).convolve(channels).convolve(channels)


def layers(name):
    """Return a chain of a kind of layer, then ADD."""
    chains = {
        "1x1": lambda: unit((1, 9, 8, 24), 40).convolve(40).add(),
        "3x3": lambda: unit((1, 13, 10, 5), 20).convolve(20, 3).add(),
        "few channels": lambda: unit((1, 17, 15, 1), 7).convolve(7, 3).add(),
        "images": lambda: unit((3, 4, 5, 16), 32).convolve(32, 3).add(),
        "depthwise": lambda: unit((1, 14, 11, 33), 33).halve(stride=(1, 1)).add(),
        "input": lambda: unit((1, 12, 12, 16), 16).add(),
        "pooled later": lambda: unit((1, 12, 12, 8), 8).convolve(8).add().pool(),
        "looked up": lambda: unit((1, 12, 12, 8), 8).convolve(8).add().look_up(),
        "two sums": lambda: unit((1, 8, 8, 16), 16).convolve(16).add().convolve(16).add(),
        "wide map": lambda: unit((1, 6, 300, 16), 48).convolve(48).add(),
        "fewer channels": lambda: unit((1, 12, 12, 16), 16).convolve(48).add(),
        "fewer channels of an input": lambda: unit((1, 9, 8, 32), 24).convolve(40).add(3),
        "fewer channels of images": lambda: unit((3, 4, 9, 8), 16).convolve(36, 3).add(),
        "fewer channels of a wide map": lambda: unit((1, 6, 300, 4), 16).convolve(35).add(),
        "halved": lambda: unit((1, 16, 16, 24), 24).convolve(24).add().halve(),
    }
    return chains[name]() if name else tuple(chains)


@pytest.mark.parametrize("config", [CONFIG, SHORT], ids=["reference", "short"])
@pytest.mark.parametrize("name", layers(""))
def test_sums_are_exact(name, config):
    chain = layers(name)
    program = exact_programs(chain.graph(), config, SEEDS)[0]
    assert "addend=3" in disassemble(program)


@pytest.mark.parametrize("ratio", [0.01, 0.4, 1, 30])
@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
def test_scales(ratio, activation):
    """The sum of any scale is exact, also where no table makes it."""
    chain = unit((1, 8, 8, 16), 16).convolve(16).add(2, ratio, activation)
    exact_programs(chain.graph(), CONFIG, (None,))


def test_a_sum_takes_one_pass_instead_of_three():
    chain = unit((1, 28, 28, 16), 16).convolve(16).add()
    with_sums, without = (
        exact_programs(chain.graph(), config, (None,))[0].predicted_cycles
        for config in (CONFIG, dataclasses.replace(CONFIG, result_sums=0))
    )
    assert without - with_sums > 28 * 28


def test_a_layer_may_add_what_it_reads():
    exact_programs(Chain((1, 12, 12, 16)).convolve(16, 3).add(1).graph(), CONFIG, SEEDS)


@pytest.mark.parametrize("why", ["output", "reader"])
def test_results_that_are_needed_are_kept(why):
    chain = unit((1, 8, 8, 16), 16).convolve(16)
    made = chain.last
    graph = chain.add().graph(made)
    if why == "reader":
        chain.last = made
        graph = chain.convolve(16).graph(graph.outputs[0])
    program = exact_programs(graph, CONFIG, (None,))[0]
    # The other operand is made by a layer, too, which may add.
    assert "addend" in disassemble(program)
