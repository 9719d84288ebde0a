"""Control between registers and simulated units: runs, gates, faults, watchdog, reset, marks."""

import dataclasses
import random

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.csr import COUNTERS, EXEC_CAUSES, TIMESTAMPS_OFFSET, Fault, register
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import UNITS, Opcode, Region, fields_of
from matloom.verification.random_programs import random_stream
from matloom_rtl.control.control import Control
from matloom_rtl.testing import cached_unit, simulate

CONFIG = PRESETS["nano"]
END = Instruction(Opcode.END)
ROW = {"row_bytes": 4, "rows": 1, "planes": 1}
PROGRAM_BASE, COMMAND_OFFSET = 0x1000, 0x20
START, RESET = 1, 2
BUSY, DONE, FAULT, RESETTING = 1, 2, 4, 8


class Unit:
    """Takes instructions in order, several at a time, and completes them after random times."""

    def __init__(self, bench, opcode, seed, longest):
        self.opcode, self.taken, self.completed, self.timestamps = opcode, [], 0, []
        self._bench, self._random = bench, random.Random(seed)
        self._longest = longest

    async def run(self, ctx):
        port = getattr(self._bench.dut, self.opcode.name.lower())
        exec_met = self._bench.dut.exec_met
        left, timestamp, starts = [], [], 0
        while True:
            may_take = len(left) < 2
            if self.opcode is Opcode.EXEC:
                may_take &= ctx.get(exec_met) == 15
            done = bool(left) and left[0] == 0
            ctx.set(port.command.ready, may_take)
            ctx.set(port.busy, bool(left))
            ctx.set(port.done, done)
            ctx.set(port.done_mark, timestamp[0] if done else self._random.randrange(256))
            _clk, _reset, valid, payload, halted = await ctx.tick().sample(
                port.command.valid, port.command.payload, self._bench.dut.core_reset
            )
            if halted:
                left, timestamp, starts = [], [], self._bench.starts + 1
                continue
            assert not valid or self._bench.starts >= starts, "an instruction from before the reset"
            left = [max(0, time - 1) for time in left]
            if done:
                left.pop(0)
                self.timestamps.append((self._bench.cycle, timestamp.pop(0)))
                self.completed += 1
            if valid and may_take:
                self._bench.check_start(self, payload)
                left.append(self._longest and self._random.randrange(1, self._longest))
                timestamp.append(payload.timestamp)


