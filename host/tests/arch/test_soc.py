"""Map of the system on chip: pinned addresses, no overlaps, fields within their registers."""

from itertools import pairwise

from matloom.arch.csr import WINDOW_BYTES
from matloom.arch.link import BOARD_BYTES as LINK_BOARD_BYTES
from matloom.arch.soc import BOARD_BYTES, PERIPHERALS, REGIONS, region, soc_register

#: Firmware that was linked relies on them.
PINNED = {
    "ROM": 0x0000_0000,
    "RAM": 0x1000_0000,
    "MEMORY": 0x4000_0000,
    "UNCACHED": 0xC000_0000,
    "ENGINE": 0xF000_0000,
    "UART": 0xF000_1000,
    "TIMER": 0xF000_2000,
    "INTERRUPTS": 0xF000_3000,
    "SYSTEM": 0xF000_4000,
}


def test_regions_are_pinned():
    assert {item.name: item.base for item in REGIONS} == PINNED


def test_regions_do_not_overlap():
    for one, next_one in pairwise(sorted(REGIONS, key=lambda item: item.base)):
        assert one.base + one.bytes <= next_one.base


def test_bit_31_decides_what_is_cached():
    for item in REGIONS:
        assert item.cached == (item.base < 1 << 31)


def test_registers_fit():
    for name, registers in PERIPHERALS.items():
        offsets = [item.offset for item in registers]
        assert offsets == sorted(set(offsets))
        assert all(offset % 4 == 0 and offset < region(name).bytes for offset in offsets)
        for item in registers:
            assert sum(bits.mask for bits in item.fields) < 1 << 32
            assert all(0 <= item.reset < 1 << item.width for item in registers)


def test_the_engine_fits():
    assert region("ENGINE").bytes >= WINDOW_BYTES


def test_a_board_has_one_name():
    assert BOARD_BYTES == LINK_BOARD_BYTES


def test_registers_are_found():
    assert soc_register("UART", "DIVISOR").offset == 8
