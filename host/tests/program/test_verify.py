"""The static verifier accepts legal programs and finds hazards of missing waits."""

import dataclasses
import itertools
import random

import numpy as np
import pytest

from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.arch.footprint import footprint
from matloom.arch.instruction import Instruction, extent_end, pack
from matloom.arch.isa import FORMATS, UNITS, AddressSpace, Opcode, Region
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.device.model.engine import Engine, EngineFaultError
from matloom.program import verify as verify_module
from matloom.program.accesses import strided_view
from matloom.program.instruction_table import unpack_all
from matloom.program.verify import VerifyError, verify_commands, verify_program
from matloom.verification.random_programs import random_stream

CONFIG = PRESETS["nano"]
SIZES = dict.fromkeys(Region, 6000)
WAITS = [f"wait_{unit.name.lower()}" for unit in UNITS]

LOAD = {"region": Region.INPUT, "row_bytes": 64, "rows": 1, "planes": 1}
STORE = {**LOAD, "region": Region.OUTPUT}
EXEC = dict.fromkeys(
    (
        *("input_rows", "input_row_bytes", "width", "height"),
        *("kernel_rows", "kernel_cols", "blocks", "oc_blocks"),
    ),
    1,
)
POST = {"width": 1, "height": 1, "oc_blocks": 1, "tail": 4}
IN_PLACE = {**POST, "source": 1, "width": 3, "height": 2, "x_step": 4}


def packed(instructions):
    return b"".join(pack(item) for item in (*instructions, Instruction(Opcode.END)))


def verify(*instructions):
    listing = [Instruction(opcode, values) for opcode, values in instructions]
    verify_commands(packed(listing), CONFIG, SIZES)


def listing_of(program):
    """Return the instructions of a program's only engine step, without END."""
    (step,) = (item for item in program.steps if item.kind == "engine")
    *listing, _end = unpack_all(program.commands(step))
    return listing


@pytest.fixture(scope="module")
def digits():
    return compile_network(frontend.load(NETWORK), CONFIG)


@pytest.mark.parametrize("preset", ["small", "reference"])
def test_compiled_programs_pass(preset):
    verify_program(compile_network(frontend.load(NETWORK), PRESETS[preset]))


@pytest.mark.parametrize("units", [{}, {"tables": 1, "products": 1}], ids=["plain", "tables"])
def test_random_streams_pass(units, seed):
    config = dataclasses.replace(CONFIG, **units)
    for number in range(30):
        stream = random_stream(seed + number, config)
        verify_commands(stream.commands, config, SIZES)


def accesses(instruction):
    """Return (memory, region, first, end, write, is fetched early, addresses) of an instruction.

    `test_footprints.py` compares the lines with the functional model's accesses.
    """
    for extent in FORMATS[instruction.opcode].extents:
        end = extent_end(extent, instruction, CONFIG)
        start = getattr(instruction, extent.base)
        if end is not None and end > start:
            region = instruction.region if extent.memory is AddressSpace.DRAM else None
            early = extent.base in ("weight_addr", "param_addr")
            lines = footprint(extent, instruction, CONFIG)
            addresses = np.arange(start, end)
            if lines is not None:
                addresses = strided_view(np.arange(end)[np.newaxis], lines)
            yield extent.memory, region, start, end, extent.write, early, addresses


def meet(mine, theirs):
    """Return whether two accesses share an address; for lines, those that they touch."""
    if mine[:2] != theirs[:2] or mine[2] >= theirs[3] or theirs[2] >= mine[3]:
        return False
    return bool(np.intersect1d(mine[6], theirs[6]).size)


def conflicts(instructions):
    """Return (earlier, later, moment) of all pairs of accesses that waits must order."""
    found = set()
    touched = [list(accesses(item)) for item in instructions]
    for one, other in itertools.combinations(range(len(instructions)), 2):
        in_turn = instructions[one].opcode is instructions[other].opcode
        for mine, theirs in itertools.product(touched[one], touched[other]):
            ordered = (mine[4] or theirs[4]) and (theirs[5] or not in_turn)
            if ordered and meet(mine, theirs):
                found.add((one, other, "fetch" if theirs[5] else "start"))
    return found