class Bench:
    """Control with a command memory, simulated units, and a bus initiator."""

    CONFIG = CONFIG

    def __init__(self, instructions=(), *, data=None, seed=0, longest=40, quiet=True, stall=0.0):
        self.dut, self.cycle, self.starts = cached_unit(Control, self.CONFIG), 0, 0
        self.data = b"".join(map(pack, instructions)) if data is None else data
        self.units = {
            opcode: Unit(self, opcode, seed + number, longest)
            for number, opcode in enumerate(UNITS)
        }
        self.restart(instructions)
        self._random, self._quiet, self._stall = random.Random(seed), quiet, stall

    def restart(self, instructions):
        self.instructions = [each for each in instructions if each.opcode is not Opcode.END]
        for unit in self.units.values():
            unit.taken, unit.completed, unit.timestamps = [], 0, []
        self.begun = None

    def check_start(self, unit, payload):
        """Check that an instruction is the next of its unit, and its waits are met."""
        mine = [index for index, each in enumerate(self.instructions) if each.opcode == unit.opcode]
        index = mine[len(unit.taken)]
        unit.taken.append(index)
        instruction = self.instructions[index]
        for item in fields_of(unit.opcode, CONFIG):
            assert payload[item.name] == getattr(instruction, item.name), item.name
        for other in UNITS:
            wait = getattr(instruction, f"wait_{other.name.lower()}")
            issued = sum(each.opcode is other for each in self.instructions[:index])
            if wait:
                assert self.units[other].completed >= issued - wait + 1, (index, other)

    async def clock(self, ctx):
        while True:
            await ctx.tick()
            self.cycle += 1

    async def fetch(self, ctx):
        dut, place, end = self.dut, 0, 0
        ctx.set(dut.exec_cause, 1)
        while True:
            valid = place < end and self._random.random() >= self._stall
            ctx.set(dut.instruction_words.valid, valid)
            at = place - PROGRAM_BASE - COMMAND_OFFSET
            ctx.set(
                dut.instruction_words.payload, int.from_bytes(self.data[at : at + 16], "little")
            )
            ctx.set(dut.exhausted, place >= end)
            _clk, _rst, ready, start, address, size, reset = await ctx.tick().sample(
                dut.instruction_words.ready,
                dut.fetch_start,
                dut.fetch_address,
                dut.fetch_bytes,
                dut.core_reset,
            )
            if valid and ready:
                place += 16
            if start:
                place, end = address, address + size
                self.begun = self.cycle
                self.starts += 1
            if reset:
                place = end = 0

    async def write(self, ctx, name, value, strb=15):
        offset = name if isinstance(name, int) else register(name).offset
        bus = self.dut.axi_lite
        ctx.set(bus.aw.payload, offset)
        ctx.set(bus.w.payload, {"data": value, "strb": strb})
        ctx.set(bus.aw.valid, 1)
        ctx.set(bus.w.valid, 1)
        await ctx.tick().until(bus.aw.ready & bus.w.ready)
        ctx.set(bus.aw.valid, 0)
        ctx.set(bus.w.valid, 0)
        ctx.set(bus.b.ready, 1)
        (response,) = await ctx.tick().sample(bus.b.payload).until(bus.b.valid)
        ctx.set(bus.b.ready, 0)
        return response

    async def read(self, ctx, name):
        offset = name if isinstance(name, int) else register(name).offset
        bus = self.dut.axi_lite
        ctx.set(bus.ar.payload, offset)
        ctx.set(bus.ar.valid, 1)
        await ctx.tick().until(bus.ar.ready)
        ctx.set(bus.ar.valid, 0)
        ctx.set(bus.r.ready, 1)
        (answer,) = await ctx.tick().sample(bus.r.payload).until(bus.r.valid)
        ctx.set(bus.r.ready, 0)
        assert answer.resp == 0, name
        return answer.data

    async def start(self, ctx, **registers):
        settings = {
            "PROGRAM_BASE": PROGRAM_BASE,
            "COMMAND_OFFSET": COMMAND_OFFSET,
            "COMMAND_BYTES": len(self.data),
            "IRQ_ENABLE": 3,
            **{f"{region.name}_BYTES": 8192 for region in Region},
        }
        ctx.set(self.dut.quiet, self._quiet)
        for name, value in (settings | registers).items():
            await self.write(ctx, name, value)
        await self.write(ctx, "CONTROL", START)

    async def finish(self, ctx):
        await ctx.tick().until(self.dut.irq)
        return await self.read(ctx, "STATUS")

    async def fault(self, ctx):
        word = await self.read(ctx, "FAULT")
        bits = {item.name: (word & item.mask) >> item.shift for item in register("FAULT").fields}
        index, address = await self.read(ctx, "FAULT_INDEX"), await self.read(ctx, "FAULT_ADDRESS")
        return Fault(bits["cause"]), bits["unit"], bits["opcode"], index, address

    def run(self, *benches, cycles=20000):
        background = [self.clock, self.fetch, *(unit.run for unit in self.units.values())]
        return simulate(self.dut, *benches, cycles=cycles, background=background)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stall", "longest"),
    [
        pytest.param(0.0, 0, marks=pytest.mark.slow),
        (0.5, 3),
        pytest.param(0.0, 60, marks=pytest.mark.slow),
        pytest.param(0.7, 200, marks=pytest.mark.slow),
    ],
)
def test_random_streams_run_in_order_after_their_waits(seed, stall, longest):
    stream = random_stream(seed, CONFIG, length=25)
    bench = Bench(stream.instructions, seed=seed, stall=stall, longest=longest)

    async def main(ctx):
        for _run in range(2):
            bench.restart(stream.instructions)
            await bench.write(ctx, "IRQ_STATUS", 3)
            await bench.start(ctx)
            assert await bench.finish(ctx) == DONE
            assert await bench.read(ctx, "IRQ_STATUS") == 1
            assert await bench.read(ctx, "INSTRUCTIONS") == len(stream.instructions)
            taken = sorted(index for unit in bench.units.values() for index in unit.taken)
            assert taken == list(range(len(bench.instructions)))
            await check_counters(ctx)
            await check_marks(ctx)

    async def check_counters(ctx):
        values = {name: await bench.read(ctx, name.upper()) for name, _doc in COUNTERS}
        assert values["cycles"] == sum(values[name] for name, _doc in EXEC_CAUSES)
        busy = max(values[f"{unit}_busy"] for unit in ("load", "post", "store"))
        assert longest == 0 or 0 < busy < values["cycles"]

    async def check_marks(ctx):
        last, lost = {}, set()
        for unit in bench.units.values():
            marked = [(cycle, timestamp) for cycle, timestamp in unit.timestamps if timestamp]
            for number, (cycle, timestamp) in enumerate(marked):
                last[timestamp] = max(cycle, last.get(timestamp, 0))
                # While the table is cleared, and in four cycles else, the next takes its place.
                waits = max(cycle + 4, bench.begun + CONFIG.timestamps + 4)
                if number + 1 < len(marked) and marked[number + 1][0] <= waits:
                    lost.add(timestamp)
        offset = None
        for slot in sorted(set(range(1, CONFIG.timestamps)) - lost):
            cycle = await bench.read(ctx, TIMESTAMPS_OFFSET + 4 * slot)
            assert (cycle != 0) == (slot in last), slot
            if slot in last:
                # The same number of cycles from start for all, give or take none.
                offset = last[slot] - cycle if offset is None else offset
                assert last[slot] - cycle == offset

    bench.run(main, cycles=60000)


