"""Any legal configuration elaborates; VALID is low during a reset."""

import dataclasses

import pytest

from matloom.arch.config import PRESETS, Config
from matloom.arch.csr import Fault, register
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Opcode, Region
from matloom_rtl.bus.testing import AxiMemory
from matloom_rtl.convert import to_rtlil
from matloom_rtl.core import Core
from matloom_rtl.testing import simulate
from matloom_rtl.top import Top

NANO = PRESETS["nano"]
SMALLEST = dataclasses.replace(
    NANO,
    broadcast_group=1,
    weight_rows=1,
    # 16 lines of two words of four bytes.
    spad_bytes=128,
    spad_banks=1,
    # 16 entries of four sums.
    acc_bytes=256,
    lanes=1,
    outstanding=1,
    burst_beats=1,
    queue_depth=1,
    address_first=1,
    checks=0,
    timestamps=0,
    counters=0,
)


def shaped(rows, columns, **values):
    return dataclasses.replace(
        NANO, **{"rows": rows, "columns": columns, "broadcast_group": columns, **values}
    )


def varied(**values):
    return dataclasses.replace(NANO, **values)


CONFIGS = {
    "4x4": NANO,
    "8x16": shaped(8, 16, lanes=4),
    "smallest": SMALLEST,
    "256-bit bus": varied(bus_bits=256),
    "one bank, one lane": varied(spad_banks=1, lanes=1),
}

#: Seconds each. Not among them are `small`, `reference` and an 8x16 with a bus of 128 bits: they
#: are made by test_generate.py and host/tests/toolchain/test_equivalence.py, and simulated in
#: host/tests/device.
MORE = {
    "16x8": shaped(16, 8, lanes=4),
    "12x12": shaped(12, 12, broadcast_group=3, weight_rows=3, acc_bytes=48 * 1024, lanes=3),
    "64-bit bus": varied(bus_bits=64),
    "128-bit bus": varied(bus_bits=128),
    "all rows of weights": varied(weight_rows=4),
    "one row of weights": varied(weight_rows=1),
    "all lanes": varied(lanes=4),
    "three banks": varied(spad_banks=3, spad_bytes=3 * 8192),
    "groups of one": varied(broadcast_group=1),
    "16 entries": varied(acc_bytes=256),
    "long bursts": varied(burst_beats=256, outstanding=32),
    "single beats": varied(burst_beats=1, outstanding=1),
    "long queues": varied(queue_depth=32),
    "timestamps": varied(timestamps=256),
    "cycles alone": varied(counters=1, timestamps=2),
    "16x16, 32-bit bus": dataclasses.replace(Config(), bus_bits=32),
    "8x8, all rows of weights": dataclasses.replace(PRESETS["small"], weight_rows=8),
    "32x32": PRESETS["large"],
    "64x4": dataclasses.replace(
        Config(), rows=64, columns=4, broadcast_group=4, weight_rows=8, lanes=4
    ),
    "4x64": dataclasses.replace(
        Config(), rows=4, columns=64, broadcast_group=8, weight_rows=1, lanes=16
    ),
}


def ports(text, name):
    """Return the ports of a module in RTLIL."""
    body = text[text.index(f"\nmodule \\{name}\n") :]
    body = body[: body.index("\nend\n")]
    words = [line.split() for line in body.splitlines() if line.startswith("  wire ")]
    return {
        line[-1].removeprefix("\\"): int(line[2]) if line[1] == "width" else 1
        for line in words
        if "input" in line or "output" in line
    }


def check(config):
    found = ports(to_rtlil(Top(config), "matloom"), "matloom")
    assert found["m_axi_wdata"] == found["m_axi_rdata"] == config.bus_bits
    assert found["m_axi_wstrb"] == config.bus_bytes
    assert found["irq"] == 1


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_configuration_elaborates(config):
    check(config)


@pytest.mark.slow
@pytest.mark.parametrize("config", MORE.values(), ids=MORE)
def test_more_configurations_elaborate(config):
    check(config)


