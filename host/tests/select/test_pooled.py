"""MAX_POOL_2D of 2x2 by POST: exact for every kind of layer, and without cycles of its own."""

import dataclasses

import pytest

from matloom.arch.config import load_config
from matloom.program.disassemble import disassemble
from support.chain import Chain, exact_programs, executes

SEEDS = (None, 1, 2)
CONFIGS = ("nano+maximum=1+tables=1+pooling=1", "small+tables=1+pooling=1", "reference+pooling=1")


def layers(name):
    """Return a chain of a kind of layer, then MAX_POOL_2D, for a map of odd size."""
    chains = {
        "convolution": lambda: Chain((1, 13, 10, 5)).convolve(20, 3).pool(),
        "1x1": lambda: Chain((2, 9, 8, 24)).convolve(40).pool().convolve(8),
        "few channels": lambda: Chain((1, 17, 15, 1)).convolve(7, 3).pool().convolve(6, 3).pool(),
        "stride 2": lambda: Chain((1, 21, 19, 6)).convolve(12, 5, 2).pool(),
        "depthwise": lambda: Chain((1, 14, 11, 33)).halve(stride=(1, 1)).pool(),
        "depthwise, stride 2": lambda: Chain((1, 24, 22, 16)).convolve(16).halve().pool(),
        "lookup": lambda: Chain((1, 12, 12, 8)).convolve(16, 3).look_up().pool(),
        "two pools": lambda: Chain((1, 12, 12, 8)).convolve(16, 3).pool().pool(),
        "wide map": lambda: Chain((1, 6, 300, 3)).convolve(8, 3).pool(),
    }
    return chains[name]() if name else tuple(chains)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", layers(""))
def test_maxima_are_exact(name, config):
    chain = layers(name)
    program = exact_programs(chain.graph(), load_config(config), SEEDS)[0]
    assert "pool=1" in disassemble(program)


def test_a_pool_takes_no_cycles():
    config = load_config("reference+pooling=1")
    alone, pooled = Chain((1, 32, 32, 16)).convolve(32, 3), Chain((1, 32, 32, 16)).convolve(32, 3)
    cycles = [
        exact_programs(chain.graph(), each, (None,))[0].predicted_cycles
        for chain, each in (
            (alone, config),
            (pooled.pool(), config),
            (pooled, dataclasses.replace(config, pooling=0)),
        )
    ]
    # A quarter of the results is stored.
    assert cycles[1] < cycles[0] < cycles[2]


def test_rows_beyond_the_last_block_are_not_computed():
    config = load_config("reference+pooling=1")
    (program,) = exact_programs(Chain((1, 15, 15, 16)).convolve(16).pool().graph(), config, (None,))
    assert sum(each.width * each.height for each in executes(program)) == 14 * 14


@pytest.mark.parametrize("why", ["output", "reader", "lookup"])
def test_a_map_that_is_needed_is_kept(why):
    """The map leaves the network, another layer reads it, or a table follows the maxima."""
    chain = Chain((1, 8, 8, 16)).convolve(16)
    made = chain.last
    if why == "reader":
        chain.convolve(16)
        other, chain.last = chain.last, made
        graph = chain.pool().graph(other)
    elif why == "lookup":
        graph = chain.pool().look_up().graph()
    else:
        graph = chain.pool().graph(made)
    (program,) = exact_programs(graph, load_config("reference+pooling=1"), (None,))
    assert "pool=1" not in disassemble(program)


def test_maxima_are_written_into_a_joined_tensor():
    chain = Chain((1, 8, 8, 16)).convolve(16, 3)
    made = chain.pool().last
    chain.last = 0
    graph = chain.convolve(16, stride=2).join(made).graph()
    (program,) = exact_programs(graph, load_config("reference+pooling=1"), (None,))
    lines = [each for each in disassemble(program).splitlines() if "pool=1" in each]
    # The next position of the joined tensor is 32 channels away.
    assert {"x_step=32" in each for each in lines} == {True}