def test_start_while_busy_is_ignored_and_registers_keep_their_values():
    bench = Bench([Instruction(Opcode.LOAD, ROW), END], longest=300)

    async def main(ctx):
        await bench.start(ctx)
        begun = bench.begun
        await bench.write(ctx, "CONTROL", START)
        assert await bench.read(ctx, "STATUS") == BUSY
        assert await bench.finish(ctx) == DONE
        assert bench.begun == begun or begun is None
        assert await bench.read(ctx, "PROGRAM_BASE") == PROGRAM_BASE
        await bench.write(ctx, "IRQ_STATUS", 1)
        assert not ctx.get(bench.dut.irq)
        assert await bench.read(ctx, "STATUS") == DONE

    bench.run(main)


GOOD = Instruction(Opcode.LOAD, ROW)
FAULTS = [
    ([GOOD, GOOD], (Fault.COMMAND_RANGE, 0, 0, 2, 0)),
    ([GOOD, Instruction(Opcode.STORE, ROW)], (Fault.READ_ONLY_REGION, 0, 4, 1, 0)),
    ([Instruction(Opcode.LOAD, {**ROW, "wait_exec": 1})], (Fault.DEPENDENCY, 0, 1, 0, 0)),
    (
        [GOOD, GOOD, Instruction(Opcode.LOAD, {**ROW, "spad_addr": CONFIG.spad_bytes - 1})],
        (Fault.SPAD_RANGE, 0, 1, 2, CONFIG.spad_bytes + 3),
    ),
    (
        [GOOD, GOOD, Instruction(Opcode.LOAD, {**ROW, "spad_addr": CONFIG.spad_bytes})],
        (Fault.ILLEGAL_FIELD, 0, 1, 2, 0),
    ),
    (
        [Instruction(Opcode.LOAD, {**ROW, "dram_offset": 2**32 - 2}), END],
        (Fault.DRAM_RANGE, 0, 1, 0, 2),
    ),
]


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(("instructions", "record"), FAULTS)
def test_bad_instruction_stops_with_a_record_and_a_reset_heals(instructions, record):
    bench = Bench([*instructions, END] if record[0] is not Fault.COMMAND_RANGE else instructions)

    async def main(ctx):
        await bench.start(ctx)
        assert await bench.finish(ctx) == FAULT
        assert await bench.read(ctx, "IRQ_STATUS") == 2
        found = await bench.fault(ctx)
        assert found[:4] == record[:4]
        assert record[4] == 0 or found[4] == record[4]
        assert ctx.get(bench.dut.halt)
        await bench.write(ctx, "CONTROL", START)
        assert await bench.read(ctx, "STATUS") == FAULT
        await bench.write(ctx, "CONTROL", RESET)
        await ctx.tick()
        assert await bench.read(ctx, "STATUS") == 0
        assert await bench.fault(ctx) == (Fault.NONE, 0, 0, 0, 0)
        await bench.write(ctx, "IRQ_STATUS", 3)
        bench.data = pack(GOOD) + pack(END)
        bench.restart([GOOD])
        await bench.start(ctx)
        assert await bench.finish(ctx) == DONE

    bench.run(main)


