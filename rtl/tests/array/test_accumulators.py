"""The accumulators, compared with a NumPy array: values, grants and the latencies of `ports`."""

import dataclasses

import numpy as np
import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS, Config
from matloom.arch.floats import add as float_add
from matloom_rtl.array.accumulators import Accumulators
from matloom_rtl.ports import ACC_READ_LATENCY, ACC_UPDATE_LATENCY
from matloom_rtl.testing import cached_unit, simulate

CONFIGS = {
    "nano": PRESETS["nano"],
    "few": Config(rows=4, columns=4, broadcast_group=4, lanes=4, acc_bytes=16 * 16),
    "8x16": Config(rows=8, columns=16, bus_bits=128, acc_bytes=16 * 64),
    "narrow": dataclasses.replace(PRESETS["nano"], mac_modes=("i8xi8", "i8xi4"), acc_bytes=64 * 16),
}
CONFIGS |= {
    f"{name}+parity": dataclasses.replace(CONFIGS[name], parity=1) for name in ("few", "narrow")
}


FLOAT = dataclasses.replace(
    CONFIGS["nano"], weight_rows=2, float_rows=2, mac_modes=("i8xi8", "bf16")
)


def number(values):
    return int.from_bytes(np.asarray(values).astype("<i4").tobytes(), "little")


def values_of(word, columns):
    return np.frombuffer(int(word).to_bytes(4 * columns, "little"), "<i4").tolist()


def larger(old, new):
    """Return the larger number of each column, by the signed low 17 bits."""
    low_old, low_new = ((values + 2**16) % 2**17 for values in (old, new))
    return np.where(low_new > low_old, new, old)


class Bench:
    """Presents requests, checks grants, and tracks the expected entries."""

    def __init__(self, config):
        self.dut = cached_unit(Accumulators, config)
        self.narrow, self.apart = config.has_narrow, config.pair_distance
        self.columns, self.half = config.columns, config.acc_entries // 2
        self.entries = np.zeros((config.acc_entries, config.columns), np.int64)
        self.cycle, self.parity = 0, config.parity
        self.updated = {}
        self.announced = None
        self.due = {}

    def places(self, array):
        """Return the entries that an update of the array changes: one, or those of its pair."""
        entry = array["entry"]
        if "seconds" not in array:
            return (entry,)
        first = entry + self.apart * (entry >= self.apart)
        return first, first + self.apart

    def settled(self, entry):
        return self.cycle - self.updated.get(entry, -100) >= ACC_UPDATE_LATENCY

    def apply(self, entry, request, mask):
        old, new = self.entries[entry], np.asarray(request["values"], np.int64)
        if request["add"]:
            new = larger(old, new) if request["maximum"] else old + new
        new = (new + 2**31) % 2**32 - 2**31
        chosen = [mask >> column & 1 for column in range(self.columns)]
        self.entries[entry] = np.where(chosen, new, old)
        self.updated[entry] = self.cycle

    async def step(self, ctx, array=None, update=None, read=None):
        """Present up to three requests in a cycle; return whether update and read were granted.

        The array's request is announced in this cycle and made in the next.
        """
        dut = self.dut
        ctx.set(dut.sum_valid, array is not None)
        if array:
            ctx.set(dut.sum_entry, array["entry"])
            ctx.set(dut.sum_add, array["add"])
            ctx.set(dut.sum_maximum, array["maximum"])
            for place in self.places(array):
                self.updated[place] = self.cycle + 1
            if self.narrow:
                ctx.set(dut.sum_narrow, "seconds" in array)
        array, self.announced = self.announced, array
        if array:
            ctx.set(dut.sums, number(array["values"]))
            if self.narrow:
                ctx.set(dut.seconds, number(array.get("seconds", array["values"] * 3)))
        ctx.set(dut.update.valid, update is not None)
        if update:
            ctx.set(dut.update.address, update["entry"])
            ctx.set(dut.update.add, update["add"])
            ctx.set(dut.update.mask, update["mask"])
        ctx.set(dut.read.valid, read is not None)
        if read is not None:
            ctx.set(dut.read.address, read)

        bank = {
            name: None if entry is None else entry // self.half
            for name, entry in (
                ("array", array and self.places(array)[0]),
                ("update", update and update["entry"]),
                ("read", read),
            )
        }
        update_goes = update is not None and bank["update"] != bank["array"]
        read_goes = read is not None and bank["read"] not in (bank["array"], bank["update"])
        assert (ctx.get(dut.update.ready) and update is not None) == update_goes
        assert (ctx.get(dut.read.ready) and read is not None) == read_goes
        assert not self.parity or ctx.get(dut.wrong) == 0
        if self.cycle in self.due:
            assert values_of(ctx.get(dut.read.data), self.columns) == self.due[self.cycle]
        if read_goes:
            self.due[self.cycle + ACC_READ_LATENCY] = self.entries[read].tolist()
        if array:
            values = array["values"], array.get("seconds")
            for place, sums in zip(self.places(array), values, strict=False):
                self.apply(place, array | {"values": sums}, -1)
        if update_goes:
            self.apply(update["entry"], update, update["mask"])
        await ctx.tick()
        self.cycle += 1
        # Data follow a grant; in other cycles they are those of nobody.
        ctx.set(dut.update.data, number(update["values"]) if update_goes else self.cycle * 0x1357)
        return update_goes, read_goes

    async def drain(self, ctx):
        for _cycle in range(ACC_UPDATE_LATENCY):
            await self.step(ctx)

    async def check_all(self, ctx):
        await self.drain(ctx)
        for entry in range(2 * self.half):
            await self.step(ctx, read=entry)
        await self.drain(ctx)


