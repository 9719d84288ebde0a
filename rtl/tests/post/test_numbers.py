"""Numbers: limits, sizes and formats of commands, a new one in every cycle."""

import random

import numpy as np
import pytest

from matloom.arch.config import Config
from matloom.arch.isa import post_element_bytes
from matloom.arch.numerics import SUPPORTED_ROUNDINGS, Rounding
from matloom_rtl.arith.widen import Widen
from matloom_rtl.post.numbers import Numbers
from matloom_rtl.testing import simulate

SMALL = {"rows": 4, "columns": 4, "broadcast_group": 4, "lanes": 2, "acc_bytes": 1024}
CONFIGS = {
    "bytes": Config(**SMALL),
    "words": Config(**SMALL, mac_modes=("i8xi8", "i16xi8")),
    "floats": Config(**SMALL, float_rows=2, mac_modes=("i8xi8", "bf16", "fp8_e5m2")),
    "all": Config(**SMALL, float_rows=2, mac_modes=("i8xi8", "i16xi8", "fp16", "fp8_e4m3")),
}


def draw(generator, config):
    rounding = generator.choice(config.roundings)
    command = {
        "rounding": rounding,
        "pre_shift": generator.choice(
            config.post_formats if rounding == Rounding.FLOAT else range(32)
        ),
        "clamp_low": generator.randint(-128, 127),
        "clamp_high": generator.randint(-128, 127),
    }
    if config.has_words:
        command["words"] = int(rounding in SUPPORTED_ROUNDINGS and generator.random() < 0.5)
        command |= {name: generator.randrange(256) for name in ("low_byte", "high_byte")}
    return command


def limit(command, side):
    """Return the lower or upper limit (`side`) that the instruction set defines."""
    if command.get("words"):
        return command[f"clamp_{side}"] * 256 + command[f"{side}_byte"]
    return command[f"clamp_{side}"]


def fp32_of_e5m2(byte):
    """Return the fp32 pattern of an fp8_e5m2 number, which is the upper byte of an fp16."""
    half = np.array([(byte & 255) << 8], np.uint16).view(np.float16)
    return int(half.astype(np.float32).view(np.uint32)[0])


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", CONFIGS)
def test_facts_of_a_command_in_every_cycle(seed, name):
    config, generator = CONFIGS[name], random.Random(seed)
    dut, commands = Numbers(config), []

    async def bench(ctx):
        for _cycle in range(300):
            commands.append(draw(generator, config))
            ctx.set(dut.command, commands[-1])
            now = dut.o.low, dut.o.high
            assert [ctx.get(each) for each in now] == [
                limit(commands[-1], "low"),
                limit(commands[-1], "high"),
            ]
            if len(commands) > 1:
                check(ctx, commands[-2])
            if config.has_float and len(commands) > Widen.LATENCY:
                before = commands[-1 - Widen.LATENCY]
                # NaN has one pattern here.
                if before["clamp_low"] & 127 < 0x7D:
                    assert ctx.get(dut.o.float_low) == fp32_of_e5m2(before["clamp_low"])
            await ctx.tick()

    def check(ctx, command):
        if config.element_size_bits:
            assert 1 << ctx.get(dut.o.size) == post_element_bytes(command)
        if config.has_float:
            floats = command["rounding"] == Rounding.FLOAT
            assert ctx.get(dut.o.floating) == floats
            assert ctx.get(dut.o.fp32) == (command["pre_shift"] == config.post_formats[-1])
            if floats and not ctx.get(dut.o.fp32):
                number = config.post_formats.index(command["pre_shift"])
                assert ctx.get(dut.o.format) == number

    simulate(dut, bench, cycles=400)