@pytest.mark.parametrize(
    ("ports", "record"),
    [
        (("load",), (Fault.AXI_READ, 1, 1, 3)),
        (("store",), (Fault.AXI_WRITE, 4, 4, 0)),
        (("store", "load"), (Fault.AXI_READ, 1, 1, 3)),
        (("fetch",), (Fault.AXI_READ, 0, 0, 4)),
    ],
)
def test_bus_faults(ports, record):
    bench = Bench([GOOD] * 4 + [END], longest=2000)
    bench.units[Opcode.LOAD]._longest = 0

    async def main(ctx):
        await bench.start(ctx)
        while bench.units[Opcode.LOAD].completed < 3:
            await ctx.tick()
        for number, name in enumerate(ports):
            port = getattr(bench.dut, f"{name}_fault")
            cause = Fault.AXI_WRITE if name == "store" else Fault.AXI_READ
            ctx.set(port.valid, 1)
            ctx.set(port.cause, cause)
            ctx.set(port.address, 0x1234 + number)
        await ctx.tick()
        for name in ports:
            ctx.set(getattr(bench.dut, f"{name}_fault").valid, 0)
        assert await bench.finish(ctx) == FAULT
        cause, unit, opcode, _index, address = await bench.fault(ctx)
        assert (cause, unit, opcode) == record[:3]
        assert address == 0x1234 + len(ports) - 1

    bench.run(main)


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_a_fault_of_load_counts_those_not_yet_done(ahead):
    bench = Bench([GOOD] * 8 + [END], longest=2000)
    bench.units[Opcode.LOAD]._longest = 0

    async def main(ctx):
        await bench.start(ctx)
        while (completed := bench.units[Opcode.LOAD].completed) < 3:
            await ctx.tick()
        port = bench.dut.load_fault
        ctx.set(port.valid, 1)
        ctx.set(port.cause, Fault.AXI_READ)
        ctx.set(bench.dut.load_fault_ahead, ahead)
        await ctx.tick()
        ctx.set(port.valid, 0)
        assert await bench.finish(ctx) == FAULT
        assert await bench.fault(ctx) == (Fault.AXI_READ, 1, 1, completed + ahead, 0)

    bench.run(main)


@pytest.mark.parametrize(("timeout", "status"), [(100, FAULT), (0, BUSY)])
def test_watchdog(timeout, status):
    bench = Bench([GOOD, END], longest=10**6)

    async def main(ctx):
        await bench.start(ctx, TIMEOUT=timeout)
        await ctx.tick().repeat(90)
        assert await bench.read(ctx, "STATUS") == BUSY
        await ctx.tick().repeat(100)
        assert await bench.read(ctx, "STATUS") == status
        if status == FAULT:
            assert (await bench.fault(ctx))[:3] == (Fault.TIMEOUT, 1, 1)

    bench.run(main)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("opcode", UNITS)
def test_progress_of_any_unit_keeps_the_watchdog_quiet(opcode):
    """LOAD never completes; the fault comes exactly 100 cycles after the last progress."""
    bench = Bench([GOOD, END], longest=10**6)

    async def main(ctx):
        await bench.start(ctx, TIMEOUT=100)
        progress = getattr(bench.dut, opcode.name.lower()).progress
        for _time in range(6):
            await ctx.tick().repeat(70)
            ctx.set(progress, 1)
            await ctx.tick()
            ctx.set(progress, 0)
        await ctx.tick().repeat(80)
        assert await bench.read(ctx, "STATUS") == BUSY
        await ctx.tick().repeat(30)
        assert await bench.read(ctx, "STATUS") == FAULT
        assert (await bench.fault(ctx))[:3] == (Fault.TIMEOUT, 1, 1)

    bench.run(main)


class LimitedBench(Bench):
    CONFIG = dataclasses.replace(CONFIG, time_limit=1)


class Times(list):
    """Replaces the random generator of a unit by a list of times."""

    def randrange(self, *bounds):
        return self.pop(0) if len(bounds) == 2 else 0


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("limit", "status"), [(30, FAULT), (2000, DONE), (0, DONE)])
def test_an_instruction_that_takes_too_long_is_named_by_its_number(limit, status):
    """The fault names the fourth LOAD, which takes 300 cycles with constant progress."""
    bench = LimitedBench([GOOD] * 6 + [END], longest=400)
    bench.units[Opcode.LOAD]._random = Times([20, 20, 20, 300, 20, 20])

    async def main(ctx):
        ctx.set(bench.dut.load.progress, 1)
        await bench.start(ctx, TIMEOUT=25, LIMIT=limit)
        assert await bench.finish(ctx) == status
        if status == FAULT:
            assert await bench.fault(ctx) == (Fault.LIMIT, 1, Opcode.LOAD, 3, 0)
            assert await bench.read(ctx, "IRQ_STATUS") == 2
            await bench.write(ctx, "CONTROL", RESET)
            await ctx.tick().repeat(4)
            assert (await bench.fault(ctx))[0] is Fault.NONE
            assert await bench.read(ctx, "STATUS") == 0
        assert await bench.read(ctx, "LIMIT") == limit

    bench.run(main)


