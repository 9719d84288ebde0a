"""MAXIMUM compares tensors of different scales before a QUANTIZE would round one of them."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import Destination, Opcode
from matloom.ir.attributes import Arithmetic
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.kernels.interpreter import interpret
from matloom.select.rewrites.rescaled_maxima import comparison
from support.chain import exact_programs
from support.instructions import instructions

REFERENCE, NANO = PRESETS["reference"], PRESETS["nano"]


def prelu(shape, scales=(0.193, 0.063, 0.132), zeros=(-5, 5, -65), seed=0):
    """Return a PReLU whose product has a scale of its own: of data, of products, of results."""
    generator, builder = np.random.default_rng([seed, *shape]), GraphBuilder()
    data, product, result = (
        Quantisation(scale=(scale,), zero_point=(zero,))
        for scale, zero in zip(scales, zeros, strict=True)
    )
    given = builder.input("x", shape, "int8", data)
    slopes = builder.constant(
        generator.integers(-60, 128, (1, 1, shape[-1]), np.int8),
        Quantisation(scale=(0.0075,), zero_point=(0,)),
    )
    # Two operators read it, and it is made on the engine.
    unit = builder.constant(
        np.array([127], np.int8), Quantisation(scale=(1 / 127,), zero_point=(0,))
    )
    plain = Arithmetic()
    x = builder.add(Op.MUL, [given, unit], plain, quantisation=data)
    made = builder.add(Op.MUL, [x, slopes], plain, quantisation=product)
    both = [builder.add(Op.QUANTIZE, [each], quantisation=result) for each in (made, x)]
    return builder.graph(builder.add(Op.MAXIMUM, both, quantisation=result))


def posts(program):
    """Return the POSTs of a program with one command buffer."""
    return instructions(program, Opcode.POST)


@pytest.mark.parametrize("config", [REFERENCE, NANO], ids=["reference", "nano"])
@pytest.mark.parametrize("shape", [(1, 7, 9, 16), (1, 5, 6, 24), (2, 3, 5, 7)], ids=str)
@pytest.mark.fast_cases(2)
def test_results_are_the_interpreters(shape, config):
    for program in exact_programs(prelu(shape), config, (None, 1, 2)):
        limits = [each for each in posts(program) if each.destination == Destination.ACC_SET]
        # They are compared on another scale than either has.
        assert limits
        assert {each.multiplier for each in limits} != {2**30}


def rescaled(scales, zeros):
    """Return what QUANTIZE makes of each byte, by unsigned byte."""
    builder = GraphBuilder()
    source, target = (
        Quantisation(scale=(scale,), zero_point=(zero,))
        for scale, zero in zip(scales, zeros, strict=True)
    )
    given = builder.input("x", (1, 256), "int8", source)
    graph = builder.graph(builder.add(Op.QUANTIZE, [given], quantisation=target))
    every = np.arange(256, dtype=np.uint8).view(np.int8).reshape(1, 256)
    return interpret(graph, {0: every})[graph.outputs[0]].reshape(-1)


def test_nearly_all_scales_can_be_compared():
    draw, found = np.random.default_rng(3), 0
    for _ in range(40):
        scales = 0.1 * np.exp(draw.uniform(-0.7, 0.7, 2))
        zeros = draw.integers(-128, 128, 2).tolist()
        table = rescaled(scales, zeros)
        found += comparison(table, scales[0] / scales[1], tuple(zeros), REFERENCE) is not None
    assert found >= 36


def test_a_wrong_table_cannot_be_compared():
    table = rescaled((0.11, 0.1), (3, -7)).copy()
    assert comparison(table, 1.1, (3, -7), REFERENCE) is not None
    table[20] += 1
    assert comparison(table, 1.1, (3, -7), REFERENCE) is None
