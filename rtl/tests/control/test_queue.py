"""UnitQueue: order, gates, numbers that wrap, cycles, stalls, reset midway."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import UNITS, Opcode
from matloom_rtl.control.layouts import count_bits, place_bits
from matloom_rtl.control.queue import UnitQueue
from matloom_rtl.testing import simulate

CONFIG = PRESETS["small"]
NUMBERS = 1 << count_bits(CONFIG)


class Bench:
    """A queue and a memory that behaves like `InstructionMemory`."""

    def __init__(self, opcode, *, gated=True, seed=0, busy=0.0):
        self.dut = UnitQueue(CONFIG, opcode, gated=gated)
        self.opcode, self._chance, self._busy = opcode, random.Random(seed), busy
        self._kept, self._place = {}, 0

    def entry(self, fields, targets):
        """Store an instruction that waits for `targets` (None: nothing); return its place."""
        self._place = (self._place + 1) % (1 << place_bits(CONFIG))
        notes = {
            "waits": sum(1 << index for index, each in enumerate(targets) if each is not None),
            "targets": [(target or 0) % NUMBERS for target in targets],
        }
        self._kept[self._place] = (pack(Instruction(self.opcode, fields)), notes)
        return self._place

    async def memory(self, ctx):
        dut = self.dut
        while True:
            while not ctx.get(dut.asks) or self._chance.random() < self._busy:
                await ctx.tick()
            data, notes = self._kept[ctx.get(dut.place)]
            await ctx.tick()
            ctx.set(dut.brings, 1)
            for index in reversed(range(len(data) // 16)):
                ctx.set(dut.index, index)
                ctx.set(dut.word, int.from_bytes(data[16 * index : 16 * index + 16], "little"))
                # Nothing is noted but with the last word.
                ctx.set(dut.notes, notes if index == len(data) // 16 - 1 else {"waits": 15})
                await ctx.tick()
            ctx.set(dut.brings, 0)

    async def put(self, ctx, fields, targets, *, checked=0):
        """Add an instruction; its check passes after `checked` cycles, or never with None."""
        dut = self.dut
        ctx.set(dut.i.payload, self.entry(fields, targets))
        ctx.set(dut.i.valid, 1)
        await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)
        if checked is not None:
            for _cycle in range(checked):
                await ctx.tick()
            ctx.set(dut.issued, 1)
            await ctx.tick()
            ctx.set(dut.issued, 0)

    def simulate(self, *benches, cycles, background=(), reset=None):
        top = self.dut if reset is None else ResetInserter(reset)(self.dut)
        simulate(top, *benches, cycles=cycles, background=[self.memory, *background])


def reached(completed, targets):
    pairs = zip(completed, targets, strict=True)
    return [target is None or count > target for count, target in pairs]


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(("gaps", "stalls"), [(0, 0), (0.6, 0), (0, 0.6), (0.4, 0.4)])
@pytest.mark.parametrize("start", [0, NUMBERS - 40])
def test_instructions_leave_in_order_when_their_targets_are_reached(seed, start, gaps, stalls):
    bench, chance = Bench(Opcode.LOAD, seed=seed, busy=stalls), random.Random(seed)
    dut = bench.dut
    completed = [start] * len(UNITS)
    wanted = []
    for number in range(80):
        targets = [chance.choice((None, start + number)) for _unit in UNITS]
        wanted.append((number, targets))

    async def feed(ctx):
        for number, targets in wanted:
            while chance.random() < gaps:
                await ctx.tick()
            checked = chance.choice((0, 3, 20)) if gaps else 0
            await bench.put(ctx, {"spad_addr": number}, targets, checked=checked)

    async def complete(ctx):
        while True:
            unit = chance.randrange(len(UNITS))
            # No unit is far ahead of what has been issued.
            if completed[unit] < start + 80:
                completed[unit] += 1
            ctx.set(dut.completed[unit], completed[unit] % NUMBERS)
            await ctx.tick()

    async def take(ctx):
        ctx.set(dut.completed, [start % NUMBERS] * len(UNITS))
        for number, targets in wanted:
            while chance.random() < stalls:
                await ctx.tick()
            ctx.set(dut.o.ready, 1)
            _clk, _rst, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            while not valid:
                _clk, _rst, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            ctx.set(dut.o.ready, 0)
            assert payload.spad_addr == number
            assert all(reached(completed, targets))

    bench.simulate(feed, take, cycles=6000, background=[complete])


def test_head_of_an_ungated_queue_is_shown_with_what_is_met():
    bench = Bench(Opcode.EXEC, gated=False)
    dut, targets = bench.dut, [4, None, 6, 8]

    async def main(ctx):
        await bench.put(ctx, {"weight_addr": 77, "oc_step": 5}, targets)
        await ctx.tick().repeat(5)
        for completed in ([0, 0, 0, 0], [4, 9, 7, 8], [5, 9, 7, 8], [5, 9, 7, 9]):
            ctx.set(dut.completed, completed)
            await ctx.tick().repeat(2)
            assert ctx.get(dut.o.valid)
            assert ctx.get(dut.o.payload.weight_addr) == 77
            assert ctx.get(dut.o.payload.oc_step) == 5
            met = [bool(ctx.get(dut.met) >> index & 1) for index in range(len(UNITS))]
            assert met == reached(completed, targets)
        assert all(met)

    bench.simulate(main, cycles=100)


@pytest.mark.parametrize("gated", [True, False])
def test_unissued_instructions_are_not_shown(gated):
    """The queue shows an issued instruction, but not the unissued one behind it."""
    bench = Bench(Opcode.LOAD, gated=gated)
    dut, free = bench.dut, (None,) * 4

    async def main(ctx):
        await bench.put(ctx, {"spad_addr": 1}, free, checked=None)
        for _cycle in range(20):
            await ctx.tick()
            assert not ctx.get(dut.o.valid)
            assert ctx.get(dut.met) == 0
        ctx.set(dut.issued, 1)
        await ctx.tick()
        ctx.set(dut.issued, 0)
        # It was read meanwhile.
        await ctx.tick()
        assert ctx.get(dut.o.valid)
        await bench.put(ctx, {"spad_addr": 2}, free, checked=None)
        await ctx.tick().repeat(5)
        assert ctx.get(dut.o.payload.spad_addr) == 1
        ctx.set(dut.o.ready, 1)
        await ctx.tick().until(dut.o.valid)
        for _cycle in range(20):
            await ctx.tick()
            assert not ctx.get(dut.o.valid)

    bench.simulate(main, cycles=100)


@pytest.mark.parametrize(("opcode", "words"), [(Opcode.STORE, 2), (Opcode.POST, 3)])
def test_depth_and_cycles(opcode, words):
    bench = Bench(opcode)
    dut, field = bench.dut, {Opcode.STORE: "spad_addr", Opcode.POST: "dest_addr"}[opcode]

    async def main(ctx):
        taken = 0
        for number in range(10):
            if not ctx.get(dut.i.ready):
                break
            await bench.put(ctx, {field: number}, (None,) * 4, checked=10)
            taken += 1
        assert taken == CONFIG.queue_depth
        ctx.set(dut.o.ready, 1)
        shown, pause = [], 3 + words
        while len(shown) < pause * CONFIG.queue_depth:
            shown.append((ctx.get(dut.o.valid), ctx.get(dut.o.payload[field])))
            await ctx.tick()
        assert shown[::pause] == [(1, number) for number in range(CONFIG.queue_depth)]
        assert sum(valid for valid, _number in shown) == CONFIG.queue_depth
        await ctx.tick()
        assert not ctx.get(dut.o.valid)

    bench.simulate(main, cycles=200)


def test_a_met_dependency_stays_met():
    """A dependency stays met while the count of its unit wraps and another unit is awaited."""
    bench = Bench(Opcode.STORE)
    dut = bench.dut

    async def main(ctx):
        await bench.put(ctx, {"spad_addr": 5}, (0, None, 0, None), checked=10)
        for completed in range(1, NUMBERS + 10):
            assert not ctx.get(dut.o.valid)
            ctx.set(dut.completed[0], completed % NUMBERS)
            await ctx.tick()
        assert ctx.get(dut.met) == 0b1011
        ctx.set(dut.completed[2], 1)
        await ctx.tick()
        assert ctx.get(dut.o.valid)
        assert ctx.get(dut.o.payload.spad_addr) == 5

    bench.simulate(main, cycles=NUMBERS + 100)


@pytest.mark.parametrize("checked", [0, 10, None])
def test_reset_midway_empties_it(checked):
    bench = Bench(Opcode.LOAD)
    reset = Signal()
    dut = bench.dut

    async def main(ctx):
        for _number in range(3):
            await bench.put(ctx, {}, (None,) * 4, checked=10)
        ctx.set(dut.o.ready, 1)
        await ctx.tick().until(dut.o.valid)
        ctx.set(dut.o.ready, 0)
        await bench.put(ctx, {}, (None,) * 4, checked=checked)
        # The memory is reset with it, and brings nothing more.
        await ctx.tick().until(~dut.brings)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        assert not ctx.get(dut.o.valid)
        await bench.put(ctx, {"spad_addr": 9}, (0, None, None, None))
        for _cycle in range(10):
            await ctx.tick()
            assert not ctx.get(dut.o.valid)
        ctx.set(dut.completed[0], 1)
        ctx.set(dut.o.ready, 1)
        (payload,) = await ctx.tick().sample(dut.o.payload).until(dut.o.valid)
        assert payload.spad_addr == 9

    bench.simulate(main, cycles=300, reset=reset)
