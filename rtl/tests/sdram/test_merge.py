"""Writes without byte masks: data, cycles, order, no deadlock, and with the controller."""

import dataclasses
import random
from collections import deque

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom.arch.sdram import load_sdram
from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.bus.testing import _Steady
from matloom_rtl.sdram.controller import SdramController
from matloom_rtl.sdram.initiator import Initiator
from matloom_rtl.sdram.merge import Merge
from matloom_rtl.sdram.pins import SdramPinsSignature
from matloom_rtl.sdram.testing import Sdram
from matloom_rtl.testing import cached_unit, simulate


class Memory:
    """The slowest memory that AXI and the controller's contract allow; it refuses masked beats.

    A read returns the contents when its address is accepted; a write takes effect with its
    response. Reads return in order, `latency` cycles after their addresses; responses come as long
    after the last beat. At most one read address is accepted every `pace` cycles.
    """

    def __init__(self, dut, contents, *, latency=12, pace=1, stall=0.0, seed=0):
        self.contents = bytearray(contents)
        self._read, self._write = dut.memory_read, dut.memory_write
        self._latency, self._pace, self._stall = latency, pace, stall
        self._random = random.Random(seed + 1)
        self._width = dut.memory_read.signature.bus_bits // 8
        self.addresses = []
        #: No beat to write is taken.
        self.held = False
        #: Cycles in which a beat to write, and an address to read, was taken.
        self.beats, self.asked = [], []
        self.benches = [self.serve_reads, self.serve_writes]

    def _open(self):
        return self._random.random() >= self._stall

    def _due(self, cycle):
        return cycle + self._latency + (self._random.randrange(self._latency) if self._stall else 0)

    async def serve_reads(self, ctx):
        ar, r = self._read.ar, self._read.r
        beats, steady, cycle, shown = deque(), _Steady("ar"), 0, None
        while True:
            if shown is None and beats and beats[0][0] <= cycle and self._open():
                shown = beats.popleft()[1]
                ctx.set(r.payload, shown)
            ctx.set(r.valid, shown is not None)
            ready = self._open() and cycle % self._pace == 0
            ctx.set(ar.ready, ready)
            _, _, valid, payload, taken = await ctx.tick().sample(ar.valid, ar.payload, r.ready)
            steady.check(valid, ready, payload.as_bits() if valid else 0)
            if shown is not None:
                assert taken, "a beat of memory must be taken at once"
                shown = None
            if valid and ready:
                self.addresses.append((payload.addr, payload.len + 1))
                self.asked.append(cycle)
                due = self._due(cycle)
                for index in range(payload.len + 1):
                    start = payload.addr + index * self._width
                    word = int.from_bytes(self.contents[start : start + self._width], "little")
                    last = index == payload.len
                    beats.append((due, {"id": payload.id, "data": word, "last": last}))
            cycle += 1

    async def serve_writes(self, ctx):
        aw, w, b = self._write.aw, self._write.w, self._write.b
        bursts, beats, due, cycle, shown = deque(), deque(), deque(), 0, None
        steady_address, steady_beat = _Steady("aw"), _Steady("w")
        while True:
            if due and due[0] <= cycle and self._open():
                due.popleft()
                shown = bursts.popleft()
                self._apply(shown, beats)
                ctx.set(b.payload, {"id": shown.id})
            ctx.set(b.valid, shown is not None)
            address_ready, beat_ready = self._open(), self._open() and not self.held
            ctx.set(aw.ready, address_ready)
            ctx.set(w.ready, beat_ready)
            _, _, address_valid, address, beat_valid, beat, taken = await ctx.tick().sample(
                aw.valid, aw.payload, w.valid, w.payload, b.ready
            )
            steady_address.check(address_valid, address_ready, address.as_bits())
            steady_beat.check(beat_valid, beat_ready, beat.as_bits())
            if address_valid and address_ready:
                bursts.append(address)
            if beat_valid and beat_ready:
                assert beat.strb == (1 << self._width) - 1, "a masked beat"
                beats.append(beat)
                self.beats.append(cycle)
            if shown is not None:
                assert taken, "a response of memory must be taken at once"
                shown = None
            # All that are whole get their time.
            whole = sum(burst.len + 1 for burst in list(bursts)[: len(due) + 1])
            if len(bursts) > len(due) and len(beats) >= whole:
                due.append(self._due(cycle))
            cycle += 1

    def _apply(self, burst, beats):
        for index in range(burst.len + 1):
            beat = beats.popleft()
            assert beat.last == (index == burst.len)
            start = burst.addr + index * self._width
            self.contents[start : start + self._width] = beat.data.to_bytes(self._width, "little")