@pytest.mark.slow
def test_reset_midway_waits_for_the_bus_and_forgets_everything(seed):
    stream = random_stream(seed, CONFIG, length=25)
    bench = Bench(stream.instructions, quiet=False, longest=100)

    async def main(ctx):
        await bench.start(ctx)
        await ctx.tick().repeat(300)
        await bench.write(ctx, "CONTROL", RESET)
        assert await bench.read(ctx, "STATUS") == RESETTING
        assert ctx.get(bench.dut.halt)
        assert not ctx.get(bench.dut.core_reset)
        await bench.write(ctx, "CONTROL", START)
        assert await bench.read(ctx, "STATUS") == RESETTING
        ctx.set(bench.dut.quiet, 1)
        await ctx.tick()
        assert await bench.read(ctx, "STATUS") == 0
        assert not ctx.get(bench.dut.halt)
        assert await bench.read(ctx, "IRQ_STATUS") == 0
        bench.restart(stream.instructions)
        bench._quiet = True
        await bench.start(ctx)
        assert await bench.finish(ctx) == DONE
        assert await bench.read(ctx, "INSTRUCTIONS") == len(stream.instructions)

    bench.run(main, cycles=60000)


@pytest.mark.parametrize(("instructions", "event"), [([END], 1), ([GOOD], 2)], ids=["end", "fault"])
def test_only_enabled_events_interrupt(instructions, event):
    bench = Bench(instructions, longest=0)

    async def main(ctx):
        await bench.start(ctx, IRQ_ENABLE=0)
        while await bench.read(ctx, "STATUS") == BUSY:
            assert not ctx.get(bench.dut.irq)
        assert await bench.read(ctx, "IRQ_STATUS") == event
        for enabled in (0, 1, 2, 3):
            await bench.write(ctx, "IRQ_ENABLE", enabled)
            assert ctx.get(bench.dut.irq) == bool(enabled & event)
        await bench.write(ctx, "IRQ_STATUS", event)
        assert not ctx.get(bench.dut.irq)

    bench.run(main, cycles=500)


def test_start_and_reset_in_one_write_is_a_reset():
    bench = Bench([GOOD, END])

    async def main(ctx):
        await bench.start(ctx)
        assert await bench.finish(ctx) == DONE
        await bench.write(ctx, "CONTROL", START | RESET)
        await ctx.tick().repeat(200)
        assert await bench.read(ctx, "STATUS") == 0

    bench.run(main)


def test_commands_end_with_their_region():
    """Words beyond the end of region PROGRAM are not fetched, so that the buffer has no END."""
    bench = Bench([GOOD, GOOD, END])

    async def main(ctx):
        await bench.start(ctx, PROGRAM_BYTES=COMMAND_OFFSET + 64)
        assert await bench.finish(ctx) == FAULT
        assert (await bench.fault(ctx))[:4] == (Fault.COMMAND_RANGE, 0, 0, 2)

    bench.run(main)


@pytest.mark.parametrize(
    ("offset", "size", "region", "fetched"),
    [
        (0x20, 48, 8192, 48),
        (0x20, 48, 0x20 + 47, 32),
        (0x20, 48, 0x20 + 48, 48),
        (0x20, 48, 0x20, 0),
        (0x20, 48, 0x1F, 0),
        (2**31, 48, 0x20, 0),
        (2**32 - 16, 2**32 - 16, 2**32 - 1, 0),
        (2**31, 2**32 - 16, 2**31, 0),
        (0, 2**32 - 16, 2**32 - 1, 2**32 - 16),
        (0, 2**32 - 1, 2**32 - 1, 0),
    ],
)
def test_nothing_is_fetched_from_beyond_the_region(offset, size, region, fetched):
    bench, seen = Bench(), []
    dut = bench.dut

    async def main(ctx):
        for name, value in (
            ("PROGRAM_BASE", PROGRAM_BASE),
            ("PROGRAM_BYTES", region),
            ("COMMAND_OFFSET", offset),
            ("COMMAND_BYTES", size),
            ("CONTROL", START),
        ):
            await bench.write(ctx, name, value)
        for _cycle in range(10):
            _clk, _rst, start, address, count = await ctx.tick().sample(
                dut.fetch_start, dut.fetch_address, dut.fetch_bytes
            )
            if start:
                seen.append((address, count))

    simulate(dut, main, cycles=200)
    assert seen == [((PROGRAM_BASE + offset) % 2**32, fetched)]


