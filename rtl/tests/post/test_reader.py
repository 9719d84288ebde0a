"""Reader: sums, bytes, words, products, addends, squares; order, parameters, cycles, stalls."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import Config
from matloom.arch.isa import Source
from matloom_rtl.ports import ACC_READ_LATENCY, SPAD_READ_LATENCY
from matloom_rtl.post.products import Products
from matloom_rtl.post.reader import Reader
from matloom_rtl.testing import simulate

SMALL = {"rows": 4, "columns": 4, "broadcast_group": 4, "lanes": 2, "acc_bytes": 1024}
BYTES = Config(**SMALL)
ADDENDS, SQUARES = Config(**SMALL, products=2), Config(**SMALL, products=3)
WORDS = Config(**SMALL, mac_modes=("i8xi8", "i16xi8"))
WORD_PRODUCTS = Config(**SMALL, products=4, mac_modes=("i8xi8", "i16xi8"))
MEMORY = random.Random(5).randbytes(4096)
COLUMNS = 4
#: Cycles from the first `streaming` to the first vector in the queue.
LATENCIES = {
    "sums": 1 + ACC_READ_LATENCY + 1,
    "bytes": 2 + SPAD_READ_LATENCY + 1,
    "words": 3 + SPAD_READ_LATENCY + 1,
    "products": 2 + SPAD_READ_LATENCY + 1 + Products.LATENCY,
    "addends": 2 + SPAD_READ_LATENCY + 1 + Products.LATENCY,
    "squares": 2 + SPAD_READ_LATENCY + 1 + Products.LATENCY,
    "word products": 3 + SPAD_READ_LATENCY + 1 + Products.LATENCY,
    "byte products": 2 + SPAD_READ_LATENCY + 1 + Products.LATENCY,
}
#: The configuration of a kind, if it needs more than bytes.
CONFIGS = {
    "words": WORDS,
    "addends": ADDENDS,
    "squares": SQUARES,
    "word products": WORD_PRODUCTS,
    "byte products": WORD_PRODUCTS,
}
OF_WORDS = ("words", "word products")


def sums_of(entry):
    """Return the sums of an entry, different for each."""
    return [(entry * 7919 + column * 104729) % 2**32 - 2**31 for column in range(COLUMNS)]


def read(address, size=1):
    parts = range(address, address + COLUMNS * size, size)
    return [int.from_bytes(MEMORY[at : at + size], "little", signed=True) for at in parts]


def expected(kind, position, zero):
    if kind == "sums":
        return sums_of(position["entry"])
    if kind == "words":
        return read(position["address"], 2)
    if kind == "word products":
        factors = [(each + 2**15) % 2**16 - 2**15 for each in sums_of(position["entry"])]
        values = read(position["address"], 2)
        return [(value - zero) * factor for value, factor in zip(values, factors, strict=True)]
    values = read(position["address"])
    if kind in ("products", "byte products"):
        factors = [((each + 256) & 511) - 256 for each in sums_of(position["entry"])]
        values = [(value - zero) * factor for value, factor in zip(values, factors, strict=True)]
    if kind == "addends":
        pairs = zip(values, sums_of(position["entry"]), strict=True)
        sums = [total + (value - zero) * 2**19 for value, total in pairs]
        values = [(total + 2**31) % 2**32 - 2**31 for total in sums]
    if kind == "squares":
        pairs = zip(values, sums_of(position["entry"]), strict=True)
        low = [(total - (value - zero) * 64) % 2**16 for value, total in pairs]
        values = [(each - (each >> 15 << 16)) ** 2 for each in low]
    return values


def run(kind, count, seed, *, refuse=0.0, lazy=0.0, parameters=0.0, reset_at=None):
    """Read some vectors; return the cycles at which they were available, from `streaming` on."""
    chance = random.Random(seed)
    reset = Signal()
    dut = Reader(CONFIGS.get(kind, BYTES))
    zero = chance.randint(-128, 127)
    positions = [
        {
            "address": chance.randrange(3000),
            "entry": chance.randrange(64),
            "bank_select": 1,
            "block_end": chance.randint(0, 1),
        }
        for _ in range(count)
    ]
    taken, asked, state = [], [], {"live": reset_at is None, "cycle": 0}

    async def drive(ctx):
        command = {"source": Source.ACC if kind == "sums" else Source.SPAD}
        if kind in OF_WORDS:
            ctx.set(dut.numbers.size, 1)
            command |= {"words": 1}
        if kind != "words":
            command |= {"product": int("products" in kind), "factor_zero": zero}
        if kind == "addends":
            command |= {"addend": 1}
        if kind == "squares":
            command |= {"addend": 2}
        ctx.set(dut.command, command)
        if reset_at is not None:
            ctx.set(dut.position, positions[-1])
            ctx.set(dut.streaming, 1)
            await ctx.tick().repeat(reset_at)
            ctx.set(dut.streaming, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            await ctx.tick()
            taken.clear()
            asked.clear()
            await ctx.tick().repeat(10)
            assert not taken
        state.update(live=True, cycle=0)
        for number, position in enumerate(positions):
            ctx.set(dut.position, position)
            ctx.set(dut.streaming, 1)
            if number == 0:
                await ctx.tick()
            last = number == count - 1
            while True:
                # As the sequencer does: no more from the cycle that asks for the last.
                ctx.set(dut.streaming, not (last and ctx.get(dut.advance)))
                _clock, _reset, advance = await ctx.tick().sample(dut.advance)
                if advance:
                    break

    async def want_parameters(ctx):
        while True:
            if chance.random() < parameters:
                address = chance.randrange(3000)
                ctx.set(dut.parameters.address, address)
                ctx.set(dut.parameters.valid, 1)
                while not (await ctx.tick().sample(dut.parameters.ready))[2]:
                    pass
                ctx.set(dut.parameters.valid, 0)
                asked.append(address)
            else:
                await ctx.tick()

    async def take_parameters(ctx):
        while True:
            _clock, _reset, arriving = await ctx.tick().sample(dut.parameters_arriving)
            if arriving and state["live"]:
                address = asked.pop(0)
                data = int.from_bytes(MEMORY[address : address + COLUMNS], "little")
                assert ctx.get(dut.parameters.data) == data

    async def memories(ctx):
        pipelines = {dut.spad: [0] * SPAD_READ_LATENCY, dut.acc: [0] * ACC_READ_LATENCY}
        while True:
            for port, pipeline in pipelines.items():
                ctx.set(port.ready, chance.random() >= refuse)
                ctx.set(port.data, pipeline[0])
            sample = await ctx.tick().sample(
                *(each for port in pipelines for each in (port.valid, port.ready, port.address))
            )
            for number, (port, pipeline) in enumerate(pipelines.items()):
                valid, ready, address = sample[2 + 3 * number : 5 + 3 * number]
                found = MEMORY[address : address + COLUMNS]
                if port is dut.acc:
                    found = b"".join(
                        each.to_bytes(4, "little", signed=True) for each in sums_of(address)
                    )
                value = int.from_bytes(found, "little") if valid and ready else 0
                pipelines[port] = [*pipeline[1:], value]

    async def take(ctx):
        vectors = dut.vectors
        while len(taken) < count or not state["live"]:
            ctx.set(vectors.ready, chance.random() >= lazy)
            sample = await ctx.tick().sample(vectors.valid, vectors.ready, vectors.payload)
            _clock, _reset, valid, ready, payload = sample
            if valid and ready:
                taken.append(state["cycle"])
                if state["live"]:
                    check(payload, positions[len(taken) - 1])
            state["cycle"] += 1

    def check(payload, position):
        words = payload.values.to_bytes(4 * COLUMNS, "little")
        values = [
            int.from_bytes(words[at : at + 4], "little", signed=True)
            for at in range(0, len(words), 4)
        ]
        assert values == expected(kind, position, zero)
        assert payload.ends_block == position["block_end"]

    simulate(
        ResetInserter(reset)(dut),
        drive,
        take,
        cycles=40 * count + 400,
        background=[memories, want_parameters, take_parameters],
    )
    return taken


@pytest.mark.parametrize("kind", LATENCIES)
def test_steady(seed, kind):
    """The first vector comes after the latency, then one per cycle, or in two cycles with words."""
    taken = run(kind, 40, seed)
    step = 2 if kind in OF_WORDS else 1
    assert taken == [LATENCIES[kind] + step * number for number in range(40)]


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("kind", LATENCIES)
@pytest.mark.parametrize(
    ("refuse", "lazy", "parameters"),
    [(0.6, 0, 0), (0, 0.7, 0), (0, 0, 0.3), (0.4, 0.5, 0.2)],
)
def test_stalls(seed, kind, refuse, lazy, parameters):
    run(kind, 40, seed, refuse=refuse, lazy=lazy, parameters=parameters)


@pytest.mark.fast_cases(7)
@pytest.mark.parametrize("kind", LATENCIES)
@pytest.mark.parametrize("reset_at", [3, 8, 21])
def test_reset_midway(seed, kind, reset_at):
    run(kind, 10, seed, refuse=0.2, reset_at=reset_at)
