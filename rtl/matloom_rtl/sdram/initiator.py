"""AXI initiator for simulations that reads and writes concurrently, and checks every beat."""

import random
from collections import deque
from dataclasses import dataclass, field

__all__ = ["Initiator", "random_bursts"]

#: Upper bound on the cycles from a write response until the SDRAM has the burst's last word.
_AFTER = 16


@dataclass
class _Burst:
    """A burst in flight: `expected` is what a read must return, `data` the beats received."""

    id: int
    address: int
    beats: int
    expected: bytes = b""
    data: list = field(default_factory=list)


class Initiator:
    """Read and write through both AXI ports at once, checking every beat.

    A burst waits while one in flight in the other direction overlaps with it, because the order of
    the two is undefined.

    Parameters
    ----------
    dut:
        Component with `axi_read` and `axi_write`.
    contents:
        Expected memory contents from address 0 on; writes change this object.
    reads, writes:
        Iterables of (address, beats), issued in order.
    stall:
        Probability that each channel idles in a cycle; 0 by default.
    outstanding:
        Maximum number of bursts in flight in each direction; 8 by default.
    not_ready_cycles:
        For channel `r` or `b`, the number of initial cycles in which it is not ready.
    cycles_after:
        Cycles to wait after the last write response.
    full:
        Whether all write beats have all strobes set; otherwise about half of them do.
    seed:
        Seed of the random choices.
    """

    def __init__(self, dut, contents: bytearray, *, reads=(), writes=(), **options):
        self.contents = contents
        self._dut, self._lists = dut, {"read": deque(reads), "write": deque(writes)}
        self._stall = options.get("stall", 0.0)
        self._outstanding = options.get("outstanding", 8)
        self._not_ready_cycles = options.get("not_ready_cycles", {})
        self._cycles_after = options.get("cycles_after", _AFTER)
        self._full = options.get("full", False)
        self._random = random.Random(options.get("seed", 0))
        self._width = dut.axi_read.signature.bus_bits // 8
        self._under_way = {"read": deque(), "write": deque()}
        self._beats = deque()
        self.cycle = 0
        #: Cycles of the first and the last beat or response received; None before.
        self.first = self.last = None
        self.benches = [self.ask_reads, self.ask_writes, self.send, self.receive, self.respond]

    def _idle(self):
        """Return whether to pause in this cycle: at random, as often as `stall` says."""
        return self._random.random() < self._stall

    def _is_ready(self, channel):
        """Return whether a channel is ready: at random, once its `not_ready_cycles` have passed."""
        return self.cycle >= self._not_ready_cycles.get(channel, 0) and not self._idle()

    def _does_not_overlap(self, direction, address, beats):
        """Return whether a burst overlaps no burst of the other direction in progress."""
        other = "write" if direction == "read" else "read"
        end = address + beats * self._width
        return all(
            end <= each.address or each.address + each.beats * self._width <= address
            for each in self._under_way[other]
        )

    async def _next(self, ctx, direction):
        """Wait until the next burst of a direction may be issued; return it, or None at the end."""
        bursts, under_way = self._lists[direction], self._under_way[direction]
        if not bursts:
            return None
        # It stays in the list while it waits, so that the receiver of responses waits too.
        address, beats = bursts[0]
        while (
            len(under_way) >= self._outstanding
            or not self._does_not_overlap(direction, address, beats)
            or self._idle()
        ):
            await ctx.tick()
        bursts.popleft()
        burst = _Burst(self._random.randrange(2), address, beats)
        under_way.append(burst)
        return burst

    async def _send_address(self, ctx, channel, burst):
        """Send a burst on an address channel, and wait until it is accepted."""
        payload = {"id": burst.id, "addr": burst.address, "len": burst.beats - 1}
        ctx.set(channel.payload, payload)
        ctx.set(channel.valid, 1)
        await ctx.tick().until(channel.ready)
        ctx.set(channel.valid, 0)

    async def ask_reads(self, ctx):
        """Issue all read addresses."""
        while burst := await self._next(ctx, "read"):
            end = burst.address + burst.beats * self._width
            burst.expected = bytes(self.contents[burst.address : end])
            await self._send_address(ctx, self._dut.axi_read.ar, burst)

    async def ask_writes(self, ctx):
        """Issue all write addresses; `send` may issue their beats before or after."""
        while burst := await self._next(ctx, "write"):
            for index in range(burst.beats):
                self._beats.append(self._beat(burst, index))
            await self._send_address(ctx, self._dut.axi_write.aw, burst)
        self._beats.append(None)

    def _beat(self, burst, index):
        """Return a write beat with random data and strobes, and write it to `contents`."""
        width = self._width
        value = self._random.getrandbits(8 * width)
        strobes = (1 << width) - 1
        if not self._full and self._random.random() < 0.5:
            strobes = self._random.getrandbits(width)
        for byte in range(width):
            if strobes >> byte & 1:
                place = burst.address + index * width + byte
                self.contents[place] = value >> 8 * byte & 255
        return {"data": value, "strb": strobes, "last": index == burst.beats - 1}

    async def send(self, ctx):
        """Issue all write beats."""
        w = self._dut.axi_write.w
        while True:
            while not self._beats or self._idle():
                await ctx.tick()
            beat = self._beats.popleft()
            if beat is None:
                return
            ctx.set(w.payload, beat)
            ctx.set(w.valid, 1)
            await ctx.tick().until(w.ready)
            ctx.set(w.valid, 0)

    def _note_cycle(self):
        """Record this cycle as the last with a transfer, and as the first if none was before."""
        self.first = self.cycle if self.first is None else self.first
        self.last = self.cycle

    async def receive(self, ctx):
        """Accept and check all beats read."""
        r, under_way = self._dut.axi_read.r, self._under_way["read"]
        shown = None
        while self._lists["read"] or under_way:
            ready = self._is_ready("r")
            ctx.set(r.ready, ready)
            _clk, _rst, valid, beat = await ctx.tick().sample(r.valid, r.payload)
            assert shown is None or (valid and beat == shown), "a beat was changed or withdrawn"
            shown = beat if valid and not ready else None
            if not (valid and ready):
                continue
            self._note_cycle()
            burst = under_way[0]
            burst.data.append(beat.data)
            place = (len(burst.data) - 1) * self._width
            expected = burst.expected[place : place + self._width]
            found = beat.data.to_bytes(self._width, "little")
            assert found == expected, f"at {burst.address + place:#x}: {found} for {expected}"
            last = len(burst.data) == burst.beats
            assert (beat.id, beat.last, beat.resp) == (burst.id, last, 0)
            if last:
                under_way.popleft()
        ctx.set(r.ready, 0)

    async def respond(self, ctx):
        """Accept and check all responses."""
        b, under_way = self._dut.axi_write.b, self._under_way["write"]
        while self._lists["write"] or under_way:
            ready = self._is_ready("b")
            ctx.set(b.ready, ready)
            _clk, _rst, valid, response = await ctx.tick().sample(b.valid, b.payload)
            if valid and ready:
                self._note_cycle()
                burst = under_way.popleft()
                assert (response.id, response.resp) == (burst.id, 0)
        # The last words reach the pins after the response.
        await ctx.tick().repeat(self._cycles_after)

    async def count(self, ctx):
        """Count cycles; runs in the background."""
        while True:
            await ctx.tick()
            self.cycle += 1


def random_bursts(rng: random.Random, count: int, width: int, span: int):
    """Return `count` random bursts within `span` bytes, many of them short.

    Each is a pair of start address and number of beats of `width` bytes, as `Initiator` takes it.
    None crosses a 4 KiB boundary.
    """
    bursts = []
    for _ in range(count):
        beats = rng.choice((1, 1, 2, 3, 4, 8, 16, 32, rng.randrange(1, 100)))
        beats = min(beats, 4096 // width)
        page = rng.randrange(span // 4096) * 4096
        room = 4096 // width - beats
        bursts.append((page + rng.randrange(room + 1) * width, beats))
    return bursts
