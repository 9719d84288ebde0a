"""Transfers on the simulated chip take the cycles that `Machine` predicts, for any memory."""

import pytest

from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Opcode, Region
from matloom.arch.machine import Machine
from matloom.arch.memory import Memory
from matloom.cost.predict import predict
from matloom.device.rtl import MemoryTiming

pytestmark = pytest.mark.parametrize("pair", ["nano"], indirect=True)

MEMORIES = [
    Memory(bytes_per_cycle=rate, read_latency=latency, write_latency=latency // 4)
    for rate in (4, 2, 1)
    for latency in (16, 32, 128)
]
PAGED = Memory(
    bytes_per_cycle="8/3", read_latency=20, write_latency=9, row_bytes=1024, row_miss_cycles=30
)


def transfer(opcode, row_bytes, rows=1, step=0, offset=0):
    """Return a transfer whose rows are adjacent in the scratchpad."""
    region = Region.INPUT if opcode is Opcode.LOAD else Region.OUTPUT
    fields = {
        "region": region,
        "dram_offset": offset,
        "row_bytes": row_bytes,
        "rows": rows,
        "planes": 1,
        "dram_row_step": step,
        "spad_row_step": row_bytes if rows > 1 else 0,
    }
    return Instruction(opcode, fields)


def cases(opcode):
    return {
        "one beat": [transfer(opcode, 4)],
        "long": [transfer(opcode, 8000, offset=3)],
        "four long ones": [transfer(opcode, 4000)] * 4,
        "rows of two beats": [transfer(opcode, 8, 200, 64)],
        "rows of half a burst": [transfer(opcode, 32, 200, 64)],
        "rows anywhere": [transfer(opcode, 97, 60, 201, 5)],
        "rows of many bursts": [transfer(opcode, 300, 20, 512)],
    }


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("memory", [*MEMORIES, PAGED], ids=lambda memory: memory.name)
@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE], ids=lambda opcode: opcode.name)
def test_transfers_take_as_long_as_predicted(pair, memory, opcode):
    driver, machine = pair.rtl, Machine(config=pair.config, memory=memory)
    driver.transport.set_timing(MemoryTiming(memory=memory))
    wrong = {}
    for name, transfers in cases(opcode).items():
        instructions = [*transfers, Instruction(Opcode.END)]
        commands = b"".join(pack(instruction) for instruction in instructions)
        driver.place_regions(
            {Region.PROGRAM: len(commands), Region.INPUT: 1 << 16, Region.OUTPUT: 1 << 16}
        )
        driver.write_region(Region.PROGRAM, 0, commands)
        measured = driver.run(0, len(commands)).cycles
        predicted = predict(instructions, machine).cycles
        if abs(predicted - measured) > max(12, 0.03 * measured):
            wrong[name] = (predicted, measured)
    driver.transport.set_timing(MemoryTiming())
    assert not wrong
