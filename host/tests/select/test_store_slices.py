"""Slices that only become variables are stored from the larger tensor, without a copy."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, compile_unchecked
from matloom.data.growth import Growth
from matloom.data.streaming import delay, streaming_network
from matloom.ir.attributes import Arithmetic, Slice
from matloom.ir.graph import Op
from matloom.select.rewrites.store_slices import contiguous_range

NANO = PRESETS["nano"]


def sliced(shape, begin, size, step=None):
    """Return a graph of one slice, and its node."""
    growth = Growth((1,))
    given = growth.input(shape, "int8")
    attributes = Slice(begin=begin, size=size, step=step or (1,) * len(shape), dropped=())
    growth.operator(Op.STRIDED_SLICE, [given], attributes)
    graph = growth.graph("a test", [given], [1])
    return graph, graph.nodes[0]


@pytest.mark.parametrize(
    ("shape", "begin", "size", "step", "span"),
    [
        ((1, 5, 1, 6), (0, 2, 0, 0), (1, 3, 1, 6), (1, 1, 1, 1), (12, 30)),
        ((1, 5, 2, 6), (0, 2, 0, 0), (1, 2, 2, 6), (1, 1, 1, 1), (24, 48)),
        ((1, 5, 2, 6), (0, 2, 0, 0), (1, 2, 1, 6), (1, 1, 1, 1), None),
        ((1, 5, 2, 6), (0, 2, 1, 0), (1, 1, 1, 6), (1, 1, 1, 1), (30, 36)),
        ((1, 5, 2, 6), (0, 0, 0, 0), (1, 5, 2, 6), (1, 1, 1, 1), (0, 60)),
        ((1, 6, 1, 4), (0, 0, 0, 0), (1, 3, 1, 4), (1, 2, 1, 1), None),
        ((2, 3), (1, 1), (1, 2), (1, 1), (4, 6)),
    ],
)
def test_bytes_of_a_slice(shape, begin, size, step, span):
    assert contiguous_range(*sliced(shape, begin, size, step)) == span


def test_bytes_of_random_slices():
    """Compare with NumPy's slices of an array of element numbers."""
    draw = np.random.default_rng(0)
    contiguous = 0
    for _ in range(300):
        shape = tuple(int(n) for n in draw.integers(1, 4, 4))
        begin = tuple(int(draw.integers(0, n)) for n in shape)
        size = tuple(int(draw.integers(1, n - at + 1)) for n, at in zip(shape, begin, strict=True))
        every = np.arange(np.prod(shape)).reshape(shape)
        window = tuple(slice(at, at + n) for at, n in zip(begin, size, strict=True))
        taken = every[window].ravel()
        dense = bool((np.diff(taken) == 1).all())
        contiguous += dense
        wanted = (int(taken[0]), int(taken[-1]) + 1) if dense else None
        assert contiguous_range(*sliced(shape, begin, size)) == wanted
    assert 50 < contiguous < 250


def cycles_of(program, operator):
    return [layer.predicted_cycles for layer in program.layers if layer.operator == operator]


@pytest.mark.parametrize("preset", ["nano", "small", "reference"])
def test_a_streaming_network_copies_no_slice(preset):
    made = compile_unchecked(streaming_network(3), PRESETS[preset], CompileOptions())
    assert cycles_of(made.program, "STRIDED_SLICE") == [0] * 4
    assert made.check("full").stages == (14, 14)


def remembering(height, *, read):
    """Return a network of a delay line, whose slice is optionally read by an operator, too."""
    growth = Growth((height,))
    given = growth.input((1, height, 32, 16), "int8")
    joined = delay(growth, given, height)
    (variable,) = growth.variables
    nothing = Arithmetic()
    source = variable.after if read else joined
    (result,) = growth.operator(Op.ADD, [source, source], nothing)
    return growth.graph("a test", [given], [result])


def test_a_slice_that_is_read_is_made():
    made = compile_unchecked(remembering(2, read=True), NANO, CompileOptions())
    assert all(cycles_of(made.program, "STRIDED_SLICE"))
    made.check("full")


def test_large_tensors_are_copied():
    """The tensor would have to stay on chip, and is too large."""
    graph = remembering(64, read=False)
    assert graph.tensors[graph.nodes[0].output].size == 2 * NANO.spad_bytes
    made = compile_unchecked(graph, NANO, CompileOptions())
    assert all(cycles_of(made.program, "STRIDED_SLICE"))
    made.check("full")


@pytest.mark.parametrize("seed", range(4))
def test_random_tilings(seed):
    made = compile_unchecked(streaming_network(seed), NANO, CompileOptions(tiling_seed=seed))
    made.check("full")
    assert all(variable.place is not None for variable in made.program.variables)
