"""The functional model behind its registers: runs, faults and resets as software sees them."""

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.csr import (
    COUNTERS,
    IDENTITY,
    REGISTERS,
    TIMESTAMPS_OFFSET,
    Access,
    Fault,
    register,
)
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Opcode, Region
from matloom.device.model.transport import ModelTransport

CONFIG = PRESETS["nano"]
END = pack(Instruction(Opcode.END))
LOAD = {"region": Region.INPUT, "row_bytes": 4, "rows": 1, "planes": 1}
STORE = {**LOAD, "region": Region.OUTPUT, "wait_load": 1}
START, RESET = 1, 2


@pytest.fixture
def device():
    """Return a device with four regions of 4 KiB."""
    made = ModelTransport(CONFIG, 1 << 16)
    for region in Region:
        write(made, f"{region.name}_BASE", 4096 * region)
        write(made, f"{region.name}_BYTES", 4096)
    return made


def read(device, name):
    return device.read32(register(name).offset)


def write(device, name, value):
    device.write32(register(name).offset, value)


def start(device, commands, offset=0):
    device.write_block(offset, commands)
    write(device, "COMMAND_OFFSET", offset)
    write(device, "COMMAND_BYTES", len(commands))
    write(device, "CONTROL", START)


def test_registers_after_power_on():
    made = ModelTransport(CONFIG)
    expected = {item.name: item.reset for item in REGISTERS}
    expected |= {"ID": IDENTITY, "DIGEST": CONFIG.digest}
    assert {item.name: read(made, item.name) for item in REGISTERS} == expected
    timestamps = [made.read32(TIMESTAMPS_OFFSET + 4 * slot) for slot in range(CONFIG.timestamps)]
    assert timestamps == [0] * CONFIG.timestamps


def test_a_run_copies_through_the_scratchpad(device):
    device.write_block(4096, b"abcd")
    load, store = Instruction(Opcode.LOAD, LOAD), Instruction(Opcode.STORE, STORE)
    start(device, pack(load) + pack(store) + END, offset=64)
    assert device.read_block(8192, 5) == b"abcd\0"
    assert (read(device, "STATUS"), read(device, "IRQ_STATUS")) == (2, 1)
    counted = {name: read(device, name.upper()) for name, _doc in COUNTERS}
    assert counted == {**dict.fromkeys(counted, 0), "instructions": 3}


def test_interrupt_causes_clear_where_a_one_is_written(device):
    start(device, END)
    write(device, "IRQ_STATUS", 2)
    assert read(device, "IRQ_STATUS") == 1
    write(device, "IRQ_STATUS", 1)
    assert read(device, "IRQ_STATUS") == 0


def test_a_fault_stays_until_a_reset(device):
    start(device, END + pack(Instruction(Opcode.STORE, LOAD)))
    assert read(device, "STATUS") == 2
    start(device, pack(Instruction(Opcode.LOAD, LOAD)) + pack(Instruction(Opcode.STORE, LOAD)))
    assert (read(device, "STATUS"), read(device, "IRQ_STATUS")) == (4, 3)
    assert read(device, "FAULT") == Fault.READ_ONLY_REGION | Opcode.STORE << 8
    assert (read(device, "FAULT_INDEX"), read(device, "INSTRUCTIONS")) == (1, 1)
    start(device, END)
    assert read(device, "STATUS") == 4
    write(device, "CONTROL", RESET)
    names = ("STATUS", "FAULT", "FAULT_INDEX", "FAULT_ADDRESS")
    assert [read(device, name) for name in names] == [0] * 4
    start(device, END)
    assert read(device, "STATUS") == 2


def test_range_faults_report_the_end_of_the_extent(device):
    start(device, pack(Instruction(Opcode.LOAD, {**LOAD, "dram_offset": 4093})))
    assert read(device, "FAULT") == Fault.DRAM_RANGE | Opcode.LOAD << 8
    assert read(device, "FAULT_ADDRESS") == 4097


def test_commands_end_with_their_region(device):
    write(device, "PROGRAM_BYTES", 16)
    start(device, pack(Instruction(Opcode.LOAD, LOAD)) + END)
    assert read(device, "FAULT") & 15 == Fault.COMMAND_RANGE


def test_refused_addresses(device):
    past = TIMESTAMPS_OFFSET + 4 * CONFIG.timestamps
    for address in (0x34, 2, -4, TIMESTAMPS_OFFSET + 2, past):
        with pytest.raises(OSError, match=f"there is no register at {address:#x}"):
            device.read32(address)
        with pytest.raises(OSError, match=f"there is no register at {address:#x}"):
            device.write32(address, 1)
    fixed = [item.offset for item in REGISTERS if item.access is Access.R]
    for address in (*fixed, TIMESTAMPS_OFFSET):
        with pytest.raises(OSError, match=f"register at {address:#x} is read-only"):
            device.write32(address, 1)
    with pytest.raises(OSError, match=r"2 bytes at 0xffff are outside .* 65536"):
        device.read_block(0xFFFF, 2)
    with pytest.raises(OSError, match=r"1 bytes at 0x10000 are outside .* 65536"):
        device.write_block(0x10000, b"x")
    with pytest.raises(OSError, match=r"4 bytes at -0x8 are outside .* 65536"):
        device.read_block(-8, 4)
    with pytest.raises(OSError, match=r"4 bytes at -0x8 are outside .* 65536"):
        device.write_block(-8, b"abcd")
