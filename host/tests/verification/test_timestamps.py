"""The check of the completion-time table notices wrong tables."""

from typing import ClassVar

import pytest

from matloom.arch.config import PRESETS, Config
from matloom.arch.csr import TIMESTAMPS_OFFSET, register
from matloom.arch.instruction import Instruction, illegal_field
from matloom.arch.isa import Opcode
from matloom.device.rtl import RtlTransport
from matloom.verification.checks import (
    MismatchError,
    check_corrupted_streams,
    check_stream,
    check_streams,
    check_timestamps,
)
from matloom.verification.pair import MEMORY_BYTES, Pair
from matloom.verification.random_programs import clear_state, random_stream
from matloom.verification.registers import check_registers
from matloom.verification.timestamps import (
    regular_instructions,
    wrong_regular_timestamps,
    wrong_timestamps,
)

LOAD, STORE = Opcode.LOAD, Opcode.STORE


class WrongTable(RtlTransport):
    """A chip whose completion-time table is read through the function `wrong`."""

    #: Bits of registers that read inverted, by offset.
    flipped: ClassVar[dict[int, int]] = {}
    wrong = staticmethod(lambda slot, cycle: cycle)

    def read32(self, address: int) -> int:
        """Return a register; for slots of the table, `wrong` changes the value."""
        value, slot = super().read32(address), (address - TIMESTAMPS_OFFSET) // 4
        value ^= self.flipped.get(address, 0)
        return self.wrong(slot, value) if 0 <= slot < PRESETS["nano"].timestamps else value


@pytest.fixture(scope="module")
def nano():
    chip = WrongTable(PRESETS["nano"], MEMORY_BYTES)
    yield Pair.start(chip, PRESETS["nano"])
    chip.close()


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda slot, cycle: cycle if slot != 17 else 0, id="one is lost"),
        pytest.param(lambda slot, cycle: cycle & ~4, id="bit 2 is low"),
        pytest.param(lambda slot, cycle: cycle | 1 << 9, id="bit 9 is high"),
        pytest.param(lambda slot, cycle: cycle ^ (cycle >> 3 & 1) << 5, id="bit 5 is bit 3"),
        pytest.param(lambda slot, cycle: cycle + 1 << 16, id="bit 16 is high"),
        pytest.param(lambda slot, cycle: cycle - 64, id="64 cycles early"),
        pytest.param(lambda slot, cycle: cycle + (slot == 5), id="one is a cycle late"),
    ],
)
def test_wrong_tables_are_noticed(nano, wrong):
    check_timestamps(nano, 1)
    nano.chip.wrong = wrong
    try:
        with pytest.raises(MismatchError, match="timestamps"):
            check_timestamps(nano, 1)
    finally:
        del nano.chip.wrong


@pytest.mark.parametrize(
    "name", ["IRQ_ENABLE", "COMMAND_BYTES", "TIMEOUT", "INPUT_BASE", "OUTPUT_BYTES"]
)
def test_a_register_that_keeps_another_bit_is_noticed(nano, name):
    timeout = nano.rtl.read("TIMEOUT")
    check_registers(nano, 1)
    assert nano.rtl.read("TIMEOUT") == timeout
    nano.chip.flipped = {register(name).offset: 2}
    try:
        with pytest.raises(MismatchError, match=name):
            check_registers(nano, 1)
    finally:
        del nano.chip.flipped
        nano.rtl.write("TIMEOUT", timeout)


def test_a_register_that_changes_in_every_cycle_is_noticed(nano, monkeypatch):
    """Also if it is only read in even cycles after it was written."""
    wait, address = nano.chip.wait_interrupt, register("TIMEOUT").offset

    def later(cycles):
        nano.chip.flipped = {} if nano.chip.flipped else {address: 1 << 23}
        return wait(cycles)

    monkeypatch.setattr(nano.chip, "wait_interrupt", later)
    try:
        with pytest.raises(MismatchError, match="TIMEOUT"):
            check_registers(nano, 1)
    finally:
        nano.chip.flipped = {}


@pytest.mark.parametrize("name", ["INPUT_BASE", "IRQ_ENABLE", "TIMEOUT"])
def test_a_register_that_a_reset_leaves_is_noticed(nano, monkeypatch, name):
    """It has the wrong value from the reset until it is written."""
    reset, write, offset = nano.chip.reset, nano.chip.write32, register(name).offset

    def forgetful():
        reset()
        nano.chip.flipped = {offset: 8}

    def written(address, value):
        if address == offset:
            nano.chip.flipped = {}
        write(address, value)

    monkeypatch.setattr(nano.chip, "reset", forgetful)
    monkeypatch.setattr(nano.chip, "write32", written)
    try:
        with pytest.raises(MismatchError, match=f"{name} is "):
            check_registers(nano, 1)
    finally:
        nano.chip.flipped = {}


