"""The check of a board's memory passes good memory, and names each kind of defect."""

import pytest

from matloom.arch.config import load_config
from matloom.device.board_check import check_memory, describe
from matloom.device.frames import Hello

BASE, BYTES = 0x8000_0000, 1 << 20


class Memory:
    """A memory with an optional defect: a wrong address, a wrong byte, or a wrong mask."""

    memory_base, memory_bytes = BASE, BYTES

    def __init__(self, place=lambda at: at, shown=lambda at, byte: byte, least=1):
        self.bytes = bytearray(BYTES)
        self.place, self.shown, self.least = place, shown, least

    def write_block(self, address, data):
        start = address - BASE
        for at, byte in enumerate(data, start):
            # A memory without masks writes whole words of `least` bytes.
            for each in range(at - at % self.least, at - at % self.least + self.least):
                if self.least > 1 and not start <= each < start + len(data):
                    self.bytes[self.place(each)] = 0
            self.bytes[self.place(at)] = byte

    def read_block(self, address, size):
        start = address - BASE
        return bytes(
            self.shown(at, self.bytes[self.place(at)]) for at in range(start, start + size)
        )


def test_a_good_memory():
    found = check_memory(Memory(), 1 << 17)
    assert found.is_correct
    assert found.tested == 1 << 17
    assert found.summary.startswith("memory: 131072 bytes written and read twice, right, ")


@pytest.mark.parametrize("bit", [12, 13, 17, 19])
def test_a_wire_of_the_address(bit):
    """A stuck address wire makes two blocks one; from bit 12 on, since blocks are 4 KiB."""
    found = check_memory(Memory(place=lambda at: at & ~(1 << bit)), 1 << 17)
    assert not found.is_correct
    assert "bytes are wrong, in bits 0, 1, 2, 3, 4, 5, 6, 7" in found.fault


def test_a_wire_of_the_data():
    """A wire stuck at one corrupts half of the bytes of a pass, and of a repetition."""
    stuck = Memory(shown=lambda at, byte: byte | 0x20 if at % 2 else byte)
    fault = check_memory(stuck, 1 << 14).fault
    assert "(read again: the same)" in fault
    assert "in bits 5 (docs/boards.md" in fault
    address = int(fault.split()[2], 16)
    assert address % 2 == 1


def test_unstable_bytes():
    reads = iter(range(1 << 30))
    flaky = Memory(shown=lambda at, byte: byte ^ (next(reads) % 1009 == 1008))
    fault = check_memory(flaky, 1 << 14).fault
    assert "read again: 0x" in fault
    assert "in bits 0 (" in fault


def test_masks_that_do_not_mask():
    found = check_memory(Memory(least=2), 1 << 14)
    assert "of 512 bytes are wrong" in found.fault


def test_description_of_a_board():
    hello = Hello(
        identity=0,
        clock_hz=70_833_333,
        config_digest=load_config("medium").digest,
        memory_base=BASE,
        memory_bytes=BYTES,
        fresh=1,
        board="ulx3s-85f",
    )
    assert describe(hello) == [
        "board: ulx3s-85f, 70.8333 MHz",
        f"engine: medium, configuration {load_config('medium').digest:08x}",
        "memory: 1048576 bytes at 0x80000000",
    ]
