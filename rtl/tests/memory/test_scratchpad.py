# amaranth: UnusedElaboratable=no
"""The scratchpad, compared with a bytearray: bytes, grants and the latencies of `ports`."""

import dataclasses
import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS, Config
from matloom_rtl.memory.scratchpad import Scratchpad
from matloom_rtl.ports import SPAD_READ_LATENCY, SPAD_WRITE_LATENCY
from matloom_rtl.testing import cached_unit, simulate

CONFIGS = {
    "nano": PRESETS["nano"],
    "small": PRESETS["small"],
    "8x16": Config(rows=8, columns=16, bus_bits=128),
    "one bank": Config(
        rows=4, columns=4, broadcast_group=4, lanes=4, bus_bits=32, spad_bytes=16384, spad_banks=1,
        acc_bytes=4096,
    ),
    "wide bus": Config(
        rows=4, columns=4, broadcast_group=4, lanes=4, bus_bits=256, spad_bytes=3 * 4096,
        spad_banks=3,
        acc_bytes=4096,
    ),
    "12 rows": Config(
        rows=12, columns=8, broadcast_group=8, lanes=4, weight_rows=3, spad_bytes=2 * 2048,
        spad_banks=2,
        acc_bytes=4096,
    ),
    # Weights of 64, 48 and 60 bytes: lines of 64, 64 and 128.
    "four rows": Config(
        rows=16, columns=16, bus_bits=32, spad_bytes=2 * 2048, spad_banks=2, acc_bytes=4096,
    ),
    "three rows": Config(
        rows=12, columns=16, weight_rows=3, spad_bytes=3 * 2048, spad_banks=3, acc_bytes=4096,
    ),
    "wide weights": Config(
        rows=20, columns=12, broadcast_group=4, lanes=4, weight_rows=5, spad_bytes=2 * 2048,
        spad_banks=2,
        acc_bytes=16 * 48,
    ),
}  # fmt: skip


