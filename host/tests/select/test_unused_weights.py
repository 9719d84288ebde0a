"""Dense layers whose last weight tile has unused rows: LOADs leave them out."""

import pytest

from matloom.arch.config import load_config
from matloom.arch.isa import Opcode, Region
from matloom.ir.attributes import Activation, FullyConnected
from matloom.ir.graph import Op
from matloom.program.instruction_table import unpack_all
from matloom.verification.random_operators import Instances
from support.chain import Chain, exact_programs, executes


def layer(depth, channels, batch=1):
    """Return a network of one FULLY_CONNECTED."""
    instances = Instances(depth)
    given = [
        instances._tensor("t0", (batch, depth)),
        instances._weights((channels, depth), 0),
        *instances._bias(channels),
    ]
    attributes = FullyConnected(activation=Activation.RELU)
    return instances.network(Op.FULLY_CONNECTED, given, attributes)


def weight_bytes(program):
    """Return the bytes that LOADs bring from the program, without its commands."""
    (step,) = program.steps
    return sum(
        each.row_bytes * each.rows
        for each in unpack_all(program.commands(step))
        if each.opcode is Opcode.LOAD and each.region == Region.PROGRAM and not each.fill
    )


@pytest.mark.parametrize("config", ["nano", "small", "reference"])
@pytest.mark.parametrize("batch", [1, 3, 20])
@pytest.mark.parametrize("depth", [3, 8, 36, 100, 112, 130])
def test_layers_are_exact(depth, batch, config):
    exact_programs(layer(depth, 70, batch), load_config(config), (None, 1, 2))


@pytest.mark.parametrize(
    ("depth", "batch", "rows"),
    [
        (100, 1, 100),
        (112, 1, 112),
        # One unused row of 48 is too few, and of 20 samples each hides the weights.
        (47, 1, 48),
        (100, 20, 112),
    ],
)
def test_bytes_of_weights(depth, batch, rows):
    """All other bytes are parameters: 64 for a block with one scale, 144 with one by channel."""
    graph = layer(depth, 160, batch)
    (program,) = exact_programs(graph, load_config("reference"), (None,))
    assert weight_bytes(program) - rows * 160 in (10 * 64, 10 * 144)


def test_convolutions_of_single_positions_too():
    graph = Chain((1, 1, 1, 40)).convolve(160).graph()
    programs = exact_programs(graph, load_config("reference"), (None, 1))
    assert all(each.pad_value == 0 for program in programs for each in executes(program))


def test_samples_side_by_side_keep_zeros():
    """Vectors beyond a sample hold the next one, which must meet weights of zero."""
    exact_programs(layer(100, 6, 3), load_config("reference"), (None, 1))
