"""The static verifier: what is legal passes, what a missing wait endangers is found."""

import itertools
import random

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import FORMATS, UNITS, Instruction, Memory, Opcode, Region, extent_end, pack
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.frontend.tflite import load_tflite
from matloom.streams import random_stream
from matloom.verify import VerifyError, verify_commands, verify_program

CONFIG = PRESETS["nano"]
SIZES = dict.fromkeys(Region, 6000)
WAITS = [f"wait_{unit.name.lower()}" for unit in UNITS]

LOAD = {"region": Region.INPUT, "row_bytes": 64, "rows": 1, "planes": 1}
STORE = {**LOAD, "region": Region.OUTPUT}
EXEC = {
    name: 1
    for name in (
        *("input_rows", "input_row_bytes", "width", "height"),
        *("kernel_rows", "kernel_cols", "blocks", "oc_blocks"),
    )
}
POST = {"width": 1, "height": 1, "oc_blocks": 1, "tail": 4}


def verify(*instructions):
    listing = [Instruction(opcode, values) for opcode, values in instructions]
    commands = b"".join(pack(item) for item in (*listing, Instruction(Opcode.END)))
    verify_commands(commands, CONFIG, SIZES)


@pytest.mark.parametrize("preset", ["nano", "small", "reference"])
def test_compiled_programs_pass(preset):
    verify_program(compile_network(load_tflite(NETWORK), PRESETS[preset]))


def test_random_streams_pass(seed):
    for number in range(30):
        stream = random_stream(seed + number, CONFIG)
        verify_commands(stream.commands, CONFIG, SIZES)


def accesses(instruction):
    """Return (memory, window, first, end, write, is weights) of an instruction."""
    for extent in FORMATS[instruction.opcode].extents:
        end = extent_end(extent, instruction, CONFIG)
        start = getattr(instruction, extent.base)
        if end is None or end <= start:
            continue
        window = instruction.region if extent.memory is Memory.DRAM else None
        if window in (Region.PROGRAM, Region.INPUT):
            continue
        weights = extent.base == "weight_addr"
        yield extent.memory, window, start, end, extent.write, weights


def brute_force_hazard(instructions):
    """Return whether two accesses are unordered, by the transitive closure of a relation.

    Events are the start, the fetch of weights and the completion of every instruction.
    """
    order = set()
    by_unit = {unit: [] for unit in UNITS}
    for number, item in enumerate(instructions):
        mine = by_unit[item.opcode]
        order |= {(("start", number), ("done", number)), (("fetch", number), ("done", number))}
        if mine:
            order |= {(("start", mine[-1]), ("start", number))}
            order |= {(("start", mine[-1]), ("fetch", number))}
            order |= {(("done", mine[-1]), ("done", number))}
            if item.opcode is Opcode.POST:
                order.add((("done", mine[-1]), ("start", number)))
        for unit in UNITS:
            wait = getattr(item, f"wait_{unit.name.lower()}")
            if wait:
                order.add((("done", by_unit[unit][-wait]), ("start", number)))
                if unit is Opcode.LOAD:
                    order.add((("done", by_unit[unit][-wait]), ("fetch", number)))
        mine.append(number)
    reach = {}
    for before, after in order:
        reach.setdefault(before, set()).add(after)

    def ordered(before, after):
        seen, todo = set(), [before]
        while todo:
            for item in reach.get(todo.pop(), ()):
                if item == after:
                    return True
                if item not in seen:
                    seen.add(item)
                    todo.append(item)
        return False

    for one, other in itertools.combinations(range(len(instructions)), 2):
        if instructions[one].opcode is instructions[other].opcode:
            continue
        for mine, theirs in itertools.product(
            accesses(instructions[one]), accesses(instructions[other])
        ):
            together = mine[:2] == theirs[:2] and mine[2] < theirs[3] and theirs[2] < mine[3]
            moment = "fetch" if theirs[5] else "start"
            if together and (mine[4] or theirs[4]) and not ordered(("done", one), (moment, other)):
                return True
    return False


def test_every_missing_wait_is_judged_like_brute_force(seed):
    """Take waits out of random streams, one at a time."""
    generator = random.Random(seed)
    hazards = 0
    for number in range(12):
        stream = random_stream(seed * 100 + number, CONFIG, length=8)
        listing = list(stream.instructions[:-1])
        places = [
            (k, name) for k, item in enumerate(listing) for name in WAITS if item.values.get(name)
        ]
        for place, name in generator.sample(places, min(4, len(places))):
            changed = list(listing)
            changed[place] = Instruction(changed[place].opcode, {**changed[place].values, name: 0})
            commands = b"".join(pack(item) for item in (*changed, Instruction(Opcode.END)))
            try:
                verify_commands(commands, CONFIG, SIZES)
                found = False
            except VerifyError:
                found = True
            assert found == brute_force_hazard(changed), (number, place, name)
            hazards += found
    assert hazards > 10


@pytest.mark.parametrize(
    ("instructions", "sentence"),
    [
        ([(Opcode.LOAD, {})], "LOAD.row_bytes must be 1 to"),
        ([(Opcode.STORE, LOAD)], "must write to a writable region, not INPUT"),
        ([(Opcode.LOAD, {**LOAD, "wait_post": 1})], "must wait for one of the 0 POST before it"),
        (
            [(Opcode.LOAD, {**LOAD, "spad_addr": 32767})],
            "SPAD addresses must end by 32768, not 32831",
        ),
        ([(Opcode.LOAD, {**LOAD, "dram_offset": 5999})], "DRAM addresses must end by 6000"),
        ([(Opcode.EXEC, {**EXEC, "acc_addr": 256})], "ACC addresses must end by 256, not 257"),
        (
            [(Opcode.LOAD, LOAD), (Opcode.STORE, STORE)],
            r"instruction 1 \(STORE\) must wait for LOAD number 1, which writes SPAD",
        ),
        (
            [(Opcode.STORE, STORE), (Opcode.LOAD, LOAD)],
            r"instruction 1 \(LOAD\) must wait for STORE number 1, which reads SPAD",
        ),
        (
            [(Opcode.EXEC, EXEC), (Opcode.POST, {**POST, "dest_addr": 100})],
            "must wait for EXEC number 1, which writes ACC",
        ),
        (
            [(Opcode.POST, POST), (Opcode.EXEC, {**EXEC, "input_addr": 99, "wait_post": 1})],
            "must wait for POST number 1, which writes weights",
        ),
        (
            [(Opcode.POST, {**POST, "source": 1, "dest_addr": 2})],
            "must read the bytes it writes in place or not at all",
        ),
    ],
)
def test_sentences(instructions, sentence):
    with pytest.raises(VerifyError, match=sentence):
        verify(*instructions)


def test_order_through_another_unit():
    """STORE follows LOAD by way of POST, and in-order completion covers what came earlier."""
    verify(
        (Opcode.LOAD, LOAD),
        (Opcode.LOAD, {**LOAD, "spad_addr": 200}),
        (Opcode.POST, {**POST, "dest_addr": 300, "wait_load": 1}),
        (Opcode.STORE, {**STORE, "wait_post": 1}),
    )


def test_foreign_bytes():
    with pytest.raises(VerifyError, match="instruction 0: opcode must be one of"):
        verify_commands(bytes([15]) * 16, CONFIG, SIZES)
