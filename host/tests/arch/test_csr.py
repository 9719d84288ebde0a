"""The register map: offsets are pinned, nothing overlaps, fields fit."""

import dataclasses

from matloom.arch.config import PRESETS
from matloom.arch.csr import (
    ALL_REGISTERS,
    COUNTERS,
    EXEC_CAUSES,
    IDENTITY,
    REGISTERS,
    RESERVED,
    TIMESTAMPS_OFFSET,
    WINDOW_BYTES,
    register,
    registers_of,
)

#: Offsets are never reused: software in the field relies on them.
PINNED = {
    "ID": 0x00,
    "DIGEST": 0x04,
    "CONTROL": 0x08,
    "STATUS": 0x0C,
    "IRQ_ENABLE": 0x10,
    "IRQ_STATUS": 0x14,
    "COMMAND_OFFSET": 0x18,
    "COMMAND_BYTES": 0x1C,
    "TIMEOUT": 0x20,
    "FAULT": 0x24,
    "FAULT_INDEX": 0x28,
    "FAULT_ADDRESS": 0x2C,
    "PROGRAM_BASE": 0x40,
    "PROGRAM_BYTES": 0x48,
    "INPUT_BASE": 0x50,
    "INPUT_BYTES": 0x58,
    "OUTPUT_BASE": 0x60,
    "OUTPUT_BYTES": 0x68,
    "ARENA_BASE": 0x70,
    "ARENA_BYTES": 0x78,
    "CYCLES": 0x100,
    "INSTRUCTIONS": 0x104,
    "EXEC_STREAM": 0x108,
    "EXEC_WAIT_COMMAND": 0x10C,
    "EXEC_WAIT_INPUT": 0x110,
    "EXEC_WAIT_POST": 0x114,
    "EXEC_WAIT_STORE": 0x118,
    "EXEC_WAIT_SELF": 0x11C,
    "EXEC_WAIT_WEIGHTS": 0x120,
    "EXEC_WAIT_BANK": 0x124,
    "EXEC_SETUP": 0x128,
    "LOAD_BUSY": 0x12C,
    "POST_BUSY": 0x130,
    "STORE_BUSY": 0x134,
    "READ_BURSTS": 0x138,
    "READ_BEATS": 0x13C,
    "WRITE_BURSTS": 0x140,
    "WRITE_BEATS": 0x144,
    "EXEC_WAIT_SUMS": 0x148,
    "EXEC_WAIT_CONSTANTS": 0x14C,
}


def test_offsets_are_pinned():
    assert {item.name: item.offset for item in REGISTERS} == PINNED
    assert {item.name: item.offset for item in ALL_REGISTERS} == {**PINNED, "LIMIT": 0x30}
    assert all(register(item.name) is item for item in ALL_REGISTERS)


def test_registers_of_a_configuration():
    nano = PRESETS["nano"]
    assert registers_of(nano) == REGISTERS
    assert registers_of(dataclasses.replace(nano, time_limit=1)) == ALL_REGISTERS


def test_offsets_differ_and_fit():
    offsets = [item.offset for item in ALL_REGISTERS]
    assert len(set(offsets)) == len(offsets)
    assert all(offset % 4 == 0 and offset < TIMESTAMPS_OFFSET for offset in offsets)
    assert TIMESTAMPS_OFFSET + 4 * 256 <= WINDOW_BYTES


def test_fields_do_not_overlap():
    for item in ALL_REGISTERS:
        masks = [bits.mask for bits in item.fields]
        assert sum(masks) == sum(set(masks)) < 2**32
        for one in masks:
            assert sum(bool(one & other) for other in masks) == 1


def test_counters_begin_with_the_total():
    names = [name for name, _doc in COUNTERS]
    assert names[0] == "cycles"
    assert [name for name, _doc in EXEC_CAUSES] == [n for n in names if n.startswith("exec_")]


def test_counters_lie_side_by_side():
    """So that a driver behind a link can read them all in one request."""
    offsets = [register(name.upper()).offset for name, _doc in COUNTERS]
    assert offsets == list(range(offsets[0], offsets[0] + 4 * len(offsets), 4))
    assert len(offsets) <= 256


def test_identity_spells_the_name():
    assert (IDENTITY >> 16).to_bytes(2, "big") == b"ML"


def test_reserved_offsets_are_free():
    taken = {item.offset for item in ALL_REGISTERS}
    assert [(first, last) for first, last, _text in RESERVED] == [(0x34, 0x34), (0x80, 0xBC)]
    assert not any(first <= offset <= last for first, last, _ in RESERVED for offset in taken)
