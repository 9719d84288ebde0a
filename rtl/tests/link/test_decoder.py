"""The decoder delivers complete requests, or a placeholder for a damaged one."""

import random
import zlib

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom_rtl.link.checksum import CYCLES_PER_BYTE
from matloom_rtl.link.decoder import Decoder
from matloom_rtl.testing import simulate


def stuffed(data):
    """Stuff bytes the simple way: find the next zero, or the end."""
    out, rest = bytearray(), data + b"\0"
    while rest:
        size = rest.index(0)
        if size >= 254:
            out += b"\xff" + rest[:254]
            rest = rest[254:]
        else:
            out += bytes([size + 1]) + rest[:size]
            rest = rest[size + 1 :]
    return bytes(out)


def frame(body):
    return stuffed(body + zlib.crc32(body).to_bytes(4, "little")) + b"\0"


def whole(body):
    data = [*body, *zlib.crc32(body).to_bytes(4, "little")]
    return [(byte, index == len(data) - 1) for index, byte in enumerate(data)]


DAMAGED = [(None, True)]
#: Cycles between bytes, as few as the checksum allows, and bytes of a buffer that is soon full.
GAP, SMALL = CYCLES_PER_BYTE, 64


class Bench:
    """A decoder with bytes every `GAP` cycles, and a receiver that is ready at rate `ready`."""

    def __init__(self, line, *, ready=1.0, deaf_until=0, reset_at=None, small=False):
        self.decoder = Decoder(SMALL if small else 2048)
        self.reset = Signal()
        self.line, self.ready, self.reset_at = line, ready, reset_at
        self.deaf_until = deaf_until
        self.random, self.taken, self.cycles = random.Random(5), [], []

    async def feed(self, ctx):
        for index, byte in enumerate(self.line):
            ctx.set(self.decoder.data, byte)
            ctx.set(self.decoder.valid, 1)
            await ctx.tick()
            ctx.set(self.decoder.valid, 0)
            if index == self.reset_at:
                ctx.set(self.reset, 1)
                await ctx.tick()
                ctx.set(self.reset, 0)
            await ctx.tick().repeat(GAP - 1)
        await ctx.tick().repeat(int(3 * len(self.line) / self.ready) + 60)

    async def listen(self, ctx):
        o, cycle = self.decoder.o, 0
        while True:
            ready = cycle >= self.deaf_until and self.random.random() < self.ready
            ctx.set(o.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(o.valid, o.payload)
            if valid and ready:
                self.taken.append((payload.data, bool(payload.last)))
                self.cycles.append(cycle)
            cycle += 1

    def run(self):
        dut = ResetInserter(self.reset)(self.decoder)
        simulate(dut, self.feed, cycles=1 << 20, background=[self.listen])
        return self.taken


def same(taken, expected):
    """Return whether bytes are as expected; the contents of a placeholder do not matter."""
    return len(taken) == len(expected) and all(
        last == wanted_last and wanted in (None, byte)
        for (byte, last), (wanted, wanted_last) in zip(taken, expected, strict=True)
    )


BODIES = [bytes(8), b"\xff" * 30, bytes(range(99)), b"\3" * 251]


@pytest.mark.parametrize("body", BODIES, ids=len)
def test_a_request(body):
    bench = Bench(b"\0" + frame(body))
    assert same(bench.run(), whole(body))
    # Three cycles after the delimiter is taken, then a byte each three cycles.
    first = GAP * (len(bench.line) - 1)
    assert bench.cycles == [first + 3 + 3 * k for k in range(len(body) + 4)]


@pytest.mark.parametrize("ready", [0.5, 0.1])
def test_a_listener_that_stalls(ready):
    bench = Bench(b"\0" + frame(b"one hundred") + frame(b"two hundred"), ready=ready)
    assert same(bench.run(), whole(b"one hundred") + whole(b"two hundred"))


def damage():
    good = frame(b"some request")
    yield "changed", good[:5] + bytes([good[5] ^ 1]) + good[6:]
    yield "dropped", good[:5] + good[6:]
    yield "repeated", good[:5] + good[4:]
    yield "cut", good[:9] + b"\0"
    yield "short", frame(b"1234567")
    yield "long", frame(bytes(80))


@pytest.mark.parametrize(("name", "line"), list(damage()))
def test_a_damaged_request_is_one_byte(name, line):
    bench = Bench(b"\0" + frame(b"before it") + line + frame(b"after it"), small=True)
    assert same(bench.run(), whole(b"before it") + DAMAGED + whole(b"after it"))


def test_no_request_changes_nothing():
    assert Bench(b"\0\0\0" + frame(b"a request") + b"\0\0").run() == whole(b"a request")


def test_bytes_before_the_first_delimiter_are_ignored():
    assert Bench(frame(b"the first") + frame(b"the second")).run() == whole(b"the second")


def test_a_reset_midway():
    first = frame(b"the first") + frame(b"the second")
    bench = Bench(b"\0" + first + frame(b"the third"), reset_at=20)
    assert bench.run() == whole(b"the first") + whole(b"the third")


def test_a_full_buffer_drops_whole_requests():
    bodies = [bytes([k]) * 20 for k in range(1, 7)]
    line = b"\0" + b"".join(frame(body) for body in bodies)
    taken = Bench(line, deaf_until=GAP * len(line) + 10, small=True).run()
    kept = [part for body in bodies[:2] for part in whole(body)]
    assert taken[: len(kept)] == kept
    # A stand-in for each of the others.
    assert same(taken[len(kept) :], 4 * DAMAGED)
