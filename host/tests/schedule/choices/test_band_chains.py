"""Narrow depthwise layers with pointwise layers between them, on two bands of rows throughout."""

import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, compile_network
from matloom.ir.names import unique_names
from matloom.meaning import check_meaning
from support.chain import Chain, exact_programs, executes

REFERENCE = PRESETS["reference"]


def begin(image=(12, 10)):
    """Return a convolution, a pointwise one, a depthwise one, and a pointwise one, all narrow."""
    made = Chain((1, *image, 3)).convolve(8, 3).convolve(8)
    return made.halve(stride=(1, 1)).convolve(4)


def chain(image=(12, 10)):
    """Return two narrow depthwise layers, and a wider layer behind them."""
    return begin(image).convolve(8).halve(stride=(1, 1)).convolve(4).convolve(24)


def bands(program):
    """Return the EXECs whose windows see the eight channels of two positions."""
    windows = [each for each in executes(program) if each.window and not each.paired]
    return [each for each in windows if each.x_step == 16]


def windows_on_bands(graph, seeds):
    """Compare a graph with the interpreter; return how many depthwise layers are on bands."""
    (count,) = {
        len({each.weight_addr for each in bands(program)})
        for program in exact_programs(graph, REFERENCE, seeds)
    }
    return count


@pytest.mark.parametrize("image", [(12, 10), (4, 2), (48, 6)])
def test_both_depthwise_layers_are_on_bands_in_any_tiles(image):
    assert windows_on_bands(chain(image).graph(), (1, 2, 3)) == 2
    exact_programs(chain(image).graph(), REFERENCE, (None,))


def test_a_sum_of_two_tensors_on_bands():
    made = begin().convolve(8).halve(stride=(1, 1)).convolve(4).add(before=3).convolve(24)
    assert windows_on_bands(made.graph(), (1, 2, 3)) == 2


def test_other_positions_than_those_of_the_graph_have_the_meaning_of_the_graph():
    graph = chain((48, 48)).graph()
    (program,) = exact_programs(graph, REFERENCE, (None,))
    assert bands(program)
    proven, all_runs = check_meaning(graph, program, unique_names(graph))
    assert proven == all_runs


def test_depthwise_layers_take_two_positions_a_cycle():
    graph = chain((48, 48)).graph()
    program = compile_network(graph, REFERENCE)
    streamed = sum(each.width * each.height for each in bands(program))
    assert 48 * 48 <= streamed <= 2 * 49 * (24 + 3 * 2)


def refused():
    yield "a pool", begin().pool().graph()
    yield "a sum with a tensor that is not on bands", begin().convolve(8).add(before=4).graph()
    yield "a result", begin().graph()
    made = chain()
    yield "a result on the way", made.graph(made.nodes[3].outputs[0])
    yield "another reader of what the first layer makes", _read_twice()
    yield "an odd number of rows", chain((13, 10)).graph()
    yield "a convolution of several taps", begin().convolve(24, 3).graph()


def _read_twice():
    made = begin()
    return made.convolve(24).graph(made.nodes[0].outputs[0])


@pytest.mark.parametrize("graph", [pytest.param(graph, id=name) for name, graph in refused()])
def test_graphs_without_bands(graph):
    assert not windows_on_bands(graph, (None, 1))


def test_bands_that_do_not_fit():
    options = CompileOptions(tiling_seed=1)
    graph = chain((160, 160)).graph()
    assert not bands(compile_network(graph, REFERENCE, options))
