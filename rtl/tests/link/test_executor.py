"""Executor and accesses on real buses: effects, answers, counts; stalls, errors, resets."""

import random

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom.arch.link import LINK_IDENTITY, Request, Status
from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.bus.axi_lite import AxiLiteSignature
from matloom_rtl.bus.testing import AxiMemory
from matloom_rtl.link import executor as executor_module
from matloom_rtl.link.accesses import Accesses
from matloom_rtl.link.decoder import FrameByte
from matloom_rtl.link.executor import Executor
from matloom_rtl.testing import simulate

HELLO = [LINK_IDENTITY, 54_000_000, 0x12345678, 0x80000000, 0x4000, 0, 1, 2, 3, 4]
BASE = 0x80000000
#: Of an access: asked, five cycles from its address to the answer, that, and passed on.
ACCESS_CYCLES = 1 + 5 + 1 + 1


class Both(wiring.Component):
    """The executor with its accesses, connected as in the link."""

    def __init__(self, bus_bits):
        self.executor, self.accesses = Executor(HELLO), Accesses(bus_bits)
        super().__init__(
            {
                "i": In(stream.Signature(FrameByte)),
                "o": Out(stream.Signature(FrameByte)),
                "irq": In(1),
                "axi_lite": Out(AxiLiteSignature()),
                "axi_read": Out(AxiReadSignature(bus_bits)),
                "axi_write": Out(AxiWriteSignature(bus_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules += [self.executor, self.accesses]
        executor, accesses = self.executor, self.accesses
        connect(m, flipped(self.i), executor.i)
        connect(m, executor.o, flipped(self.o))
        m.d.comb += executor.irq.eq(self.irq)
        for name in ("start", "write", "memory", "address", "data", "strobe"):
            m.d.comb += getattr(accesses, name).eq(getattr(executor, name))
        for name in ("idle", "done", "failed", "value"):
            m.d.comb += getattr(executor, name).eq(getattr(accesses, name))
        for name in ("axi_lite", "axi_read", "axi_write"):
            connect(m, getattr(accesses, name), flipped(getattr(self, name)))
        return m


def request(kind, number, length, address, data=b""):
    header = [int(kind), number, *length.to_bytes(2, "little"), *address.to_bytes(4, "little")]
    return bytes(header) + data + b"sum!"


class Bench:
    """Requests in, replies out, with a memory and a few registers."""

    def __init__(self, *, bus_bits=32, stall=0.0, latency=5, silent=False, broken=()):
        self.dut = Both(bus_bits)
        self.reset = Signal()
        self.contents, self.registers = bytearray(256), {0: 0x4D4C0008, 8: 0}
        self.register_writes, self.replies, self.shown = [], [], []
        self.memories = [
            AxiMemory(
                bus,
                self.contents,
                burst_beats=1,
                base=BASE,
                stall=stall,
                latency=latency,
                broken=broken,
            )
            for bus in (self.dut.axi_read, self.dut.axi_write)
        ]
        self.stall, self.silent, self.random = stall, silent, random.Random(7)
        self.sent_at = 0

    def _pause(self):
        return self.random.random() < self.stall

    async def send(self, ctx, data, whole=True):
        for index, byte in enumerate(data):
            while self._pause():
                await ctx.tick()
            ctx.set(self.dut.i.payload, {"data": byte, "last": whole and index == len(data) - 1})
            ctx.set(self.dut.i.valid, 1)
            await ctx.tick().until(self.dut.i.ready)
            ctx.set(self.dut.i.valid, 0)

    async def ask(self, ctx, *arguments, **more):
        """Send a request and return its reply: data and status."""
        have = len(self.replies)
        await self.send(ctx, request(*arguments, **more))
        return await self.reply(ctx, have)

    async def reply(self, ctx, have):
        while len(self.replies) == have:
            await ctx.tick()
        reply = self.replies[have]
        assert int.from_bytes(reply[2:4], "little") == len(reply) - 5
        return reply[4:-1], Status(reply[-1])

    async def collect(self, ctx):
        current = bytearray()
        while True:
            ready = not self._pause()
            ctx.set(self.dut.o.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(self.dut.o.valid, self.dut.o.payload)
            if valid and ready:
                current.append(payload.data)
                if payload.last:
                    self.replies.append(bytes(current))
                    current = bytearray()

    async def request(self, ctx):
        """Return the payloads of an access by channel: `ar`, or `aw` and `w` in any order."""
        lite, brought = self.dut.axi_lite, {}
        channels = {"ar": lite.ar, "aw": lite.aw, "w": lite.w}
        while "ar" not in brought and not {"aw", "w"} <= brought.keys():
            ready = {name: name not in brought and not self._pause() for name in channels}
            for name, channel in channels.items():
                ctx.set(channel.ready, ready[name])
            signals = [part for each in channels.values() for part in (each.valid, each.payload)]
            _, _, *found = await ctx.tick().sample(*signals)
            for index, name in enumerate(channels):
                if ready[name] and found[2 * index]:
                    brought[name] = found[2 * index + 1]
        for channel in channels.values():
            ctx.set(channel.ready, 0)
        assert brought.keys() in ({"ar"}, {"aw", "w"})
        return brought

    async def serve(self, ctx):
        """Serve the registers, one access at a time."""
        lite = self.dut.axi_lite
        while not self.silent:
            brought = await self.request(ctx)
            reads = "ar" in brought
            address = brought["ar" if reads else "aw"]
            error = 0 if address in self.registers else 2
            if not reads:
                word = brought["w"].data
                self.register_writes.append((address, word))
                self.registers[address] = word
            ctx.set(lite.r.payload, {"data": self.registers.get(address, 0), "resp": error})
            ctx.set(lite.b.payload, error)
            channel = lite.r if reads else lite.b
            ctx.set(channel.valid, 1)
            await ctx.tick().until(channel.ready)
            ctx.set(channel.valid, 0)

    def run(self, *benches, cycles=20_000):
        read, write = self.memories
        background = [self.collect, self.serve, read.read, write.write]
        dut = ResetInserter(self.reset)(self.dut)
        return simulate(dut, *benches, cycles=cycles, background=background)


def run(scenario, **options):
    """Run a scenario, an async function of a simulation and its bench, after a hello."""
    bench = Bench(**options)

    async def play(ctx):
        data, status = await bench.ask(ctx, Request.HELLO, 9, 40, 0)
        words = [int.from_bytes(data[k : k + 4], "little") for k in range(0, 40, 4)]
        assert (words, status) == ([*HELLO[:5], 1, *HELLO[6:]], Status.OKAY)
        await scenario(ctx, bench)

    cycles = bench.run(play)
    return bench, cycles


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("bus_bits", "stall"), [(32, 0.0), (32, 0.4), (64, 0.4), (128, 0.4)])
def test_memory(bus_bits, stall):
    noise, expected = random.Random(1), bytearray(256)

    async def scenario(ctx, bench):
        for number, (start, size) in enumerate([(0, 4), (1, 1), (6, 3), (13, 21), (35, 5)]):
            data = noise.randbytes(size)
            expected[start : start + size] = data
            kind, where = Request.WRITE_MEMORY, BASE + start
            assert await bench.ask(ctx, kind, 10 + 2 * number, size, where, data) == (b"", 0)
            kind = Request.READ_MEMORY
            assert await bench.ask(ctx, kind, 11 + 2 * number, size, where) == (data, 0)

    bench, _ = run(scenario, bus_bits=bus_bits, stall=stall)
    assert bench.contents == expected


@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_registers_and_their_errors(stall):
    async def scenario(ctx, bench):
        data = (77).to_bytes(4, "little")
        assert await bench.ask(ctx, Request.WRITE_REGISTERS, 10, 4, 8, data) == (b"", 0)
        assert await bench.ask(ctx, Request.READ_REGISTERS, 11, 4, 8) == (data, 0)
        for number, address in ((12, 4), (13, 0x1000), (14, BASE)):
            _, status = await bench.ask(ctx, Request.READ_REGISTERS, number, 4, address)
            assert status == Status.BUS_ERROR
        wrong = [(4, 1), (4, 2), (4, 3), (1, 0), (2, 0), (3, 0)]
        for number, (length, address) in enumerate(wrong, 15):
            answer = await bench.ask(ctx, Request.READ_REGISTERS, number, length, address)
            assert answer == (b"", Status.BAD_REQUEST)
        for number, kind in enumerate((5, 7, 8, 15), 15 + len(wrong)):
            assert await bench.ask(ctx, kind, number, 4, 0) == (b"", Status.BAD_REQUEST)

    assert run(scenario, stall=stall)[0].register_writes == [(8, 77)]


def test_sequence():
    """Requests in order, repeated, and too early; a repeated one gets its first status."""

    async def scenario(ctx, bench):
        def write(number, address=8):
            kind = Request.WRITE_REGISTERS
            return bench.ask(ctx, kind, number & 255, 4, address, number.to_bytes(4, "little"))

        assert await write(10) == (b"", Status.OKAY)
        assert await write(12) == (b"", Status.SEQUENCE)
        assert await write(11, 0x1000) == (b"", Status.BUS_ERROR)
        assert await write(11, 0x1000) == (b"", Status.BUS_ERROR)
        assert await write(10) == (b"", Status.OKAY)
        await bench.ask(ctx, Request.HELLO, 244, 40, 0)
        for number in range(245, 265):
            assert await write(number) == (b"", Status.OKAY)
        assert await write(265 - 16) == (b"", Status.OKAY)
        assert await write(265 - 17) == (b"", Status.SEQUENCE)

    bench, _ = run(scenario)
    assert [value for _, value in bench.register_writes] == [10, *range(245, 265)]


def test_before_and_after_a_hello():
    bench = Bench()

    async def play(ctx):
        async def hello(number):
            data, _ = await bench.ask(ctx, Request.HELLO, number, 40, 0)
            return data[20]

        answer = await bench.ask(ctx, Request.READ_REGISTERS, 3, 4, 0)
        assert answer == (b"", Status.NO_SESSION)
        # The first one is fresh, also when it comes again; the next is not.
        assert [await hello(3), await hello(3), await hello(77), await hello(77)] == [1, 1, 0, 0]

    bench.run(play)


def test_damage_and_data_of_another_length():
    async def scenario(ctx, bench):
        await bench.send(ctx, b"?")
        assert await bench.reply(ctx, 1) == (b"", Status.BAD_FRAME)
        for number, (length, data) in enumerate([(8, b"1234"), (4, b"12345678"), (0, b"1")], 10):
            kind = Request.WRITE_MEMORY
            answer = await bench.ask(ctx, kind, number, length, BASE, data)
            assert answer == (b"", Status.BAD_REQUEST)
        answer = await bench.ask(ctx, Request.READ_MEMORY, 13, 4, BASE, b"1")
        assert answer == (b"", Status.BAD_REQUEST)

    run(scenario)


def test_the_wait_ends_with_the_interrupt_or_its_time():
    async def scenario(ctx, bench):
        answer, _ = await bench.ask(ctx, Request.WAIT, 10, 4, 100)
        assert int.from_bytes(answer, "little") == 100

        have = len(bench.replies)
        await bench.send(ctx, request(Request.WAIT, 11, 4, 5000))
        await ctx.tick().repeat(200)
        ctx.set(bench.dut.irq, 1)
        answer, _ = await bench.reply(ctx, have)
        assert int.from_bytes(answer, "little") == 200
        answer, _ = await bench.ask(ctx, Request.WAIT, 12, 4, 5000)
        assert int.from_bytes(answer, "little") == 0

    run(scenario)


def test_an_error_ends_the_accesses_of_a_request():
    async def scenario(ctx, bench):
        data, status = await bench.ask(ctx, Request.READ_MEMORY, 10, 16, BASE)
        assert (data[:4], len(data), status) == (bytes(4), 16, Status.BUS_ERROR)
        _, status = await bench.ask(ctx, Request.WRITE_MEMORY, 11, 16, BASE, b"0123456789abcdef")
        assert status == Status.BUS_ERROR

    bench, _ = run(scenario, broken=(BASE + 4,))
    assert [len(memory.bursts) for memory in bench.memories] == [2, 2]
    assert bench.contents[8:16] == bytes(8)


def test_a_silent_bus_is_given_up(monkeypatch):
    monkeypatch.setattr(executor_module, "TIMEOUT_CYCLES", 64)

    async def scenario(ctx, bench):
        for number in (10, 11):
            data, status = await bench.ask(ctx, Request.READ_REGISTERS, number, 8, 0)
            assert (len(data), status) == (8, Status.TIMEOUT)
        # What is under way stays on the bus.
        assert ctx.get(bench.dut.axi_lite.ar.valid)

    _, cycles = run(scenario, silent=True)
    assert cycles < 600


def test_cycles_of_a_block():
    """A byte takes a cycle and a word its access: less than the line's 180 cycles per byte."""
    costs = []

    async def scenario(ctx, bench):
        costs.append(bench.memories[0].cycle)
        for number, length in ((10, 16), (11, 32)):
            await bench.ask(ctx, Request.WRITE_MEMORY, number, length, BASE, bytes(length))
            costs.append(bench.memories[0].cycle)
        for number, length in ((12, 16), (13, 32)):
            await bench.ask(ctx, Request.READ_MEMORY, number, length, BASE)
            costs.append(bench.memories[0].cycle)

    run(scenario, latency=5)
    first, second, third, fourth = (costs[k + 1] - costs[k] for k in range(4))
    # Four words more, each of four bytes; those of a read are looked for and put in place.
    assert second - first == 4 * (4 + ACCESS_CYCLES)
    assert fourth - third == 4 * (1 + ACCESS_CYCLES + 1 + 4)


def test_a_reset_midway():
    async def scenario(ctx, bench):
        whole = request(Request.WRITE_MEMORY, 10, 16, BASE, b"0123456789abcdef")
        await bench.send(ctx, whole[:15], whole=False)
        ctx.set(bench.reset, 1)
        await ctx.tick()
        ctx.set(bench.reset, 0)
        answer = await bench.ask(ctx, Request.READ_REGISTERS, 10, 4, 0)
        assert answer == (b"", Status.NO_SESSION)
        data, _ = await bench.ask(ctx, Request.HELLO, 50, 40, 0)
        assert data[20] == 1

    run(scenario)