class Rows(Initiator):
    """An initiator that writes rows as STORE does: only the ends may lack strobes.

    `writes` are (address, bytes).
    """

    def __init__(self, dut, contents, *, rows=(), **options):
        width = dut.axi_read.signature.bus_bits // 8
        self._rows = deque(rows)
        bursts = [
            (start // width * width, (start % width + size + width - 1) // width)
            for start, size in rows
        ]
        super().__init__(dut, contents, writes=bursts, **options)

    def _beat(self, burst, index):
        start, size = self._rows[0]
        if index == burst.beats - 1:
            self._rows.popleft()
        place = burst.address + index * self._width
        value = self._random.getrandbits(8 * self._width)
        strobes = 0
        for byte in range(self._width):
            if start <= place + byte < start + size:
                strobes |= 1 << byte
                self.contents[place + byte] = value >> 8 * byte & 255
        return {"data": value, "strb": strobes, "last": index == burst.beats - 1}


def bench_of(bus_bits, initiator, *, span=4096, latency=12, memory_stall=0.0, pace=1, **options):
    """Return the unit, its initiator and its memory."""
    dut = cached_unit(Merge, bus_bits)
    contents = random.Random(3).randbytes(span)
    memory = Memory(
        dut, contents, latency=latency, pace=pace, stall=memory_stall, seed=options.get("seed", 0)
    )
    return dut, initiator(dut, bytearray(contents), **options), memory


def run(dut, initiator, memory, limit):
    background = [initiator.count, *memory.benches]
    cycles = simulate(dut, *initiator.benches, cycles=limit, background=background)
    assert memory.contents == initiator.contents
    return cycles


def bursts_at_random(chance, count, width, span):
    """Return bursts of up to 40 beats anywhere, most of them short."""
    found = []
    for _ in range(count):
        beats = min(chance.choice((1, 1, 2, 3, 5, 16, chance.randrange(1, 40))), span // width)
        found.append((chance.randrange(span // width - beats + 1) * width, beats))
    return found


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("bus_bits", [32, 64, 128])
@pytest.mark.parametrize(
    ("stall", "memory_stall", "latency"), [(0, 0, 12), (0.5, 0, 3), (0, 0.5, 12), (0.4, 0.4, 30)]
)
def test_random_strobes(bus_bits, stall, memory_stall, latency, seed):
    """Random bursts overlap in a small memory: steady, stalled on either side, and on both."""
    chance, width = random.Random(seed), bus_bits // 8
    parts = bench_of(
        bus_bits,
        Initiator,
        span=1024,
        latency=latency,
        memory_stall=memory_stall,
        stall=stall,
        seed=seed,
        reads=bursts_at_random(chance, 30, width, 1024),
        writes=bursts_at_random(chance, 40, width, 1024),
    )
    run(*parts, 20000)


def test_rows_that_share_beats(seed):
    """Each row begins in the last beat of the row before it, or of an earlier one."""
    rows, place = [], 3
    for size in (1, 2, 5, 9, 3, 14, 1, 1, 6, 30, 7):
        rows.append((place, size))
        place += size
    chance = random.Random(seed)
    rows += [(chance.randrange(90), chance.randrange(1, 12)) for _ in range(60)]
    run(*bench_of(32, Rows, span=128, rows=rows), 10000)


def test_whole_beats_pass_at_full_rate():
    """One beat per cycle over all bursts, 4 cycles after the first; nothing is read."""
    rows = [(64 * index, 64) for index in range(32)]
    dut, initiator, memory = bench_of(32, Rows, rows=rows)
    taken = []

    async def watch(ctx):
        w, cycle = dut.axi_write.w, 0
        while True:
            _, _, valid, ready = await ctx.tick().sample(w.valid, w.ready)
            taken.extend([cycle] * (valid & ready))
            cycle += 1

    memory.benches.append(watch)
    run(dut, initiator, memory, 2000)
    assert memory.addresses == []
    assert memory.beats[0] - taken[0] == 4
    assert memory.beats[-1] - memory.beats[0] == 32 * 16 - 1


@pytest.mark.parametrize("latency", [4, 16, 28])
def test_rows_do_not_wait_for_each_others_reads(latency):
    """Each partial end of a row takes 2 cycles more; the read latency is paid once for all rows."""
    # 13 bytes from byte 2 of a beat on: 4 beats, of which the first and the last lack strobes.
    rows = [(2 + 32 * index, 13) for index in range(40)]
    dut, initiator, memory = bench_of(32, Rows, rows=rows, latency=latency, outstanding=8)
    run(dut, initiator, memory, 4000)
    assert len(memory.addresses) == 80
    assert all(size == 1 for _, size in memory.addresses)
    # 4 beats, twice 2 cycles, and a cycle for the next burst to begin after a beat in part.
    steady = memory.beats[-1] - memory.beats[4 * 8]
    assert steady <= 31 * 9 + 28


def test_a_row_waits_for_a_row_with_the_same_beat():
    """A shared beat is read once the first row's response has come; other rows do not wait."""
    rows = [(0, 6), (6, 4), (64, 3)]
    dut, initiator, memory = bench_of(32, Rows, rows=rows, latency=20)
    run(dut, initiator, memory, 400)
    assert memory.addresses == [(4, 1), (4, 1), (8, 1), (64, 1)]
    assert memory.asked[1] - memory.asked[0] > 2 * 20
    assert memory.asked[3] - memory.asked[1] < 20


def test_a_slow_reader_stops_no_writer():
    """An initiator that accepts reads only after its write responses gets both.

    It requests more beats than there is room for.
    """
    dut, initiator, memory = bench_of(
        32,
        Rows,
        rows=[(3 + 16 * index, 9) for index in range(20)],
        reads=[(1024 + 64 * index, 16) for index in range(48)],
        outstanding=48,
    )
    receive, respond = initiator.receive, initiator.respond
    over = []

    async def respond_first(ctx):
        await respond(ctx)
        over.append(True)

    async def receive_later(ctx):
        while not over:
            await ctx.tick()
        await receive(ctx)

    initiator.benches = [initiator.ask_reads, initiator.ask_writes, initiator.send]
    initiator.benches += [respond_first, receive_later]
    run(dut, initiator, memory, 4000)


def test_waiting_responses_block_only_when_full():
    """Eight bursts that share a beat are written although no response is accepted."""
    dut, initiator, memory = bench_of(32, Rows, rows=[(1, 2)] * 20, outstanding=20)
    respond = initiator.respond

    async def respond_later(ctx):
        while len(memory.beats) < 8:
            await ctx.tick()
        # No other has a place for its response.
        await ctx.tick().repeat(400)
        assert len(memory.beats) == 8
        await respond(ctx)

    initiator.benches[-1] = respond_later
    run(dut, initiator, memory, 2000)


def test_beats_that_were_read_have_their_places():
    """Memory stalls writes: of 16 beats to merge, 9 are read at first.

    There are 8 places, and the first beat is complete and waits for memory.
    """
    rows = [(2 + 32 * index, 13) for index in range(8)]
    dut, initiator, memory = bench_of(32, Rows, rows=rows)
    memory.held = True

    async def release(ctx):
        await ctx.tick().repeat(400)
        assert len(memory.addresses) == 8 + 1
        memory.held = False

    memory.benches.append(release)
    run(dut, initiator, memory, 2000)
    assert len(memory.addresses) == 16


def test_sixteen_reads_are_in_flight():
    """A memory that answers late has 16 addresses before its first beat."""
    reads = [(8 * index, 1) for index in range(40)]
    dut, initiator, memory = bench_of(32, Initiator, reads=reads, outstanding=40, latency=200)
    asked = []

    async def watch(ctx):
        await ctx.tick().until(dut.memory_read.r.valid)
        asked.append(len(memory.addresses))

    memory.benches.append(watch)
    run(dut, initiator, memory, 2000)
    assert asked == [16]


def test_reads_of_both_take_turns():
    """An initiator that always reads does not block the reads of beats."""
    dut, initiator, memory = bench_of(
        32,
        Rows,
        rows=[(2048 + 16 * index + 1, 2) for index in range(20)],
        reads=[(4 * index, 1) for index in range(200)],
        outstanding=16,
        latency=2,
    )
    run(dut, initiator, memory, 4000)
    own = [index for index, (place, _) in enumerate(memory.addresses) if place >= 2048]
    assert len(own) == 20
    # Among the first 120 addresses, with up to 5 of the initiator's between two.
    assert max(own) < 120


def test_partial_beats_do_not_starve_reads():
    """Reads proceed though all beats are partial and memory accepts an address every six cycles."""
    dut, initiator, memory = bench_of(
        32,
        Rows,
        rows=[(2048 + 8 * index + 1, 2) for index in range(60)],
        reads=[(4 * index, 1) for index in range(20)],
        outstanding=8,
        latency=2,
        pace=6,
    )
    run(dut, initiator, memory, 4000)
    others = [index for index, (place, _) in enumerate(memory.addresses) if place < 2048]
    assert len(others) == 20
    assert max(others) <= 45


def test_latency_of_a_read():
    """A read takes memory's latency, one cycle to memory, and three cycles back."""
    dut, initiator, memory = bench_of(32, Initiator, reads=[(64, 1)], latency=10)
    asked = []

    async def watch(ctx):
        ar, r, cycle = dut.axi_read.ar, dut.axi_read.r, 0
        while True:
            _, _, address, beat = await ctx.tick().sample(ar.valid & ar.ready, r.valid)
            asked.extend([cycle] * (address + beat))
            cycle += 1

    memory.benches.append(watch)
    run(dut, initiator, memory, 100)
    assert asked[1] - asked[0] == 10 + 1 + 3


def test_a_reset_midway_leaves_nothing(seed):
    chance = random.Random(seed)
    for when in (5, 17, chance.randrange(20, 90)):
        dut, initiator, memory = bench_of(
            32,
            Initiator,
            span=512,
            reads=bursts_at_random(chance, 10, 4, 512),
            writes=bursts_at_random(chance, 10, 4, 512),
        )
        reset = Signal()
        started = []

        async def disturb(ctx, when=when, dut=dut, reset=reset, started=started):
            channels = (dut.axi_read.ar, dut.axi_write.aw, dut.axi_write.w)
            memory_side = (dut.memory_read.ar, dut.memory_write.aw, dut.memory_write.w)
            for channel in channels:
                ctx.set(channel.valid, 1)
            ctx.set(dut.axi_write.aw.payload.len, 3)
            ctx.set(dut.axi_write.w.payload.strb, 5)
            for channel in memory_side:
                ctx.set(channel.ready, when % 2)
            await ctx.tick().repeat(when)
            for channel in channels:
                ctx.set(channel.valid, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            started.append(when)

        def later(bench, started=started):
            async def wait(ctx):
                while not started:
                    await ctx.tick()
                await bench(ctx)

            return wait

        initiator.benches = [disturb, *map(later, initiator.benches)]
        memory.benches = [*map(later, memory.benches)]
        run(ResetInserter(reset)(dut), initiator, memory, 4000)


class Merged(wiring.Component):
    """Merge and a controller, or the controller alone."""

    def __init__(self, part, timing, bus_bits, *, merge=True):
        self._merge = Merge(bus_bits) if merge else None
        self.controller = SdramController(
            part, clock_hz=62_500_000, bus_bits=bus_bits, burst_beats=16, timing=timing
        )
        super().__init__(
            {
                "axi_read": In(AxiReadSignature(bus_bits)),
                "axi_write": In(AxiWriteSignature(bus_bits)),
                "pins": Out(SdramPinsSignature(part)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller = bus = self.controller
        connect(m, flipped(self.pins), bus.pins)
        if self._merge is not None:
            m.submodules.merge = merge = self._merge
            connect(m, merge.memory_read, bus.axi_read)
            connect(m, merge.memory_write, bus.axi_write)
            bus = merge
        connect(m, flipped(self.axi_read), bus.axi_read)
        connect(m, flipped(self.axi_write), bus.axi_write)
        return m


def on_the_model(bus_bits, seed, *, merge=True, stall=0.0, reads=20, written=True):
    """Run random traffic on two chips side by side without masks; return model and contents."""
    part = load_sdram("2 x M12L16161A")
    timing = dataclasses.replace(part.timing(62_500_000), power_up=300)
    dut = cached_unit(Merged, part, timing, bus_bits, merge=merge)
    sdram = Sdram(part, timing, refuse_unwritten=True, maskless=True)
    contents = bytearray(random.Random(9).randbytes(4096))
    if written:
        sdram.write(0, bytes(contents))
    chance, width = random.Random(seed), bus_bits // 8
    initiator = Initiator(
        dut,
        contents,
        reads=bursts_at_random(chance, reads, width, 4096),
        writes=bursts_at_random(chance, 40, width, 4096),
        stall=stall,
        seed=seed,
    )
    background = [initiator.count, sdram.attach(dut.pins)]
    simulate(dut, *initiator.benches, cycles=20000, background=background)
    return sdram, bytes(contents)


@pytest.mark.slow
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("bus_bits", [32, 64])
@pytest.mark.parametrize("stall", [0, 0.4])
def test_with_the_controller_on_the_model(bus_bits, stall, seed):
    sdram, contents = on_the_model(bus_bits, seed, stall=stall)
    assert sdram.breach == "none"
    assert sdram.read(0, len(contents)) == contents


def test_the_model_notices_a_masked_write():
    """Without Merge, the mask is high where the board ties it low."""
    sdram, contents = on_the_model(32, 5, merge=False, reads=0)
    assert sdram.breach == "mask"
    assert sdram.read(0, len(contents)) != contents


def test_the_model_notices_reads_of_unwritten_bytes():
    """A partial beat in unwritten memory: the rest of it is noise, and reported."""
    sdram, _ = on_the_model(32, 5, reads=0, written=False)
    assert sdram.breach == "unwritten"
