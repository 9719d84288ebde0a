"""The serial CRC-32, compared with zlib's; cycles; clearing midway."""

import random
import zlib

import pytest

from matloom_rtl.link.checksum import CYCLES_PER_BYTE, Checksum
from matloom_rtl.testing import simulate


def values_after(data, clear_at=None):
    dut, seen = Checksum(), {}

    async def feed(ctx):
        for index, byte in enumerate(data):
            ctx.set(dut.data, byte)
            ctx.set(dut.valid, 1)
            await ctx.tick()
            ctx.set(dut.valid, 0)
            if index == clear_at:
                await ctx.tick().repeat(3)
                ctx.set(dut.clear, 1)
                await ctx.tick()
                ctx.set(dut.clear, 0)
            else:
                assert ctx.get(dut.busy)
                await ctx.tick().repeat(CYCLES_PER_BYTE - 1)
            assert not ctx.get(dut.busy)
        seen.update(value=ctx.get(dut.value), good=ctx.get(dut.good))

    cycles = simulate(dut, feed, cycles=CYCLES_PER_BYTE * len(data) + 10)
    return seen["value"] ^ 0xFFFFFFFF, seen["good"], cycles


@pytest.mark.parametrize("size", [1, 2, 30])
def test_value(size):
    data = random.Random(size).randbytes(size)
    value, good, cycles = values_after(data)
    assert value == zlib.crc32(data)
    assert not good
    assert cycles == CYCLES_PER_BYTE * size


def test_known_value():
    assert values_after(b"123456789")[0] == 0xCBF43926


def test_a_frame_with_its_checksum_is_good_and_one_bit_more_is_not():
    frame = b"frame" + zlib.crc32(b"frame").to_bytes(4, "little")
    assert values_after(frame)[1]
    for place in range(len(frame)):
        wrong = bytearray(frame)
        wrong[place] ^= 0x10
        assert not values_after(bytes(wrong))[1]


def test_clear_midway():
    assert values_after(b"abcdef", clear_at=2)[0] == zlib.crc32(b"def")