def closure(instructions):
    """Return the set of events that precede each event, (moment, instruction).

    Moments are the start, the fetch of weights or parameters, and the completion. Sets are bits of
    an integer.
    """
    moments = ("start", "fetch", "done")
    bit = {
        event: 1 << index
        for index, event in enumerate(itertools.product(moments, range(len(instructions))))
    }
    before = {}
    by_unit = {unit: [] for unit in UNITS}

    def follows(event, *earlier):
        before[event] = 0
        for item in earlier:
            before[event] |= before[item] | bit[item]

    for number, item in enumerate(instructions):
        mine = by_unit[item.opcode]
        waits = {
            unit: ("done", by_unit[unit][-wait])
            for unit, field in zip(UNITS, WAITS, strict=True)
            if (wait := getattr(item, field))
        }
        last = mine[-1:]
        in_turn = "done" if item.opcode is Opcode.POST else "start"
        follows(("start", number), *waits.values(), *((in_turn, k) for k in last))
        heeded = {Opcode.LOAD}
        if item.opcode is Opcode.EXEC and item.weights_wait_post:
            heeded.add(Opcode.POST)
        fetches = [event for unit, event in waits.items() if unit in heeded]
        follows(("fetch", number), *fetches, *(("fetch", k) for k in last))
        follows(
            ("done", number), ("start", number), ("fetch", number), *(("done", k) for k in last)
        )
        mine.append(number)
    return before, bit


def brute_force_hazard(instructions, pairs):
    before, bit = closure(instructions)
    return any(not before[moment, other] & bit["done", one] for one, other, moment in pairs)


def without(listing, place, name):
    changed = list(listing)
    changed[place] = Instruction(listing[place].opcode, {**listing[place].values, name: 0})
    return changed


def refused(commands, region_bytes=SIZES):
    """Return the message if a command buffer is refused, or None."""
    try:
        verify_commands(commands, CONFIG, region_bytes)
    except VerifyError as error:
        return str(error)
    return ""


def judge_every_wait(listing, region_bytes):
    """Remove each wait separately; return how many were needed, and how many were not."""
    pairs = conflicts(listing)
    assert not brute_force_hazard(listing, pairs)
    needed = spare = 0
    for place, name in itertools.product(range(len(listing)), WAITS):
        if not listing[place].values.get(name):
            continue
        changed = without(listing, place, name)
        hazard = brute_force_hazard(changed, pairs)
        refusal = refused(packed(changed), region_bytes)
        assert ("must wait for instruction" in refusal) == hazard, (place, name)
        needed += hazard
        spare += not hazard
    return needed, spare


@pytest.mark.parametrize("heeds", [0, 1])
def test_weights_from_post_need_a_wait(heeds):
    """The wait is then needed for the weights; the bit alone is not a wait."""
    fill = {**LOAD, "fill": 1, "row_bytes": 64, "rows": 1, "planes": 1, "spad_addr": 0}
    copy = {"source": 1, "width": 4, "height": 1, "oc_blocks": 1, "tail": CONFIG.columns}
    copy |= {"x_step": CONFIG.columns, "dest_addr": 2048, "wait_load": 1}
    ones = ("input_rows", "input_row_bytes", "width", "height", "kernel_rows", "kernel_cols")
    exec_ = dict.fromkeys((*ones, "blocks", "oc_blocks", "weights_fixed"), 1)
    exec_ |= {"weight_addr": 2048, "wait_post": 1, "weights_wait_post": heeds}
    listing = [
        Instruction(Opcode.LOAD, fill),
        Instruction(Opcode.POST, copy),
        Instruction(Opcode.EXEC, exec_),
    ]
    assert brute_force_hazard(listing, conflicts(listing)) == (not heeds)
    assert ("writes weights" in refused(packed(listing))) == (not heeds)
    assert "must wait for" in refused(packed(without(listing, 2, "wait_post")))


def test_every_wait_of_a_network(digits):
    verify_program(digits)
    needed, spare = judge_every_wait(listing_of(digits), digits.region_bytes)
    assert needed > 20
    assert spare > 5


def test_every_wait_of_random_streams(seed):
    found = [
        judge_every_wait(random_stream(seed * 100 + k, CONFIG, 8).instructions[:-1], SIZES)
        for k in range(12)
    ]
    assert sum(needed for needed, _spare in found) > 10


