"""POSTs of element-wise tiles: an input that repeats is brought to the accumulators once."""

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import Destination, Opcode
from matloom.ir.attributes import Arithmetic, Reduce
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from support.chain import exact_programs
from support.instructions import instructions

REFERENCE, NANO = PRESETS["reference"], PRESETS["nano"]


def scaled(shape, *, swapped=False, op=Op.MUL):
    """Return a network that multiplies a tensor by its own means."""
    builder = GraphBuilder()
    quantisation = Quantisation(scale=(0.04,), zero_point=(-9,))
    image = builder.input("image", shape, "int8", quantisation)
    mean = Reduce(axes=(1, 2), keep_dims=True)
    means = builder.add(Op.MEAN, [image], mean, quantisation=quantisation)
    both = [means, image] if swapped else [image, means]
    plain = Arithmetic()
    return builder.graph(builder.add(op, both, plain, quantisation=quantisation))


def fills(program):
    """Return the POSTs of several rows that set accumulators."""
    return [
        each
        for each in instructions(program, Opcode.POST)
        if each.destination == Destination.ACC_SET and each.height > 1
    ]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("shape", [(1, 10, 25, 24), (1, 9, 7, 32), (1, 11, 13, 7)], ids=str)
def test_factors_that_repeat_fill_the_accumulators_once(shape, swapped):
    plain, *_others = exact_programs(scaled(shape, swapped=swapped), REFERENCE, (None, 1, 2))
    (fill,) = fills(plain)
    assert fill.source_pitch == 0
    assert 2 * fill.height <= shape[1] * shape[2]


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL])
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("seed", range(4))
def test_any_tiles_are_exact(op, seed):
    exact_programs(scaled((1, 6, 9, 20), op=op), REFERENCE, (seed,))


@pytest.mark.parametrize(("size", "posts"), [(20, 1), (112 + 7, 2), (7, 1), (32, 1)])
def test_few_whole_vectors_and_the_rest_are_one_post(size, posts):
    """A table of bytes takes a POST for all of them, or one for whole vectors and one more."""
    builder = GraphBuilder()
    quantisation = Quantisation(scale=(0.04,), zero_point=(-9,))
    row = builder.input("row", (1, size), "int8", quantisation)
    limited = builder.graph(builder.add(Op.RELU6, [row], quantisation=quantisation))
    (program,) = exact_programs(limited, REFERENCE, (None,))
    assert len(instructions(program, Opcode.POST)) == posts
