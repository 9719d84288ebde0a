"""Which accumulator entries tiles have, and what that makes them wait for."""

from types import SimpleNamespace

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode, Region
from matloom.arch.machine import Machine
from matloom.compiler import compile_network
from matloom.data.matrix_products import product_graph
from matloom.program.instruction_table import unpack_all
from matloom.schedule.accumulators import Accumulators
from matloom.schedule.cost import predict
from matloom.schedule.tiles import ArrayTile

CONFIG = PRESETS["reference"]


def _of(program, opcode):
    (step,) = program.steps
    commands = unpack_all(program.commands(step))
    return [item.values for item in commands if item.opcode is opcode]


def test_small_tiles_wait_for_no_post():
    """One position each: entries are plenty, and none is used twice."""
    tiles = _of(compile_network(product_graph(1, 256, 1280), CONFIG), Opcode.EXEC)
    assert len(tiles) > 4
    assert [tile["wait_post"] for tile in tiles] == [0] * len(tiles)
    half = CONFIG.acc_entries // 2
    assert [tile["acc_addr"] // half for tile in tiles] == [
        (number + tiles[0]["acc_addr"] // half) % 2 for number in range(len(tiles))
    ]
    used = [
        entry
        for tile in tiles
        for entry in range(tile["acc_addr"], tile["acc_addr"] + tile["oc_blocks"])
    ]
    assert len(set(used)) == len(used)


def test_small_tiles_begin_again_where_a_half_is_full():
    config = PRESETS["nano"]
    outputs = 2 * config.acc_entries * config.columns
    tiles = _of(compile_network(product_graph(1, 16, outputs), config), Opcode.EXEC)
    assert sum(tile["oc_blocks"] for tile in tiles) == 2 * config.acc_entries
    assert all(tile["acc_addr"] + tile["oc_blocks"] <= config.acc_entries for tile in tiles)


def test_large_tiles_lie_after_each_other_where_post_keeps_up():
    """Of four steps, POST of a tile is done long before its half is needed again."""
    tiles = _of(compile_network(product_graph(2000, 64, 16), CONFIG), Opcode.EXEC)
    assert [tile["wait_post"] for tile in tiles[:4]] == [0] * 4
    half = CONFIG.acc_entries // 2
    assert [tile["acc_addr"] for tile in tiles[:5]] == [0, half, 250, half + 250, 0]
    assert {tile["width"] * tile["height"] for tile in tiles[:5]} == {250}


@pytest.mark.parametrize("shape", [(4000, 16, 16), (4000, 32, 16), (2000, 64, 16), (300, 16, 256)])
def test_no_sums_keep_post_from_its_half(shape):
    """An EXEC whose sums come in every cycle begins when POST has read the tile before it there."""
    machine, half = Machine(config=CONFIG), CONFIG.acc_entries // 2
    (step,) = (program := compile_network(product_graph(*shape), CONFIG)).steps
    commands = list(unpack_all(program.commands(step)))
    for number, command in enumerate(commands, 1):
        command.values["timestamp"] = number
    done = predict(commands, machine).timestamps
    read, large = [0, 0], 0
    for number, command in enumerate(commands[:-1], 1):
        values, (work, _after) = command.values, machine.durations(command)[0]
        if command.opcode is Opcode.POST:
            way = work - machine.post_cycles(values)
            at = values["acc_addr"] // half
            read[at] = max(read[at], done[number] - way)
        elif command.opcode is Opcode.EXEC and values["width"] * values["height"] > 8:
            large += 1
            assert read[values["acc_addr"] // half] <= done[number] - work
    assert large > 4


def _tile(first, rows, blocks=1):
    """Return a tile of rows of twelve positions."""
    return ArrayTile(0, first, first + rows, 0, 12, 0, blocks, 0, 2, 0, {})


def test_a_tile_that_waits_waits_for_what_is_read_last():
    """Where two POSTs read a tile, and the next one there needs no more entries than the first."""
    machine, instructions = Machine(config=CONFIG), []
    accumulators = Accumulators(machine, instructions)
    shape, half = {"kernel_rows": 1, "kernel_cols": 1, "blocks": 1}, CONFIG.acc_entries // 2
    stage = SimpleNamespace(entries=lambda config: half)
    starts = []
    for rows, posts in ((24, 2), (24, 2), (12, 1)):
        starts.append(accumulators.of(stage, _tile(0, rows)))
        size = {"width": 12, "height": rows, "oc_blocks": 1}
        run = {**shape, **size, "acc_addr": starts[-1], "wait_post": max(0, 2 * len(starts) - 4)}
        instructions.append(Instruction(Opcode.EXEC, run))
        for part in range(posts):
            entry = starts[-1] + part * 12 * rows // posts
            size["height"] = rows // posts
            read = {**size, "acc_addr": entry, "wait_exec": 1}
            instructions.append(Instruction(Opcode.POST, read))
    assert starts == [0, half, 144]


def test_loads_of_input_do_not_wait_for_the_tile_before():
    program = compile_network(product_graph(2000, 300, 16), PRESETS["nano"])
    loads = [values for values in _of(program, Opcode.LOAD) if values["region"] == Region.INPUT]
    assert len(loads) > 4
    assert all(values["wait_exec"] != 1 for values in loads)