@pytest.mark.parametrize(
    ("instructions", "sentence"),
    [
        ([(Opcode.LOAD, {})], "instruction 0: LOAD.row_bytes must be 1 to"),
        (
            [(Opcode.STORE, LOAD)],
            r"instruction 0 \(STORE\) must write to a writable region, not INPUT",
        ),
        (
            [(Opcode.LOAD, LOAD), (Opcode.LOAD, {**LOAD, "wait_load": 2})],
            r"instruction 1 \(LOAD\) must wait for one of the 1 LOAD before it, not 2 back",
        ),
        (
            [(Opcode.LOAD, {**LOAD, "spad_addr": 32767})],
            "SPAD addresses must end by 32768, not 32831",
        ),
        (
            [(Opcode.POST, {**POST, "channel_bias": 1, "param_addr": 32767})],
            "SPAD addresses must end by 32768, not 32783",
        ),
        ([(Opcode.LOAD, {**LOAD, "dram_offset": 5999})], "DRAM addresses must end by 6000"),
        ([(Opcode.EXEC, {**EXEC, "acc_addr": 255, "width": 2})], "must end by 256, not 257"),
        (
            [(Opcode.LOAD, LOAD), (Opcode.STORE, STORE)],
            r"instruction 1 \(STORE\) must wait for instruction 0 \(LOAD\), which writes SPAD",
        ),
        (
            [(Opcode.STORE, STORE), (Opcode.LOAD, LOAD)],
            r"instruction 1 \(LOAD\) must wait for instruction 0 \(STORE\), which reads SPAD",
        ),
        (
            [(Opcode.POST, POST), (Opcode.LOAD, LOAD)],
            r"instruction 1 \(LOAD\) must wait for instruction 0 \(POST\), which writes SPAD",
        ),
        (
            [(Opcode.STORE, STORE), (Opcode.LOAD, {**STORE, "spad_addr": 64})],
            r"must wait for instruction 0 \(STORE\), which writes DRAM region OUTPUT addresses",
        ),
        (
            [(Opcode.EXEC, EXEC), (Opcode.POST, {**POST, "dest_addr": 100})],
            r"must wait for instruction 0 \(EXEC\), which writes ACC addresses 0 to 0",
        ),
        (
            [(Opcode.POST, POST), (Opcode.EXEC, {**EXEC, "input_addr": 99, "wait_post": 1})],
            r"must wait for instruction 0 \(POST\), which writes weights, SPAD addresses 0 to 15",
        ),
        (
            [(Opcode.POST, {**POST, "source": 1, "dest_addr": 2})],
            r"instruction 0 \(POST\) must read the bytes it writes in place or not at all",
        ),
        ([(Opcode.POST, {**POST, "channel_bias": 1, "param_addr": 3})], "in place or not at all"),
        (
            # Parameters and results in the same bytes are not in place.
            [(Opcode.POST, {**POST, "width": 4, "x_step": 4, "channel_bias": 1})],
            "in place or not at all",
        ),
        ([(Opcode.POST, {**IN_PLACE, "x_step": 3})], "in place or not at all"),
        (
            [(Opcode.POST, {**IN_PLACE, "source_pitch": 11, "dest_pitch": 11})],
            "in place or not at all",
        ),
    ],
)
def test_sentences(instructions, sentence):
    with pytest.raises(VerifyError, match=sentence):
        verify(*instructions)


def test_in_place():
    verify((Opcode.POST, {**IN_PLACE, "source_pitch": 12, "dest_pitch": 12}))
    verify((Opcode.POST, {**POST, "source": 1}))


def test_order_through_another_unit():
    """STORE follows LOAD through POST; in-order completion covers earlier instructions."""
    verify(
        (Opcode.LOAD, LOAD),
        (Opcode.LOAD, {**LOAD, "spad_addr": 200}),
        (Opcode.POST, {**POST, "dest_addr": 300, "wait_load": 1}),
        (Opcode.STORE, {**STORE, "wait_post": 1}),
    )


def test_weights_are_ordered_through_a_load():
    """A wait on POST does not cover weights; a wait on a LOAD that waited for it does."""
    post = (Opcode.POST, POST)
    load = (Opcode.LOAD, {**LOAD, "spad_addr": 500, "wait_post": 1})
    verify(post, load, (Opcode.EXEC, {**EXEC, "input_addr": 99, "acc_addr": 9, "wait_load": 1}))
    for waits in ({"wait_post": 1}, {"wait_post": 1, "wait_exec": 1}):
        with pytest.raises(VerifyError, match="writes weights"):
            verify(
                (Opcode.EXEC, {**EXEC, "weight_addr": 600, "acc_addr": 8, "input_addr": 99}),
                post,
                (Opcode.EXEC, {**EXEC, "weight_addr": 600, "acc_addr": 8, "wait_post": 1}),
                (Opcode.EXEC, {**EXEC, "input_addr": 99, "acc_addr": 9, **waits}),
            )