class Bench:
    """Holds requests until they are granted, checks grants and data, and tracks the bytes."""

    def __init__(self, config, seed=1, groups=(0, 1, 2, 3)):
        self.config, self.groups = config, groups
        self.reads = [config.rows, config.weight_bytes, config.columns, config.bus_bytes]
        self.boundaries = [1, config.weight_boundary, 1, 1]
        self.writes = [config.columns, config.bus_bytes]
        self.dut = cached_unit(
            Scratchpad,
            config,
            read_widths=tuple(self.reads),
            read_boundaries=tuple(self.boundaries),
            write_widths=tuple(self.writes),
            read_groups=tuple(groups),
        )
        self.bytes = bytearray(config.spad_bytes)
        self.written = {}
        self.cycle = 0
        self.due = [{} for _port in self.reads]
        self.random = random.Random(seed)

    def banks(self, address, width):
        """Return the banks that hold bytes of the access."""
        bank_bytes = self.config.bank_bytes
        touched = {position // bank_bytes for position in (address, address + width - 1)}
        return {bank for bank in touched if 0 <= bank < self.config.spad_banks}

    def expected_grants(self, kind, requests, widths):
        """Return the grants by fixed priority; a waiting request blocks its banks."""
        taken, grants = set(), []
        for index, (request, width) in enumerate(zip(requests, widths, strict=True)):
            needs = self.banks(request["address"], width) if request else set()
            if request and kind == "read":
                needs |= {("group", self.groups[index])}
            grants.append(request is not None and not needs & taken)
            taken |= needs
        return grants

    def settled(self, address, width):
        """Return whether a read at an address would see no write that is still in progress."""
        return all(
            self.cycle - self.written.get(position, -9) >= SPAD_WRITE_LATENCY
            for position in range(address, address + width)
        )

    async def step(self, ctx, reads, writes):
        """Present the requests of a cycle; return those that still wait."""
        for kind, requests in (("read", reads), ("write", writes)):
            for index, request in enumerate(requests):
                port = getattr(self.dut, f"{kind}_{index}")
                ctx.set(port.valid, request is not None)
                if request:
                    for name, value in request.items():
                        if name != "data":
                            wrapped = value % 2**24 if name == "address" else value
                            ctx.set(getattr(port, name), wrapped)
                    width = (self.reads if kind == "read" else self.writes)[index]
                    touched = self.banks(request["address"], width)
                    ctx.set(port.bank_select, sum(1 << bank for bank in touched))
        self.check_data(ctx)
        written = [None] * len(writes)
        granted = self.granted(ctx, "read", reads, self.reads)
        for index, request in enumerate(granted):
            if request:
                self.expect(index, request["address"])
        for index, request in enumerate(self.granted(ctx, "write", writes, self.writes)):
            if request:
                self.store(request, self.writes[index])
                writes = [*writes[:index], None, *writes[index + 1 :]]
                written[index] = request
        await ctx.tick()
        self.cycle += 1
        for index, request in enumerate(written):
            data = request["data"] if request else self.random.getrandbits(8 * self.writes[index])
            ctx.set(getattr(self.dut, f"write_{index}").data, data)
        left = [None if done else request for request, done in zip(reads, granted, strict=True)]
        return left, writes

    def granted(self, ctx, kind, requests, widths):
        grants = self.expected_grants(kind, requests, widths)
        for index, (request, grant) in enumerate(zip(requests, grants, strict=True)):
            if request:
                assert ctx.get(getattr(self.dut, f"{kind}_{index}").ready) == grant
        return [request if go else None for request, go in zip(requests, grants, strict=True)]

    def expect(self, index, address):
        end = min(address + self.reads[index], self.config.spad_bytes)
        self.due[index][self.cycle + SPAD_READ_LATENCY] = bytes(self.bytes[address:end])

    def store(self, request, width):
        for index in range(width):
            if request["mask"] >> index & 1:
                position = request["address"] + index
                self.bytes[position] = request["data"] >> 8 * index & 255
                self.written[position] = self.cycle

    def check_data(self, ctx):
        for index, due in enumerate(self.due):
            expected = due.pop(self.cycle, None)
            if expected is not None:
                actual = ctx.get(getattr(self.dut, f"read_{index}").data)
                assert actual.to_bytes(self.reads[index], "little")[: len(expected)] == expected

    def draw_address(self, width, lowest=0):
        """Return an address near an edge of a bank, or anywhere."""
        end = self.config.spad_bytes
        if self.random.random() < 0.5:
            edge = self.config.bank_bytes * self.random.randrange(self.config.spad_banks + 1)
            return min(max(lowest, edge + self.random.randrange(-2 * width, 2 * width)), end - 1)
        return self.random.randrange(end)

    def draw_read(self, index):
        width = self.reads[index]
        address = self.draw_address(width) // self.boundaries[index] * self.boundaries[index]
        return {"address": address} if self.settled(address, width) else None

    def draw_write(self, index, reads):
        width = self.writes[index]
        address = self.draw_address(width, 1 - width)
        mask = self.random.choice([2**width - 1, self.random.randrange(2**width)])
        for byte in range(width):
            if not 0 <= address + byte < self.config.spad_bytes:
                mask &= ~(1 << byte)
        for read, read_width in zip(reads, self.reads, strict=True):
            # A waiting read must not be overtaken by a write to its bytes.
            if read and -width < read["address"] - address < width + read_width:
                return None
        return {"address": address, "mask": mask, "data": self.random.randrange(256**width)}

    async def fill(self, ctx):
        """Write all bytes through the widest write port that ends with them."""
        width = max(width for width in self.writes if self.config.spad_bytes % width == 0)
        index = self.writes.index(width)
        for address in range(0, self.config.spad_bytes, width):
            writes = [None] * len(self.writes)
            data = self.random.randrange(256**width)
            writes[index] = {"address": address, "mask": 2**width - 1, "data": data}
            await self.step(ctx, [None] * len(self.reads), writes)

    async def idle(self, ctx):
        for _cycle in range(SPAD_READ_LATENCY + 1):
            await self.step(ctx, [None] * len(self.reads), [None] * len(self.writes))


async def churn(ctx, bench, cycles, read_rates, write_rates):
    reads, writes = [None] * 4, [None] * 2
    for _cycle in range(cycles):
        for index, rate in enumerate(read_rates):
            if reads[index] is None and bench.random.random() < rate:
                reads[index] = bench.draw_read(index)
        for index, rate in enumerate(write_rates):
            if writes[index] is None and bench.random.random() < rate:
                writes[index] = bench.draw_write(index, reads)
        # Reads that wait meet writes granted meanwhile: hold them until these are visible.
        shown = [
            read if read and bench.settled(read["address"], width) else None
            for read, width in zip(reads, bench.reads, strict=True)
        ]
        left, writes = await bench.step(ctx, shown, writes)
        reads = [
            after if now else before for before, now, after in zip(reads, shown, left, strict=True)
        ]


RATES = {
    "steady": ((1, 0, 0, 0), (1, 0)),
    "stalled": ((1, 1, 1, 1), (1, 1)),
    "random": ((0.6, 0.3, 0.4, 0.3), (0.4, 0.5)),
}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("name", CONFIGS)
def test_random_accesses(name, rates):
    bench = Bench(CONFIGS[name])

    async def drive(ctx):
        await churn(ctx, bench, 400, *RATES[rates])
        await bench.idle(ctx)

    simulate(bench.dut, drive, cycles=420)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("rates", ["stalled", "random"])
@pytest.mark.parametrize(
    ("name", "groups"), [("nano", (0, 1, 2, 2)), ("wide bus", (0, 1, 2, 2)), ("nano", (0, 1, 0, 0))]
)
def test_readers_that_share(name, groups, rates):
    """Readers that share a unit are served one at a time, the first with priority."""
    bench = Bench(CONFIGS[name], groups=groups)

    async def drive(ctx):
        await churn(ctx, bench, 400, *RATES[rates])
        await bench.idle(ctx)

    simulate(bench.dut, drive, cycles=420)


def test_reference():
    bench = Bench(PRESETS["reference"])

    async def drive(ctx):
        await churn(ctx, bench, 150, *RATES["stalled"])
        await bench.idle(ctx)

    simulate(bench.dut, drive, cycles=170)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["12 rows", "wide bus", "wide weights", "three rows", "four rows"])
