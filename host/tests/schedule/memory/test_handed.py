"""Tensors that the next stage reads where their tiles were made: exact, without transfers."""

from dataclasses import replace

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import Region
from matloom.ir.attributes import Arithmetic, Conv2D
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from support.chain import exact_programs
from support.instructions import loaded, stored

#: Room for fewer bytes than a map has.
SMALL = replace(PRESETS["reference"], spad_bytes=32768, spad_banks=4)
SIZE = (36, 36, 32)


def residual(op, *more):
    """Return a network that combines the results of two convolutions; `more` are outputs, too."""
    generator = np.random.default_rng(1)
    builder = GraphBuilder()
    scale = Quantisation(scale=(0.05,), zero_point=(3,))
    image = builder.input("image", (1, *SIZE[:2], 8), "int8", scale)
    attributes = Conv2D()
    made = []
    for _ in range(2):
        data = generator.integers(-127, 128, (SIZE[2], 1, 1, 8), np.int8)
        weights = builder.constant(data, Quantisation(scale=(0.01,), zero_point=(0,)))
        made.append(builder.add(Op.CONV_2D, [image, weights], attributes))
    result = builder.add(op, made, Arithmetic())
    return builder.graph(result, *(made[each] for each in more))


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL])
def test_what_only_the_next_stage_reads_is_not_stored(op):
    """The other input is, for it is complete long before."""
    (program,) = exact_programs(residual(op), SMALL, (None,))
    size = 36 * 36 * 32
    assert (stored(program), stored(program, Region.OUTPUT)) == (size, size)
    assert (loaded(program), loaded(program, Region.OUTPUT)) == (size, 0)


def test_what_is_an_output_is_stored():
    (program,) = exact_programs(residual(Op.ADD, 1), SMALL, (None,))
    assert stored(program, Region.OUTPUT) == 2 * 36 * 36 * 32


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("seed", range(1, 9))
def test_any_tiles_are_exact(seed):
    exact_programs(residual(Op.ADD), SMALL, (seed,))