@pytest.mark.parametrize(
    ("offset", "size"),
    [
        *((COMMAND_OFFSET + low, 80) for low in (1, 2, 4, 8)),
        *((COMMAND_OFFSET, n) for n in (8, 81)),
    ],
)
def test_commands_begin_and_end_with_a_word(offset, size):
    """If offset or size are no multiple of a word, nothing is fetched, even if a word holds END."""
    bench = Bench([GOOD, GOOD, END])

    async def main(ctx):
        await bench.start(ctx, COMMAND_OFFSET=offset, COMMAND_BYTES=size)
        assert await bench.finish(ctx) == FAULT
        assert await bench.fault(ctx) == (Fault.COMMAND_RANGE, 0, 0, 0, 0)
        assert all(not unit.taken for unit in bench.units.values())

    bench.run(main)


def test_a_reset_drops_earlier_instructions():
    each = [
        Instruction(opcode, {**ROW, "region": Region.ARENA})
        for opcode in (Opcode.LOAD, Opcode.STORE)
    ]
    bench = Bench([*each] * 6 + [END], longest=10**6)

    async def main(ctx):
        await bench.start(ctx)
        await ctx.tick().repeat(400)
        await bench.write(ctx, "CONTROL", RESET)
        await ctx.tick().repeat(50)
        assert await bench.read(ctx, "STATUS") == 0

    bench.run(main)


#: One instruction of each unit that reads a memory on chip.
READERS = {
    Opcode.EXEC: {
        **{"input_rows": 1, "input_row_bytes": 8, "weights_fixed": 1, "width": 1, "height": 1},
        **{"kernel_rows": 1, "kernel_cols": 1, "blocks": 1, "oc_blocks": 1},
    },
    Opcode.POST: {
        **{"source": 1, "width": 1, "height": 1, "oc_blocks": 1, "tail": 4},
        **{"rounding": 0, "clamp_low": -128, "clamp_high": 127},
    },
    Opcode.STORE: {**ROW, "region": Region.OUTPUT},
}


class ParityBench(Bench):
    CONFIG = dataclasses.replace(CONFIG, parity=1)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("memory", "port", "unit", "bit"),
    [
        (0, "spad_wrong", Opcode.EXEC, 0),
        (0, "spad_wrong", Opcode.POST, 1),
        (0, "spad_wrong", Opcode.STORE, 2),
        (1, "acc_wrong", Opcode.EXEC, 0),
        (1, "acc_wrong", Opcode.POST, 1),
    ],
)
def test_wrong_parity_names_unit_memory_and_the_oldest_instruction(memory, port, unit, bit):
    """The fault names the unit's second instruction, which runs when the parity error is found."""
    reader = Instruction(unit, READERS[unit])
    bench = ParityBench([GOOD, GOOD, reader, reader, reader, END], longest=400)
    bench.units[Opcode.LOAD]._random = Times([20, 20])
    bench.units[unit]._random = Times([20, 300, 20])

    async def main(ctx):
        # It is ignored outside a run.
        ctx.set(getattr(bench.dut, port), 1 << bit)
        await ctx.tick().repeat(5)
        ctx.set(getattr(bench.dut, port), 0)
        await bench.start(ctx)
        while bench.units[unit].completed < 1:
            await ctx.tick()
        await ctx.tick().repeat(10)
        ctx.set(getattr(bench.dut, port), 1 << bit)
        await ctx.tick()
        ctx.set(getattr(bench.dut, port), 0)
        assert await bench.finish(ctx) == FAULT
        number = 1 + UNITS.index(unit)
        assert await bench.fault(ctx) == (Fault.PARITY, number, unit, 1, memory)
        assert await bench.read(ctx, "IRQ_STATUS") == 2
        await bench.write(ctx, "CONTROL", RESET)
        await ctx.tick().repeat(4)
        assert (await bench.fault(ctx))[0] is Fault.NONE
        assert await bench.read(ctx, "STATUS") == 0

    bench.run(main)