def draw(rng, columns, entry, masked):
    wide = rng.integers(-(2**31), 2**31, columns)
    request = {
        "entry": entry,
        "add": bool(rng.random() < 0.7),
        "maximum": bool(not masked and rng.random() < 0.4),
        "values": np.where(rng.random(columns) < 0.5, wide, wide >> 20),
    }
    return request | {"mask": int(rng.integers(2**columns))} if masked else request


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("rates", [(1, 0, 0), (1, 1, 1), (0.4, 0.5, 0.6), (0, 0.7, 0.7)], ids=str)
def test_random_requests(name, rates):
    bench, rng = Bench(CONFIGS[name]), np.random.default_rng(1)
    few = min(2 * bench.half, 24)

    def pick(rate):
        # Entries of both banks that may be touched again already.
        if rng.random() >= rate:
            return None
        near = [entry * 2 * bench.half // few for entry in range(few)]
        settled = [entry for entry in near if bench.settled(entry)]
        return int(rng.choice(settled)) if settled else None

    async def drive(ctx):
        update = read = None
        for _cycle in range(250):
            # A request that waits stays as it is; nothing may overtake it on its entry.
            taken = {None, read, update and update["entry"]}
            array = None
            if (entry := pick(rates[0])) is not None:
                array = draw(rng, bench.columns, entry, False)
                if bench.narrow and rng.random() < 0.5:
                    array["entry"] //= 2
                    array["seconds"] = draw(rng, bench.columns, entry, False)["values"]
                places = bench.places(array)
                if taken.isdisjoint(places) and all(bench.settled(place) for place in places):
                    taken.update(places)
                else:
                    array = None
            if update is None and (entry := pick(rates[1])) not in taken:
                update = draw(rng, bench.columns, entry, True)
                taken.add(entry)
            if read is None and (entry := pick(rates[2])) not in taken:
                read = entry
            update_went, read_went = await bench.step(ctx, array, update, read)
            update = None if update_went else update
            read = None if read_went else read
        await bench.check_all(ctx)

    simulate(bench.dut, drive, cycles=300 + 2 * bench.half + 2 * ACC_UPDATE_LATENCY)


def test_entry_is_updated_every_fourth_cycle():
    """Updates at the shortest interval allowed all count, from either initiator."""
    bench = Bench(PRESETS["nano"])

    async def drive(ctx):
        add = {"entry": 5, "add": True, "maximum": False, "values": [2**30, -7, 1, 0]}

        async def idle(cycles):
            for _cycle in range(cycles):
                await bench.step(ctx)

        # The array announces its update a cycle before.
        await bench.step(ctx, array=add | {"add": False})
        await idle(1)
        for _round in range(4):
            await idle(ACC_UPDATE_LATENCY - 2)
            await bench.step(ctx, array=add)
            await idle(ACC_UPDATE_LATENCY)
            await bench.step(ctx, update=add | {"mask": 0b0111})
        await idle(ACC_UPDATE_LATENCY - 1)
        await bench.step(ctx, read=5)
        await bench.drain(ctx)

    simulate(bench.dut, drive, cycles=60)
    assert bench.entries[5].tolist() == [9 * 2**30 - 2 * 2**32, -63, 9, 0]


def test_maximum_replaces_without_add():
    bench = Bench(PRESETS["nano"])
    request = {"entry": 0, "add": False, "maximum": True, "values": [-5, -5, -5, -5]}

    async def drive(ctx):
        await bench.step(ctx, array=request)
        await bench.drain(ctx)
        await bench.step(ctx, read=0)
        await bench.drain(ctx)

    simulate(bench.dut, drive, cycles=20)
    assert bench.entries[0].tolist() == [-5] * 4


def test_maximum_stores_the_larger_or_nothing():
    """Maxima are right for equal and adjacent numbers, both signs, and the limits of 17 bits."""
    bench = Bench(PRESETS["nano"])
    ends = [-(2**16), -(2**16) + 1, -129, -128, -1, 0, 1, 127, 2**15, 2**16 - 1]
    pairs = [(old, new) for old in ends for new in ends]

    async def drive(ctx):
        for first in range(0, len(pairs), bench.columns):
            old, new = (list(each) for each in zip(*pairs[first : first + 4], strict=True))
            for add, values in ((False, old), (True, new)):
                request = {"entry": first, "add": add, "maximum": True, "values": values}
                await bench.step(ctx, array=request)
                await bench.drain(ctx)
            assert bench.entries[first].tolist() == [
                max(pair) for pair in zip(old, new, strict=True)
            ]
            await bench.step(ctx, read=first)
        await bench.drain(ctx)

    simulate(bench.dut, drive, cycles=400)


def test_without_maxima():
    """Without `Config.maximum`, sums and timing are the same."""
    bench = Bench(dataclasses.replace(PRESETS["nano"], maximum=0))

    async def drive(ctx):
        for add, values in ((False, [5, -6, 7, 2**31 - 1]), (True, [-1, -2, 3, 1])):
            await bench.step(
                ctx, array={"entry": 0, "add": add, "maximum": False, "values": values}
            )
            await bench.drain(ctx)
        await bench.step(ctx, read=0)
        await bench.drain(ctx)

    simulate(bench.dut, drive, cycles=30)
    assert bench.entries[0].tolist() == [4, -8, 10, -(2**31)]


def test_reset_midway():
    """A reset keeps entries and drops an update in progress; later updates are exact."""
    bench = Bench(PRESETS["nano"])
    reset = Signal()
    rng = np.random.default_rng(2)

    async def drive(ctx):
        await bench.step(ctx, array=draw(rng, 4, 3, False) | {"add": False})
        await bench.drain(ctx)
        dut = bench.dut
        ctx.set(dut.sum_valid, 1)
        ctx.set(dut.sums, number([1, 2, 3, 4]))
        await ctx.tick()
        ctx.set(dut.sum_valid, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        bench.cycle += 2
        await bench.step(ctx, read=3)
        await bench.step(ctx, array=draw(rng, 4, 3, False) | {"add": True})
        await bench.drain(ctx)
        await bench.step(ctx, read=3)
        await bench.drain(ctx)

    simulate(ResetInserter(reset)(bench.dut), drive, cycles=60)


def test_floating_point_sums(seed):
    """Integer and floating-point updates mix, in sequence and in parallel in both banks."""
    rng, columns = np.random.default_rng(seed), FLOAT.columns
    dut, half, latency = Accumulators(FLOAT), FLOAT.acc_entries // 2, FLOAT.acc_update_latency
    entries = np.zeros((2, columns), np.int64)

    def made(old, values, add, floating):
        if floating:
            return float_add(old % 2**32, values % 2**32) if add else values % 2**32
        return (old + values if add else values) % 2**32

    async def bench(ctx):
        for turn in range(60):
            floating, add = (int(each) for each in rng.integers(0, 2, 2))
            numbers = rng.standard_normal((2, columns)).astype(np.float32).view(np.int32)
            if turn % 7 == 0:
                numbers[0] = -(2**31)
            values = numbers.astype(np.int64)
            ctx.set(dut.sum_valid, 1)
            ctx.set(dut.sum_entry, 5)
            ctx.set(dut.sum_add, add)
            ctx.set(dut.sum_floating, floating)
            await ctx.tick()
            ctx.set(dut.sum_valid, 0)
            ctx.set(dut.sums, number(values[0]))
            ctx.set(dut.update.valid, 1)
            ctx.set(dut.update.address, half + 3)
            ctx.set(dut.update.add, add)
            ctx.set(dut.update.floating, 1 - floating)
            ctx.set(dut.update.mask, 0b0101)
            assert ctx.get(dut.update.ready)
            await ctx.tick()
            ctx.set(dut.update.data, number(values[1]))
            ctx.set(dut.update.valid, 0)
            entries[0] = made(entries[0], values[0], add, floating)
            new = made(entries[1], values[1], add, 1 - floating)
            entries[1, ::2] = new[::2]
            await ctx.tick().repeat(latency - 1)
            for index, entry in enumerate((5, half + 3)):
                ctx.set(dut.read.valid, 1)
                ctx.set(dut.read.address, entry)
                await ctx.tick().repeat(ACC_READ_LATENCY)
                found = np.array(values_of(ctx.get(dut.read.data), columns)) % 2**32
                assert found.tolist() == entries[index].tolist(), (turn, floating, add)
            ctx.set(dut.read.valid, 0)

    async def clear(ctx):
        for entry in (5, half + 3):
            ctx.set(dut.update.valid, 1)
            ctx.set(dut.update.address, entry)
            ctx.set(dut.update.mask, -1)
            await ctx.tick()
        ctx.set(dut.update.valid, 0)
        await ctx.tick().repeat(latency)
        await bench(ctx)

    simulate(dut, clear, cycles=3000)


#: Which requests use the sums they find, and what `wrong` then is.
USES = {
    "read": 2,
    "update adds": 2,
    "update replaces": 0,
    "array adds": 1,
    "array compares": 1,
    "array replaces": 0,
}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "name", ["few+parity", "narrow+parity", pytest.param("float+parity", marks=pytest.mark.slow)]
)
def test_each_flipped_bit_in_use_is_reported(name, use):
    """Each bit of an entry, in each bank, is reported once, four cycles after the grant."""
    configs = {**CONFIGS, "float+parity": dataclasses.replace(FLOAT, parity=1, acc_bytes=16 * 16)}
    config = configs[name]
    dut, entries = Accumulators(config), config.acc_entries
    kind, _space, how = use.partition(" ")

    async def ask(ctx, entry, on):
        if kind == "array":
            ctx.set(dut.sum_valid, on)
            ctx.set(dut.sum_entry, entry)
            ctx.set(dut.sum_add, how != "replaces")
            ctx.set(dut.sum_maximum, how == "compares")
            return
        port = dut.read if kind == "read" else dut.update
        ctx.set(port.valid, on)
        ctx.set(port.address, entry)
        if kind == "update":
            ctx.set(port.add, how == "adds")

    async def drive(ctx):
        memories = dut.memories
        for bit in range(33 * config.columns):
            entry = (bit * 7) % entries
            number, line = divmod(entry, entries // len(memories))
            word = memories[number].data[line]
            ctx.set(word, ctx.get(word) ^ 1 << bit)
            await ask(ctx, entry, 1)
            await ctx.tick()
            await ask(ctx, entry, 0)
            seen = []
            for _cycle in range(16):
                seen.append(ctx.get(dut.wrong))
                await ctx.tick()
            # The array announces its sums a cycle before.
            at = 4 if kind == "array" else 3
            assert seen == [USES[use] * (cycle == at) for cycle in range(16)], bit
            # What was found wrong is not always overwritten.
            ctx.set(word, 0)

    simulate(dut, drive, cycles=40 * 33 * config.columns)


def test_a_read_that_meets_the_write_of_its_entry_reports_nothing():
    """The read data are undefined; earlier reads find the old parity, later ones the new."""
    dut = Accumulators(CONFIGS["few+parity"])
    reported = []

    async def drive(ctx):
        for distance in range(1, ACC_UPDATE_LATENCY + 2):
            ctx.set(dut.memories[0].data[3], 1)
            ctx.set(dut.update.address, 3)
            ctx.set(dut.update.mask, -1)
            ctx.set(dut.update.valid, 1)
            await ctx.tick()
            ctx.set(dut.update.valid, 0)
            for _cycle in range(distance - 1):
                await ctx.tick()
            ctx.set(dut.read.address, 3)
            ctx.set(dut.read.valid, 1)
            await ctx.tick()
            ctx.set(dut.read.valid, 0)
            seen = 0
            for _cycle in range(12):
                seen |= ctx.get(dut.wrong)
                await ctx.tick()
            reported.append(seen)

    simulate(dut, drive, cycles=200)
    assert reported == [*(2,) * (ACC_UPDATE_LATENCY - 2), 0, 0, 0]


def test_a_reset_forgets_wrong_parity_under_way():
    dut = Accumulators(CONFIGS["few+parity"])
    reset = Signal()

    async def drive(ctx):
        ctx.set(dut.memories[0].data[3], 1)
        ctx.set(dut.read.address, 3)
        for cycles, told in ((1, 0), (2, 0), (9, 1)):
            seen = 0
            for cycle in range(12):
                seen += ctx.get(dut.wrong) == 2
                ctx.set(dut.read.valid, cycle == 0)
                ctx.set(reset, cycle == cycles)
                await ctx.tick()
            assert seen == told

    simulate(ResetInserter(reset)(dut), drive, cycles=50)