def test_core_needs_no_top():
    text = to_rtlil(Core(NANO), "core")
    assert ports(text, "core")["irq"] == 1


def copy_program():
    """Return a program that copies 64 bytes from INPUT to OUTPUT, in full beats."""
    box = {"row_bytes": 64, "rows": 1, "planes": 1}
    return b"".join(
        pack(Instruction(opcode, values))
        for opcode, values in (
            (Opcode.LOAD, {**box, "region": Region.INPUT}),
            (Opcode.STORE, {**box, "region": Region.OUTPUT, "wait_load": 1}),
            (Opcode.END, {}),
        )
    )


def test_a_reset_silences_every_channel_in_the_same_cycle():
    """Pulse the wire within each cycle of a run, without a clock edge, and look at the outputs.

    Answers are accepted late, so that each channel is stalled for some cycles.
    """
    core, program = Core(SMALLEST), copy_program()
    memory = bytearray(program.ljust(1024, b"\0") + bytes(range(256)) * 4)
    buses = [AxiMemory(bus, memory, burst_beats=1) for bus in (core.axi_read, core.axi_write)]
    lite = core.axi_lite
    offered = {
        "R of the registers": lite.r.valid,
        "B of the registers": lite.b.valid,
        "AR": core.axi_read.ar.valid,
        "AW": core.axi_write.aw.valid,
        "W": core.axi_write.w.valid,
    }
    values = {"COMMAND_BYTES": len(program), "IRQ_ENABLE": 1}
    for place, region in enumerate((Region.PROGRAM, Region.INPUT, Region.OUTPUT)):
        values[f"{region.name}_BASE"] = 512 * place
        values[f"{region.name}_BYTES"] = 512
    seen, causes = set(), []

    async def tick(ctx):
        """Advance a cycle, after a look at the outputs under reset."""
        shown = {name for name, valid in offered.items() if ctx.get(valid)}
        ctx.set(core.reset, 1)
        assert not [name for name, valid in offered.items() if ctx.get(valid)]
        ctx.set(core.reset, 0)
        assert shown == {name for name, valid in offered.items() if ctx.get(valid)}
        seen.update(shown)
        await ctx.tick()

    async def send(ctx, channel, payload):
        ctx.set(channel.payload, payload)
        ctx.set(channel.valid, 1)
        while not ctx.get(channel.ready):
            await tick(ctx)
        await tick(ctx)
        ctx.set(channel.valid, 0)

    async def answer(ctx, channel):
        while not ctx.get(channel.valid):
            await tick(ctx)
        await tick(ctx)
        ctx.set(channel.ready, 1)
        await tick(ctx)
        ctx.set(channel.ready, 0)

    async def write(ctx, name, value):
        await send(ctx, lite.aw, register(name).offset)
        await send(ctx, lite.w, {"data": value, "strb": 15})
        await answer(ctx, lite.b)

    async def main(ctx):
        for name, value in [*values.items(), ("CONTROL", 1)]:
            await write(ctx, name, value)
        await send(ctx, lite.ar, register("STATUS").offset)
        await answer(ctx, lite.r)
        while not ctx.get(core.irq):
            await tick(ctx)

        assert memory[1024 : 1024 + 64] == memory[512 : 512 + 64]
        # The same without its END: that nothing more will come is known of Fetch alone.
        cut = {"IRQ_STATUS": 3, "COMMAND_BYTES": len(program) - 16, "IRQ_ENABLE": 3, "CONTROL": 1}
        for name, value in cut.items():
            await write(ctx, name, value)
        while not ctx.get(core.irq):
            await tick(ctx)
        await send(ctx, lite.ar, register("FAULT").offset)
        while not ctx.get(lite.r.valid):
            await tick(ctx)
        causes.append(ctx.get(lite.r.payload.data) & register("FAULT").fields[0].mask)

    simulate(core, main, cycles=5000, background=[buses[0].read, buses[1].write])
    assert seen == set(offered)
    assert causes == [Fault.COMMAND_RANGE]