def test_parameters_are_ordered_through_a_load():
    """A wait on POST does not protect them; a LOAD that waited for it does."""
    post = (Opcode.POST, {**POST, "dest_addr": 600})
    other = {**POST, "dest_addr": 900, "param_addr": 600, "channel_bias": 1}
    load = (Opcode.LOAD, {**LOAD, "spad_addr": 590, "wait_post": 1})
    verify(post, load, (Opcode.POST, {**other, "wait_load": 1}))
    with pytest.raises(VerifyError, match=r"instruction 0 \(POST\), which writes parameters"):
        verify(post, (Opcode.POST, other))
    with pytest.raises(VerifyError, match=r"instruction 1 \(LOAD\), which writes parameters"):
        verify(post, load, (Opcode.POST, other))


@pytest.mark.parametrize("position", range(4))
def test_blocks_are_read_as_a_whole(position):
    """POST writes one position of every other block; EXEC reads all blocks of a row."""
    config = PRESETS["reference"]
    post = {**POST, "tail": 16, "width": 3, "x_step": 128, "dest_addr": 16 * position}
    blocks = {"window": 1, "paired": 1, "width": 6, "x_step": 64, "weight_addr": 4096}
    image = {"input_rows": 1, "input_row_bytes": 384}
    counts = ("height", "kernel_rows", "kernel_cols", "blocks", "oc_blocks")
    for wait in (0, 1):
        execute = {**blocks, **image, **dict.fromkeys(counts, 1), "wait_post": wait}
        listing = [Instruction(Opcode.POST, post), Instruction(Opcode.EXEC, execute)]
        if wait:
            verify_commands(packed(listing), config, SIZES)
        else:
            with pytest.raises(VerifyError, match=r"instruction 1 \(EXEC\) must wait for"):
                verify_commands(packed(listing), config, SIZES)


def test_foreign_bytes():
    with pytest.raises(VerifyError, match="instruction 0: opcode must be one of"):
        verify_commands(bytes([15]) * 16, CONFIG, SIZES)
    with pytest.raises(VerifyError, match="instruction 1: an instruction must start inside"):
        verify_commands(pack(Instruction(Opcode.LOAD, LOAD)), CONFIG, SIZES)


def test_command_buffers_begin_on_words(digits):
    steps = [
        type(step)(**{**vars(step), "command_offset": step.command_offset + 8})
        for step in digits.steps
        if step.kind == "engine"
    ]
    with pytest.raises(VerifyError, match="command_offset must be a multiple of 16, not"):
        verify_program(type(digits)(**{**vars(digits), "steps": tuple(steps)}))


class Judge(Engine):
    """The functional model's checks, without executing."""

    def _execute(self, instruction):
        pass


def test_legality_is_the_engine_s(seed):
    """Verifier and engine find the same corrupted streams illegal."""
    generator = random.Random(seed)
    regions = {region: np.zeros(size, np.uint8) for region, size in SIZES.items()}
    illegal = 0
    for number in range(250):
        commands = bytearray(random_stream(seed + number % 20, CONFIG, 4).commands)
        for _corrupted in range(generator.choice((1, 1, 2))):
            commands[generator.randrange(len(commands))] ^= 1 << generator.randrange(8)
        try:
            Judge(CONFIG, regions).run(bytes(commands))
            legal = True
        except EngineFaultError:
            legal = False
        refusal = refused(bytes(commands))
        hazard = "must wait for instruction" in refusal or "in place" in refusal
        assert (not refusal or hazard) == legal, (number, refusal)
        illegal += not legal
    assert 20 < illegal < 250


FILL = {"source": 1, "width": 16, "height": 1, "oc_blocks": 1, "tail": 16, "x_step": 16, "table": 2}
LOOK_UP = {**POST, "tail": 16, "dest_addr": 1024, "table": 1}


