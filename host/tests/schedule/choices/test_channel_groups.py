"""Two stages by groups of channels: exact in any tiles, and chosen where they are faster."""

from dataclasses import replace

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import Opcode
from matloom.compiler import CompileOptions, compile_network
from matloom.ir.graph import Node, Op
from matloom.schedule import tuning
from support.chain import Chain, exact_programs
from support.instructions import instructions

REFERENCE = PRESETS["reference"]


def generator(channels=64, size=(5, 6), kernel=3, looked_up=False):
    """Return the layers of a generator: a dense layer makes a map, and a convolution reads it."""
    made = Chain((1, 1, 1, 36)).dense(size[0] * size[1] * channels)
    if looked_up:
        made = made.look_up()
    return reshape(made, (1, *size, channels)).convolve(32, kernel)


def reshape(made, shape):
    """Add RESHAPE to a chain."""
    number = len(made.tensors)
    tensor = made.tensors[made.last]
    made.tensors[number] = replace(tensor, name=f"tensor_{number}", shape=shape)
    made.nodes.append(
        Node(
            op=Op.RESHAPE,
            inputs=(made.last,),
            outputs=(number,),
            index=len(made.nodes),
        )
    )
    made.last = number
    return made


def grouped(program):
    """Return the EXECs that stream an input of 16 channels under a kernel, and add to sums."""
    return [
        each
        for each in instructions(program, Opcode.EXEC)
        if each.values["accumulate"] and each.values["x_step"] == REFERENCE.columns
    ]


def without_groups(graph, config=REFERENCE):
    """Return the program of a graph whose stages all make all channels."""
    with tuning.override({"GROUPS_GAIN": 1e9}):
        return compile_network(graph, config, CompileOptions(), check="none")


def test_a_dense_layer_and_its_reader_share_the_bus():
    graph = generator(channels=128, size=(7, 7), kernel=5).graph()
    (program,) = exact_programs(graph, REFERENCE, (None,))
    assert grouped(program)
    assert program.predicted_cycles < 0.9 * without_groups(graph).predicted_cycles


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("channels", [32, 48])
@pytest.mark.parametrize("looked_up", [False, True])
def test_groups_of_a_dense_layer_in_any_tiles(kernel, channels, looked_up):
    graph = generator(channels, kernel=kernel, looked_up=looked_up).graph()
    exact_programs(graph, REFERENCE, (None, 1, 2, 3))


@pytest.mark.parametrize("seed", range(3))
def test_groups_of_a_convolution_in_any_tiles(seed):
    graph = Chain((1, 6, 5, 20)).convolve(48, 3).convolve(24, 3).pool().convolve(40).graph()
    exact_programs(graph, REFERENCE, (seed,))


def test_other_layers_keep_off_the_shared_sums():
    """All groups but the last leave sums in the half that the first one began in."""
    graph = generator(channels=128, size=(7, 7), kernel=5).graph()
    (program,) = exact_programs(graph, REFERENCE, (None,))
    half, shared = REFERENCE.acc_entries // 2, grouped(program)
    (side,) = {each.values["acc_addr"] // half for each in shared}
    begun = instructions(program, Opcode.EXEC).index(shared[0])
    ended = instructions(program, Opcode.EXEC).index(shared[-1])
    between = instructions(program, Opcode.EXEC)[begun:ended]
    others = {each.values["acc_addr"] // half for each in between if each not in shared}
    assert others == {1 - side}


def test_layers_that_wait_for_the_bus_alone_make_all_channels():
    graph = Chain((1, 1, 1, 64)).dense(512).dense(512).graph()
    (program,) = exact_programs(graph, REFERENCE, (None,))
    assert program.predicted_cycles == without_groups(graph).predicted_cycles


def test_sums_that_exceed_half_of_the_accumulators_are_made_at_once():
    graph = generator(channels=32, size=(24, 24), kernel=3).graph()
    config = replace(REFERENCE, acc_bytes=16 * 1024)
    for program in exact_programs(graph, config, (None, 1)):
        assert not grouped(program)
