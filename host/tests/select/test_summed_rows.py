"""Means over whole maps, with the map as weights: exact, wherever the map comes from."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS, load_config
from matloom.compiler import CompileOptions, compile_network
from matloom.ir.attributes import Arithmetic, Conv2D, Padding, Pool2D, Reduce
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.select import pooling
from support.chain import exact_programs, executes

REFERENCE, NANO = PRESETS["reference"], PRESETS["nano"]


def pooled(size, op=Op.MEAN, *, made=True, doubled=False, kept=False):
    """Return a network that averages a map of a size (rows, columns, channels).

    Its input is the map, or with `made` another from which a convolution makes it. With `doubled`
    it is added to itself before; with `kept` it is an output as well.
    """
    builder, generator = GraphBuilder(), np.random.default_rng(sum(size))
    scale = Quantisation(scale=(0.05,), zero_point=(-7,))
    depth = 4 if made else size[2]
    data = builder.input("image", (1, *size[:2], depth), "int8", scale)
    if made:
        values = generator.integers(-127, 128, (size[2], 1, 1, depth), np.int8)
        weights = builder.constant(values, Quantisation(scale=(0.01,), zero_point=(0,)))
        attributes = Conv2D()
        data = builder.add(Op.CONV_2D, [data, weights], attributes)
    if doubled:
        data = builder.add(Op.ADD, [data, data], Arithmetic())
    if op is Op.MEAN:
        result = builder.add(op, [data], Reduce(axes=(1, 2), keep_dims=False))
    else:
        pool = Pool2D(window=size[:2])
        result = builder.add(op, [data], pool)
    return builder.graph(result, *([data] if kept else []))


def selects(program):
    """Return whether a program streams constants that select rows of a map."""
    return any(each.weights_wait_post for each in executes(program))


@pytest.mark.parametrize(
    "size", [(42, 42, 16), (40, 11, 48), (25, 5, 64), (19, 11, 96), (21, 9, 32)]
)
def test_means_are_exact_in_few_steps(size):
    """Blocks of 3 and 6 are at other rows in each tile; (40, 11, 48) leaves rows at the end."""
    for program in exact_programs(pooled(size), REFERENCE, (None, 1)):
        assert selects(program)


@pytest.mark.parametrize("op", [Op.MEAN, Op.AVERAGE_POOL_2D])
@pytest.mark.parametrize(
    "where", [{"made": False}, {"doubled": True}, {"kept": True}, {"made": False, "doubled": True}]
)
def test_the_map_comes_from_anywhere(op, where):
    for program in exact_programs(pooled((25, 13, 32), op, **where), REFERENCE, (None, 2)):
        assert selects(program)


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("name", ["nano", "small", "mini", "medium"])
@pytest.mark.parametrize("size", [(20, 20, 8), (11, 13, 24), (30, 1, 48)])
@pytest.mark.parametrize("where", [{}, {"made": False, "doubled": True}])
def test_presets_are_exact(name, size, where):
    exact_programs(pooled(size, **where), PRESETS[name], (None, 1, 2))


@pytest.mark.parametrize("engine", ["nano+rows=8+columns=16", "reference"])
@pytest.mark.parametrize(
    ("size", "window", "stride", "pads"),
    [
        ((3, 2, 128), (3, 2), (1, 1), (1, 1, 0, 1)),
        ((5, 5, 64), (5, 5), (9, 9), (2, 2, 2, 2)),
        ((5, 5, 64), (5, 5), (9, 9), (0, 0, 3, 0)),
        ((5, 3, 64), (3, 5), (9, 9), (0, 0, 1, 1)),
        ((10, 10, 128), (10, 10), (10, 10), (5, 5, 5, 5)),
    ],
)
def test_padded_windows_of_the_size_of_the_map(engine, size, window, stride, pads):
    """Some taps are padding, so neither all nor only whole maps are summed."""
    builder, (top, bottom, left, right) = GraphBuilder(), pads
    image = builder.input("image", (1, *size), "int8", Quantisation(scale=(0.1,), zero_point=(5,)))
    padding = Padding(top=top, bottom=bottom, left=left, right=right)
    pool = Pool2D(window=window, stride=stride, padding=padding)
    graph = builder.graph(builder.add(Op.AVERAGE_POOL_2D, [image], pool))
    for program in exact_programs(graph, load_config(engine), (None, 1)):
        assert not selects(program)


def test_few_channels_are_summed_faster_than_by_windows(monkeypatch):
    """A tile of weights has 16 positions and loads in four cycles; a window streams 15 of them."""
    graph = pooled((42, 42, 16))
    found = compile_network(graph, REFERENCE, CompileOptions())
    monkeypatch.setattr(pooling, "sum_with_map_as_weights", lambda stage, *_others: stage)
    plain = compile_network(graph, REFERENCE, CompileOptions())
    assert selects(found)
    assert not selects(plain)
    assert found.predicted_cycles < plain.predicted_cycles - 1000
