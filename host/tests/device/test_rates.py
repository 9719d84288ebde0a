"""Instructions, and blocks of a POST, follow each other as fast on the chip as predicted."""

import numpy as np
import pytest

from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Destination, Opcode, Region, Source
from matloom.arch.machine import Machine
from matloom.cost.predict import predict
from matloom.program.verify import verify_commands

pytestmark = pytest.mark.parametrize("pair", ["nano", "8x16"], indirect=True)

EXEC = {
    **dict.fromkeys(("width", "height", "kernel_rows", "kernel_cols", "blocks", "oc_blocks"), 1),
    **dict.fromkeys(("input_rows", "input_row_bytes", "x_step", "y_step", "kernel_row_step"), 1),
}
POST = {
    **{"width": 1, "height": 1, "oc_blocks": 1, "tail": 1, "x_step": 1, "multiplier": 1 << 30},
    **{"clamp_low": -128, "clamp_high": 127},
}
MOVE = {"row_bytes": 4, "rows": 1, "planes": 1}


def kinds(config):
    """Return short instructions without waits, each in scratchpad banks of its own."""
    second, third = config.bank_bytes, 2 * config.bank_bytes
    load = {**MOVE, "region": Region.INPUT, "spad_addr": third}
    store = {**MOVE, "region": Region.OUTPUT, "spad_addr": second}
    return {
        "load": Instruction(Opcode.LOAD, load),
        "exec": Instruction(Opcode.EXEC, {**EXEC, "weight_addr": 3 * config.bank_bytes}),
        "fixed": Instruction(Opcode.EXEC, {**EXEC, "weights_fixed": 1}),
        "sums": Instruction(Opcode.POST, {**POST, "destination": Destination.ACC_SET}),
        "fill": Instruction(Opcode.LOAD, {**load, "fill": 1}),
        "post": Instruction(Opcode.POST, {**POST, "dest_addr": second}),
        "copy": Instruction(Opcode.POST, {**POST, "dest_addr": second, "source": Source.SPAD}),
        "store": Instruction(Opcode.STORE, store),
    }


def cycles(pair, instructions):
    """Return measured and predicted cycles."""
    instructions = [*instructions, Instruction(Opcode.END)]
    commands = b"".join(pack(instruction) for instruction in instructions)
    pair.rtl.place_regions({Region.PROGRAM: len(commands), Region.INPUT: 400, Region.OUTPUT: 64})
    pair.rtl.write_region(Region.PROGRAM, 0, commands)
    measured = pair.rtl.run(0, len(commands)).cycles
    return measured, predict(instructions, Machine(config=pair.config)).cycles


@pytest.mark.parametrize(
    "names",
    [
        *("load", "fill", "exec", "fixed", "post", "sums", "copy", "store"),
        *("load exec post", "fixed store"),
    ],
)
def test_instructions_follow_each_other_as_predicted(pair, names):
    run = [kinds(pair.config)[name] for name in names.split()]
    few, many = cycles(pair, run * 20), cycles(pair, run * 40)
    measured, predicted = (many[side] - few[side] for side in (0, 1))
    assert predicted == pytest.approx(measured, abs=20)


@pytest.mark.parametrize("given", [(), ("channel_bias",), ("channel_bias", "channel_scale")])
@pytest.mark.parametrize("width", [1, 3, 5, 12])
def test_blocks_follow_each_other_as_predicted(pair, given, width):
    """Whether parameters or vectors take longer, predictions match."""
    config = pair.config
    values = {**POST, **dict.fromkeys(given, 1), "width": width, "tail": config.columns}
    if given:
        values["param_addr"] = 2 * config.bank_bytes
    few, many = (
        cycles(
            pair,
            [
                Instruction(
                    Opcode.POST, {**values, "oc_blocks": count, "x_step": 10 * config.columns}
                )
            ],
        )
        for count in (2, 10)
    )
    measured, predicted = (many[side] - few[side] for side in (0, 1))
    assert predicted == pytest.approx(measured, abs=2)


def test_loads_go_on_while_the_array_is_busy(pair):
    """An EXEC that waits behind a long one does not delay the LOADs that follow.

    The long one takes 144 vectors for each of 100 taps. The LOADs, of 400 bytes, take fewer cycles
    and wait for nothing, so the total is close to the EXEC's cycles.
    """
    config = pair.config
    long = {**EXEC, "width": 16, "height": 9, "kernel_rows": 100, "weights_fixed": 1}
    load = {**MOVE, "region": Region.INPUT, "row_bytes": 400, "spad_addr": 2 * config.bank_bytes}
    streams = [
        Instruction(Opcode.EXEC, long),
        Instruction(Opcode.EXEC, {**EXEC, "weights_fixed": 1, "wait_exec": 1}),
        *[Instruction(Opcode.LOAD, load)] * 96,
    ]
    assert 144 * 100 * config.bus_bytes > 96 * 400
    measured, predicted = cycles(pair, streams)
    assert 144 * 100 < measured < 144 * 100 + 400
    assert predicted == pytest.approx(measured, rel=0.01)


def test_weights_that_post_wrote(pair):
    """Each turn computes other weights, and both devices agree on the results."""
    config = pair.config
    tile, bank = config.tile_bytes, config.bank_bytes
    rows = tile // config.columns
    load = {**MOVE, "region": Region.INPUT, "row_bytes": tile, "spad_addr": 2 * bank}
    copy = {**POST, "source": Source.SPAD, "width": rows, "tail": config.columns, "shift": 1}
    copy |= {"x_step": config.columns, "source_addr": 2 * bank, "dest_addr": bank}
    taps = {**EXEC, "input_row_bytes": config.rows, "input_addr": 2 * bank, "weight_addr": bank}
    taps |= {"weights_wait_post": 1, "wait_post": 1, "wait_load": 1}
    byte = {**POST, "dest_addr": 3 * bank, "tail": config.columns, "shift": -6, "wait_exec": 1}
    store = {**MOVE, "region": Region.OUTPUT, "row_bytes": config.columns, "spad_addr": 3 * bank}
    instructions, turns = [], 6
    for turn in range(turns):
        before = {"wait_exec": 1, "wait_post": 1} if turn else {}
        instructions += [
            Instruction(Opcode.LOAD, {**load, "dram_offset": turn * tile, **before}),
            Instruction(Opcode.POST, {**copy, "wait_load": 1}),
            Instruction(Opcode.EXEC, taps),
            Instruction(Opcode.POST, {**byte, **({"wait_store": 1} if turn else {})}),
            Instruction(
                Opcode.STORE, {**store, "wait_post": 1, "dram_offset": turn * config.columns}
            ),
        ]
    instructions.append(Instruction(Opcode.END))
    commands = b"".join(pack(instruction) for instruction in instructions)
    sizes = {Region.PROGRAM: len(commands), Region.INPUT: turns * tile, Region.OUTPUT: 4096}
    verify_commands(commands, config, {Region.ARENA: 0, **sizes})
    noise = np.random.default_rng(1).integers(-128, 128, turns * tile, np.int8).tobytes()
    results = []
    for driver in (pair.model, pair.rtl):
        driver.place_regions(sizes)
        driver.write_region(Region.PROGRAM, 0, commands)
        driver.write_region(Region.INPUT, 0, noise)
        measured = driver.run(0, len(commands)).cycles
        results.append(driver.read_region(Region.OUTPUT, 0, turns * config.columns))
    assert results[0] == results[1]
    assert len(set(results[0])) > config.columns
    predicted = predict(instructions, Machine(config=config)).cycles
    assert predicted == pytest.approx(measured, rel=0.05)
