"""MAXIMUM and MINIMUM of two computed tensors run on the engine."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS, load_config
from matloom.arch.isa import Opcode
from matloom.compiler import compile_network
from matloom.ir.attributes import Conv2D
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.program.instruction_table import unpack_all
from support.chain import exact_programs, executes

REFERENCE, NANO = PRESETS["reference"], PRESETS["nano"]


def compared(op, size, depth=5, seed=0):
    """Return a network with the maximum or minimum of two convolutions of its input."""
    generator = np.random.default_rng([seed, *size])
    builder = GraphBuilder()
    scale = Quantisation(scale=(0.05,), zero_point=(3,))
    image = builder.input("image", (1, *size[:2], depth), "int8", scale)
    attributes = Conv2D()
    made = []
    for _ in range(2):
        data = generator.integers(-127, 128, (size[2], 1, 1, depth), np.int8)
        weights = builder.constant(data, Quantisation(scale=(0.01,), zero_point=(0,)))
        made.append(builder.add(Op.CONV_2D, [image, weights], attributes))
    return builder.graph(builder.add(op, made))


@pytest.mark.parametrize("config", [REFERENCE, NANO], ids=["reference", "nano"])
@pytest.mark.parametrize("op", [Op.MAXIMUM, Op.MINIMUM])
@pytest.mark.parametrize("size", [(6, 7, 16), (5, 3, 7), (1, 1, 10), (48, 48, 24)])
@pytest.mark.fast_cases(4)
def test_results_are_the_interpreters(op, size, config):
    for program in exact_programs(compared(op, size), config, (None, 1)):
        assert [layer.where for layer in program.layers] == ["engine"] * 3


def test_nothing_is_copied():
    """What is not a convolution computes maxima."""
    (program,) = exact_programs(compared(Op.MAXIMUM, (8, 8, 16)), REFERENCE, (None,))
    found = executes(program)
    assert {each.maximum for each in found} == {0, 1}
    assert all(each.maximum for each in found if each.weights_fixed)


def test_results_of_a_tile_follow_the_arithmetic_of_the_next():
    """LOADs between two tiles of maps that leave the chip change nothing about it."""
    (program,) = exact_programs(compared(Op.MAXIMUM, (48, 48, 24)), NANO, (None,))
    (step,) = program.steps
    commands = list(unpack_all(program.commands(step)))
    first = next(at for at, each in enumerate(commands) if each.values.get("maximum"))
    assert any(each.opcode is Opcode.LOAD for each in commands[first:])
    sums = [each for each in commands[first:] if each.opcode in (Opcode.EXEC, Opcode.POST)]
    limits = [at for at, each in enumerate(sums) if each.values.get("destination")]
    # Of the tile before: POST reads other entries than EXEC has just made.
    behind = [sums[at + 1].acc_addr != sums[at + 2].acc_addr for at in limits[:-1]]
    assert all(behind)


def test_a_tensor_compared_with_itself():
    builder = GraphBuilder()
    image = builder.input(
        "image", (1, 4, 5, 8), "int8", Quantisation(scale=(0.1,), zero_point=(0,))
    )
    exact_programs(builder.graph(builder.add(Op.MAXIMUM, [image, image])), NANO, (None, 1, 2))


def test_engines_without_maxima_leave_it_to_the_host():
    config = load_config("nano+maximum=0")
    program = compile_network(compared(Op.MAXIMUM, (4, 4, 8)), config)
    assert program.layers[-1].where == "host"
    assert program.layers[-1].reason == "it keeps maxima, and the configuration has maximum = 0"