@pytest.mark.parametrize(
    ("posts", "sentence"),
    [
        ([FILL, LOOK_UP], None),
        # Where sums are made, nothing is looked up.
        ([{**LOOK_UP, "destination": 1}], None),
        ([LOOK_UP, FILL], r"instruction 0 \(POST\) must look up in a table that is filled"),
        ([{**FILL, "destination": 2}, LOOK_UP], r"instruction 1 \(POST\) must look up"),
        ([{**FILL, "width": 15}], "must fill the table with 16 vectors of 16 bytes, not 15 of 16"),
        ([{**FILL, "tail": 4}], "must fill the table with 16 vectors of 16 bytes, not 16 of 4"),
    ],
)
def test_tables_are_filled_before_they_are_used(posts, sentence):
    commands = packed([Instruction(Opcode.POST, values) for values in posts])
    if sentence is None:
        verify_commands(commands, PRESETS["reference"], SIZES)
        return
    with pytest.raises(VerifyError, match=sentence):
        verify_commands(commands, PRESETS["reference"], SIZES)


def test_tables_of_all_columns_are_filled_together():
    config = dataclasses.replace(PRESETS["reference"], channel_tables=1)
    fill = {**FILL, "width": 256, "table": 3}

    def refusal(values):
        try:
            verify_commands(packed([Instruction(Opcode.POST, values)]), config, SIZES)
        except VerifyError as error:
            return str(error)
        return ""

    assert refusal(fill) == ""
    assert refusal({**fill, "width": 32, "height": 2, "oc_blocks": 4}) == ""
    name = "instruction 0 (POST) must fill the 16 tables with 256 vectors of 16 bytes"
    assert refusal({**fill, "width": 16}) == name + ", not 16 of 16"
    assert refusal({**fill, "tail": 8}) == name + ", not 256 of 8"
    without = dataclasses.replace(config, channel_tables=0)
    with pytest.raises(VerifyError, match=r"POST\.table must be one of 0, 1, 2, not 3"):
        verify_commands(packed([Instruction(Opcode.POST, fill)]), without, SIZES)


def test_a_table_is_filled_with_loaded_bytes():
    load = Instruction(Opcode.LOAD, {**LOAD, "row_bytes": 256})
    late = Instruction(Opcode.POST, {**FILL, "wait_load": 1})
    verify_commands(packed([load, late]), PRESETS["reference"], SIZES)
    with pytest.raises(VerifyError, match=r"instruction 1 \(POST\) must wait for instruction 0"):
        verify_commands(packed([load, Instruction(Opcode.POST, FILL)]), PRESETS["reference"], SIZES)


def test_a_product_reads_the_sums():
    stream = Instruction(Opcode.EXEC, {**EXEC, "weight_addr": 512})
    product = {**POST, "source": 1, "dest_addr": 1024, "product": 1}
    late = Instruction(Opcode.POST, {**product, "wait_exec": 1})
    verify_commands(packed([stream, late]), PRESETS["reference"], SIZES)
    with pytest.raises(VerifyError, match="ACC addresses 0 to 0"):
        verify_commands(
            packed([stream, Instruction(Opcode.POST, product)]), PRESETS["reference"], SIZES
        )


def test_array_checks_equal_single_checks(seed, monkeypatch):
    """Both ways refuse corrupted streams with the same message."""
    generator = random.Random(seed)
    buffers = []
    for number in range(200):
        commands = bytearray(random_stream(seed + number % 20, CONFIG, 4).commands)
        for _corrupted in range(generator.choice((0, 1, 2))):
            commands[generator.randrange(len(commands))] ^= 1 << generator.randrange(8)
        buffers.append(bytes(commands))
    found = [refused(each) for each in buffers]
    monkeypatch.setattr(
        verify_module,
        "_instructions",
        lambda commands, _config: verify_module._decode_one_by_one(commands),
    )
    assert [refused(each) for each in buffers] == found
    assert len(set(found)) > 20


def test_a_program_is_verified_once_and_a_changed_one_again(digits, monkeypatch):
    program, asked = dataclasses.replace(digits), []
    monkeypatch.setattr(verify_module, "_verify_steps", asked.append)
    for _session in range(2):
        verify_program(program)
    assert asked == [program]
    other = dataclasses.replace(program, image=bytes(len(program.image)))
    verify_program(other)
    assert asked[1] is other
    monkeypatch.undo()
    broken = dataclasses.replace(program, image=b"\xff" * len(program.image))
    for _session in range(2):
        with pytest.raises(VerifyError):
            verify_program(broken)
