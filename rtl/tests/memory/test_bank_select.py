"""Bank selection, compared with the bank of each byte."""

import dataclasses

import pytest
from amaranth.hdl import Module, Signal

from matloom.arch.config import PRESETS, Config
from matloom_rtl.memory.bank_select import align_down, bank_select_of, crosses_bank
from matloom_rtl.ports import SPAD_ADDRESS_BITS
from matloom_rtl.testing import simulate

#: The smallest banks of one, four and eight, five of no power of two, and sixteen to the last byte.
CONFIGS = {
    "one": dataclasses.replace(PRESETS["nano"], spad_bytes=8192, spad_banks=1),
    "four": PRESETS["nano"],
    "five": Config(),
    "all": Config(spad_bytes=2**24, spad_banks=16),
}


def banks_of(config, address, width):
    """Return the banks that hold some of the bytes; addresses wrap at 2**24."""
    places = ((address + index) % 2**SPAD_ADDRESS_BITS for index in range(width))
    return {place // config.bank_bytes for place in places}


@pytest.mark.parametrize("width", [1, 3, 4, 8, 9, 16])
@pytest.mark.parametrize("name", CONFIGS)
def test_accesses_around_every_border(name, width):
    config = CONFIGS[name]
    address = Signal(SPAD_ADDRESS_BITS)
    bank_select = Signal(config.spad_banks)
    crosses = Signal()
    m = Module()
    m.d.comb += [
        bank_select.eq(bank_select_of(address, width, config)),
        crosses.eq(crosses_bank(address, width, config)),
    ]

    async def check(ctx):
        for border in range(config.spad_banks + 2):
            for distance in range(-2 * width - 1, 3):
                place = (border * config.bank_bytes + distance) % 2**SPAD_ADDRESS_BITS
                ctx.set(address, place)
                banks = banks_of(config, place, width)
                assert ctx.get(crosses) == (len(banks) == 2), hex(place)
                wanted = sum(1 << bank for bank in banks if bank < config.spad_banks)
                assert ctx.get(bank_select) == wanted, hex(place)

    simulate(m, check, cycles=1)


@pytest.mark.parametrize("boundary", [1, 2, 16])
def test_an_aligned_address_is_the_multiple_before_it(boundary):
    address = Signal(SPAD_ADDRESS_BITS)
    found = Signal(SPAD_ADDRESS_BITS)
    m = Module()
    m.d.comb += found.eq(align_down(address, boundary))

    async def check(ctx):
        for place in (*range(40), 2**SPAD_ADDRESS_BITS - 1):
            ctx.set(address, place)
            assert ctx.get(found) == place // boundary * boundary

    simulate(m, check, cycles=1)