def test_every_alignment(name):
    """Write all bytes, then each port reads every address without a pause."""
    bench = Bench(CONFIGS[name])
    config = bench.config

    async def drive(ctx):
        await bench.fill(ctx)
        await bench.idle(ctx)
        for index in range(len(bench.reads)):
            for near in (0, config.bank_bytes - 2 * config.line_bytes):
                for address in range(near, near + 3 * config.line_bytes, bench.boundaries[index]):
                    reads = [None] * len(bench.reads)
                    reads[index] = {"address": address}
                    await bench.step(ctx, reads, [None] * len(bench.writes))
        await bench.idle(ctx)

    simulate(bench.dut, drive, cycles=5000)


def test_write_is_visible_after_its_latency():
    """Reads granted `SPAD_WRITE_LATENCY` cycles after a write see it, also across banks."""
    bench = Bench(PRESETS["nano"])
    edge = bench.config.bank_bytes

    async def drive(ctx):
        for address in (0, 3, edge - 1, edge - 3, edge):
            write = {"address": address, "mask": 15, "data": bench.random.randrange(2**32)}
            await bench.step(ctx, [None] * 4, [write, None])
            for _cycle in range(SPAD_WRITE_LATENCY - 1):
                await bench.step(ctx, [None] * 4, [None, None])
            await bench.step(ctx, [{"address": address}, None, None, None], [None, None])
        await bench.idle(ctx)

    simulate(bench.dut, drive, cycles=60)


def test_beyond_the_end_never_blocks():
    bench = Bench(PRESETS["nano"])

    async def drive(ctx):
        far = {"address": bench.config.spad_bytes + 5}
        await bench.step(ctx, [far, far, far, far], [None, None])
        last = {"address": bench.config.spad_bytes - 1}
        for _cycle in range(2):
            await bench.step(ctx, [last, None, far, None], [None, None])
        await bench.idle(ctx)

    simulate(bench.dut, drive, cycles=20)


def test_reset_midway():
    """Bytes stay; a write in progress is dropped as a whole; then everything works as before."""
    bench = Bench(PRESETS["nano"])
    reset = Signal()

    async def drive(ctx):
        await churn(ctx, bench, 60, *RATES["random"])
        await bench.idle(ctx)
        port = bench.dut.write_0
        ctx.set(port.valid, 1)
        ctx.set(port.address, 64)
        ctx.set(port.mask, ~0)
        await ctx.tick()
        ctx.set(port.data, ~0)
        ctx.set(port.valid, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        bench.cycle += 2
        await bench.step(ctx, [{"address": 62}, None, None, None], [None, None])
        await churn(ctx, bench, 60, *RATES["random"])
        await bench.idle(ctx)

    simulate(ResetInserter(reset)(bench.dut), drive, cycles=200)


@pytest.mark.parametrize("side", ["read_widths", "write_widths"])
def test_width_beyond_a_word(side):
    widths = {"read_widths": [4], "write_widths": [4]} | {side: [9]}
    with pytest.raises(ValueError, match=rf"{side} must be 1 to 4, not 9"):
        Scratchpad(PRESETS["nano"], **widths)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["nano", "three rows"])
def test_wrong_parity_is_reported_at_the_reading_port(name):
    """Wrong parity of the first or last byte of a read is reported six cycles after the grant."""
    config = dataclasses.replace(CONFIGS[name], parity=1)
    bench = Bench(config)
    dut, word = bench.dut, config.word_bytes

    async def drive(ctx):
        for index, (width, unit) in enumerate(zip(bench.reads, bench.boundaries, strict=True)):
            port, starts = getattr(dut, f"read_{index}"), range(0, config.spad_bytes - width, unit)
            for address in bench.random.sample(starts, 12):
                position = address + bench.random.choice((0, width - 1))
                bank, place = divmod(position, config.bank_bytes)
                line, offset = divmod(place, config.line_bytes)
                memory = dut.banks[bank].memories[offset // word].data[line]
                ctx.set(memory, 1 << 9 * (offset % word) + bench.random.randrange(9))
                ctx.set(port.address, address)
                banks = bench.banks(address, width)
                ctx.set(port.bank_select, sum(1 << each for each in banks))
                ctx.set(port.valid, 1)
                assert ctx.get(port.ready)
                seen = []
                for _cycle in range(9):
                    seen.append(ctx.get(dut.wrong))
                    await ctx.tick()
                    ctx.set(port.valid, 0)
                assert seen == [(1 << index) * (cycle == 6) for cycle in range(9)]
                ctx.set(memory, 0)

    simulate(dut, drive, cycles=500)
