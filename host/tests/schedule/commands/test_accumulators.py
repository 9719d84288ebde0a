"""Accumulator entries of tiles, and the resulting waits."""

import random
from types import SimpleNamespace

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode, Region
from matloom.arch.machine import Machine
from matloom.compiler import compile_network
from matloom.cost import shared_timings
from matloom.cost.predict import predict
from matloom.data.matrix_products import product_graph
from matloom.program.instruction_table import unpack_all
from matloom.schedule.commands.accumulators import Accumulators
from matloom.schedule.tiling.tiles import ArrayTile

CONFIG = PRESETS["reference"]


def _of(program, opcode):
    (step,) = program.steps
    commands = unpack_all(program.commands(step))
    return [item.values for item in commands if item.opcode is opcode]


def test_small_tiles_wait_for_no_post():
    """With one position each, there are enough entries, and none is used twice."""
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


def test_large_tiles_are_adjacent_if_post_keeps_up():
    """With four steps, POST of a tile finishes long before its half is needed again."""
    tiles = _of(compile_network(product_graph(2000, 64, 16), CONFIG), Opcode.EXEC)
    assert [tile["wait_post"] for tile in tiles[:4]] == [0] * 4
    half = CONFIG.acc_entries // 2
    assert [tile["acc_addr"] for tile in tiles[:5]] == [0, half, 250, half + 250, 0]
    assert {tile["width"] * tile["height"] for tile in tiles[:5]} == {250}


@pytest.mark.parametrize("shape", [(4000, 16, 16), (4000, 32, 16), (2000, 64, 16), (300, 16, 256)])
def test_updates_do_not_block_post(shape):
    """An EXEC that updates sums in every cycle starts after POST has read the tile before."""
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


def plain_stage(entries):
    """Return a stage with these entries of a half, whose sums are its own."""
    return SimpleNamespace(entries=entries, sums_per_output=1, shares_sums=False)


def _tile(first, rows, blocks=1):
    """Return a tile of rows of twelve positions."""
    return ArrayTile(0, first, first + rows, 0, 12, 0, blocks, 0, 2, 0, {})


class Emitted:
    """Instructions with their costs."""

    def __init__(self, machine):
        self.machine, self.instructions, self.costs = machine, [], []

    def append(self, instruction):
        self.instructions.append(instruction)
        self.costs.append(shared_timings(self.machine).of(instruction))


def _third(steps, posts, params):
    """Return the first entry of a third tile, and those of the first two, which POST may read."""
    machine = Machine(config=CONFIG)
    emitted = Emitted(machine)
    accumulators = Accumulators(machine, emitted)
    shape = {"kernel_rows": 1, "kernel_cols": 1, "blocks": steps}
    area = {"input_addr": 0, "input_rows": 1, "input_row_bytes": 4096, "weight_addr": 128 * 1024}
    stage = plain_stage(entries=lambda config: config.acc_entries // 2)
    starts = []
    for number, rows in enumerate((24, 24, 12)):
        starts.append(accumulators.of(stage, _tile(0, rows)))
        size = {"width": 12, "height": rows, "oc_blocks": 1}
        wait = posts if number == 2 and starts[-1] < 288 else 0
        run = {**shape, **area, **size, "acc_addr": starts[-1], "wait_post": wait}
        emitted.append(Instruction(Opcode.EXEC, run))
        for part in range(posts):
            entry = starts[-1] + part * 12 * rows // posts
            size["height"] = rows // posts
            read = {**size, "acc_addr": entry, "wait_exec": 1, "param_addr": params}
            emitted.append(Instruction(Opcode.POST, {**read, "channel_bias": 1}))
    return starts[2], starts[:2]


@pytest.mark.parametrize(
    ("steps", "posts", "params", "entry"),
    [(4, 1, 64 * 1024, 288), (1, 1, 64 * 1024, 144), (1, 2, 64 * 1024, 144), (4, 1, 4096, 144)],
    ids=["POST keeps up", "POST is slower", "two POSTs", "parameters with the input"],
)
def test_a_tile_waits_for_the_last_read(steps, posts, params, entry):
    """Its last entry belongs to the tile before; without new parameters, POST reads none."""
    assert _third(steps, posts, params) == (entry, [0, CONFIG.acc_entries // 2])


@pytest.mark.parametrize("steps", [1, 4])
def test_tiles_of_pairs_among_others_lie_within_their_halves(steps, seed):
    """A half has half as many entries for a stage whose blocks use pairs."""
    generator, machine = random.Random(seed), Machine(config=CONFIG)
    emitted = Emitted(machine)
    accumulators = Accumulators(machine, emitted)
    for number in range(60):
        per_block = 1 + number // 2 % 2
        half = CONFIG.acc_entries // 2 // per_block
        stage = plain_stage(entries=lambda config, half=half: half)
        rows = generator.randint(1, half // 12)
        entry = accumulators.of(stage, _tile(0, rows))
        assert entry % half + 12 * rows <= half
        size = {"width": 12, "height": rows, "oc_blocks": 1, "acc_addr": entry}
        run = {"kernel_rows": 1, "kernel_cols": 1, "blocks": steps, **size}
        emitted.append(Instruction(Opcode.EXEC, {**run, "input_rows": 1}))
        emitted.append(Instruction(Opcode.POST, {**size, "wait_exec": 1}))


def test_loads_of_input_do_not_wait_for_the_tile_before():
    program = compile_network(product_graph(2000, 300, 16), PRESETS["nano"])
    loads = [values for values in _of(program, Opcode.LOAD) if values["region"] == Region.INPUT]
    assert len(loads) > 4
    assert all(values["wait_exec"] != 1 for values in loads)


def test_stages_that_share_sums_keep_the_others_off_their_half():
    half = CONFIG.acc_entries // 2
    machine = Machine(config=CONFIG)
    accumulators = Accumulators(machine, Emitted(machine))
    grid = SimpleNamespace(blocks=4)
    other = plain_stage(entries=lambda config: half)
    entries = []
    for group in range(3):
        part = SimpleNamespace(
            entries=lambda config: half,
            shares_sums=True,
            sums_per_output=1,
            is_unfinished=group < 2,
            grid=grid,
            steps=2,
        )
        halves = {accumulators.of(other, _tile(0, 2)) // half for _ in range(3)}
        assert not group or halves == {1 - entries[0][0] // half}
        blocks = ((0, 3), (3, 4)) if group else ((0, 4),)
        tiles = (_tile(0, 5)._replace(first_block=a, end_block=b) for a, b in blocks)
        entries.append([accumulators.of(part, tile) for tile in tiles])
    # Before the first group, tiles alternate.
    (begin,), *later = entries
    assert all(each == [begin, begin + 180] for each in later)
    assert begin % half == 0
    after = [accumulators.of(other, _tile(0, 2)) // half for _ in range(2)]
    assert sorted(after) == [0, 1]
    assert after[0] != begin // half
