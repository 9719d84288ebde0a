"""Which accumulator entries tiles have, and what that makes them wait for."""

from matloom.arch.config import PRESETS
from matloom.arch.isa import Opcode, Region
from matloom.compiler import compile_network
from matloom.data.matrix_products import product_graph
from matloom.program.instruction_table import unpack_all

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


def test_large_tiles_begin_a_half():
    """Their sums come in every cycle, and would keep POST from its half."""
    tiles = _of(compile_network(product_graph(4000, 16, 16), CONFIG), Opcode.EXEC)
    assert len(tiles) > 4
    assert {tile["acc_addr"] for tile in tiles} == {0, CONFIG.acc_entries // 2}


def test_loads_of_input_do_not_wait_for_the_tile_before():
    program = compile_network(product_graph(2000, 300, 16), PRESETS["nano"])
    loads = [values for values in _of(program, Opcode.LOAD) if values["region"] == Region.INPUT]
    assert len(loads) > 4
    assert all(values["wait_exec"] != 1 for values in loads)