def test_an_interrupt_without_a_run_is_noticed(nano, monkeypatch):
    monkeypatch.setattr(nano.chip, "wait_interrupt", lambda cycles: cycles - 1)
    with pytest.raises(MismatchError, match="an interrupt rises"):
        check_registers(nano, 1)


def test_a_record_that_does_not_stay_is_noticed(nano, monkeypatch):
    check_corrupted_streams(nano, 1, 5)
    wait, address = nano.chip.wait_interrupt, register("FAULT_ADDRESS").offset

    def later(cycles: int) -> int:
        """Change the record after it has been read."""
        nano.chip.flipped = {address: 64} if cycles == 1 else {}
        return wait(cycles)

    monkeypatch.setattr(nano.chip, "wait_interrupt", later)
    try:
        with pytest.raises(MismatchError, match="does not stay"):
            check_corrupted_streams(nano, 1, 5)
    finally:
        nano.chip.flipped = {}


@pytest.mark.parametrize(
    "name", ["LOAD_BUSY", "POST_BUSY", "STORE_BUSY", "INSTRUCTIONS", "READ_BEATS", "WRITE_BEATS"]
)
def test_counters_of_equal_instructions(nano, name):
    """A unit that is busy without work, and an instruction that is not counted."""
    nano.chip.flipped = {register(name).offset: 1 << 10 if "BUSY" in name else 1}
    try:
        with pytest.raises(MismatchError, match=name.lower()):
            check_timestamps(nano, 1)
    finally:
        del nano.chip.flipped


def test_streams_notice_a_table_that_is_shifted(nano):
    """Each slot reads as its neighbour's, in a random stream."""
    stream = next(s for s in map(_stream, range(100)) if _slots(s) > 6)
    # Other tests ran on the chip alone, and a stream may read what they left.
    for driver in nano:
        clear_state(driver)
    check_stream(nano, stream, 0)
    nano.chip.wrong = lambda slot, cycle: 3 if cycle else 0
    try:
        with pytest.raises(MismatchError, match="completes in cycle"):
            check_stream(nano, stream, 0)
        with pytest.raises(MismatchError):
            check_streams(nano, 1, 1)
    finally:
        del nano.chip.wrong


def _stream(number: int):
    return random_stream(number, PRESETS["nano"])


def _slots(stream) -> int:
    return len({each.values.get("timestamp", 0) for each in stream.instructions})


def _marked(opcode: Opcode, slot: int, **waits: int) -> Instruction:
    return Instruction(opcode, {"timestamp": slot, **waits})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({1: 100, 2: 150, 3: 130}, ""),
        ({2: 150, 3: 130}, ""),
        ({1: 100, 2: 150, 3: 130, 4: 7}, "slot 4 holds 7, and no instruction names it"),
        ({1: 100, 3: 130}, "slot 2, the last of LOAD, is empty"),
        ({1: 100, 2: 100, 3: 130}, "instruction 1 completes in cycle 100, not in 101 to 200"),
        ({1: 100, 2: 150, 3: 99}, "instruction 2 completes in cycle 99, not in 101 to 200"),
        ({1: 100, 2: 201, 3: 130}, "instruction 1 completes in cycle 201, not in 101 to 200"),
    ],
)
def test_order_of_units_and_waits(table, said):
    """Two LOADs, and a STORE that waits for the first: only LOADs and waits have an order."""
    program = [
        _marked(LOAD, 1),
        _marked(LOAD, 2),
        _marked(STORE, 3, wait_load=2),
        _marked(Opcode.END, 9, wait_load=1, wait_store=1),
    ]
    assert wrong_timestamps(program, table, 200) == said


def test_a_shared_slot_gives_no_time():
    program = [_marked(LOAD, 1), _marked(STORE, 1, wait_load=1), _marked(STORE, 2)]
    assert not wrong_timestamps(program, {1: 50, 2: 60}, 100)
    assert not wrong_timestamps(program, {1: 70, 2: 60}, 100)


@pytest.mark.parametrize(
    "config",
    [PRESETS["nano"], PRESETS["reference"], Config(rows=8, columns=16, bus_bits=128)],
    ids=["nano", "reference", "8x16"],
)
@pytest.mark.parametrize("count", [1, 3, 63])
def test_regular_instructions_are_legal(config, count):
    program = regular_instructions(config, range(1, count + 1))
    assert len(program) == count + 1
    assert not [illegal_field(each, config) for each in program if illegal_field(each, config)]


def test_a_round_that_takes_longer_is_wrong():
    slots = range(1, 21)
    table = {slot: 100 * slot for slot in slots}
    assert not wrong_regular_timestamps(slots, table, 2010)
    assert "takes 101 cycles, others" in wrong_regular_timestamps(slots, {**table, 20: 2001}, 2010)
    assert "of 2100" in wrong_regular_timestamps(slots, table, 2100)
