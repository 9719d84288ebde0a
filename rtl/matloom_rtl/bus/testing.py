"""AXI memory model for simulations, which checks the protocol of its initiator."""

import random
from collections import deque
from dataclasses import dataclass, field

__all__ = ["AxiMemory"]


@dataclass
class _Burst:
    """Burst in flight; `due` is the first cycle in which its first beat or response may come.

    `sent` counts the beats transferred so far.
    """

    id: int
    address: int
    beats: int
    due: int
    sent: int = 0
    data: list = field(default_factory=list)


class _Steady:
    """Check that a valid payload is stable until it is taken; call `check` in every cycle."""

    def __init__(self, name):
        self._name = name
        self._waiting = None

    def check(self, valid, ready, payload):
        """Check that an item that waits (valid, not ready) does not change; call every cycle."""
        if self._waiting is not None:
            assert valid, f"{self._name}.valid fell before it was taken"
            assert payload == self._waiting, f"{self._name}.payload changed before it was taken"
        self._waiting = payload if valid and not ready else None


class AxiMemory:
    """Memory that serves read or write bursts; run `read` or `write` as a background bench.

    Parameters
    ----------
    bus:
        The initiator's port, AxiReadSignature or AxiWriteSignature.
    contents:
        Bytes from address `base` on, changed in place by writes.
    burst_beats:
        Longest burst allowed, in beats.
    latency:
        Cycles from an address, or from the last beat of a write, to the first beat or response.
        Latencies overlap.
    stall, seed:
        Probability that each channel idles in a cycle, and seed of the random numbers. A stall
        above 0 also varies the latency, and mixes the beats of different ids.
    broken:
        Bus addresses of the bursts that are answered with SLVERR.
    broken_beats:
        Bus addresses of single beats of reads that are.

    Members
    -------
    bursts:
        Id, address and number of beats of each burst so far.
    outstanding, most_outstanding:
        Number of bursts in flight, now and at most.
    cycle:
        Number of cycles so far.
    """

    def __init__(
        self,
        bus,
        contents,
        *,
        burst_beats,
        base=0,
        latency=32,
        stall=0.0,
        seed=0,
        broken=(),
        broken_beats=(),
    ):
        self.contents = contents
        self.bursts = []
        self.most_outstanding = 0
        self.outstanding = 0
        self.cycle = 0
        self._bus, self._base, self._latency, self._stall = bus, base, latency, stall
        self._burst_beats, self._broken = burst_beats, set(broken)
        self._broken_beats = set(broken_beats)
        self._random = random.Random(seed)
        self._width = bus.signature.bus_bits // 8

    def _moves(self):
        """Return whether a channel does not stall in this cycle, which is random."""
        return self._random.random() >= self._stall

    def _due(self):
        """Return the first cycle in which a burst accepted now may be answered."""
        extra = self._random.randrange(self._latency + 1) if self._stall else 0
        return self.cycle + self._latency + extra

    def _accept(self, payload) -> _Burst:
        """Check and record the burst that an address channel requests; return it."""
        size = (payload.len + 1) * self._width
        assert payload.addr % self._width == 0, f"address {payload.addr:#x} is not aligned"
        assert payload.len < self._burst_beats, f"burst of {payload.len + 1} beats"
        assert payload.addr % 4096 + size <= 4096, f"burst at {payload.addr:#x} crosses 4 KiB"
        assert 0 <= payload.addr - self._base <= len(self.contents) - size, (
            f"burst at {payload.addr:#x} is outside the memory"
        )
        self.bursts.append((payload.id, payload.addr, payload.len + 1))
        self.outstanding += 1
        self.most_outstanding = max(self.most_outstanding, self.outstanding)
        return _Burst(payload.id, payload.addr, payload.len + 1, self._due())

    def _response(self, burst):
        """Return the AXI response code of a burst: SLVERR at a broken address, else OKAY."""
        return 2 if burst.address in self._broken else 0

    def _beat_response(self, offset):
        """Return the AXI response code of a beat: SLVERR at a broken address, else OKAY."""
        return 2 if self._base + offset in self._broken_beats else 0

    async def read(self, ctx):
        """Serve the channels ar and r forever."""
        bus, width = self._bus, self._width
        queues, current, steady = (deque(), deque()), None, _Steady("ar")
        while True:
            if current is None:
                due = [queue[0] for queue in queues if queue and queue[0].due <= self.cycle]
                if due and self._moves():
                    current = self._random.choice(due) if self._stall else due[0]
                    start = current.address - self._base + current.sent * width
                    beat = {
                        "id": current.id,
                        "data": int.from_bytes(self.contents[start : start + width], "little"),
                        "resp": self._response(current) or self._beat_response(start),
                        "last": current.sent == current.beats - 1,
                    }
                    ctx.set(bus.r.payload, beat)
            ctx.set(bus.r.valid, current is not None)
            ready = self._moves()
            ctx.set(bus.ar.ready, ready)
            _, _, valid, payload, taken = await ctx.tick().sample(
                bus.ar.valid, bus.ar.payload, bus.r.ready
            )
            steady.check(valid, ready, payload.as_bits() if valid else 0)
            if valid and ready:
                queues[payload.id].append(self._accept(payload))
            if current is not None and taken:
                current.sent += 1
                if current.sent == current.beats:
                    queues[current.id].popleft()
                    self.outstanding -= 1
                current = None
            self.cycle += 1

    async def write(self, ctx):
        """Serve the channels aw, w and b forever."""
        bus = self._bus
        bursts, beats, responses, current = deque(), deque(), deque(), None
        steady_address, steady_beat = _Steady("aw"), _Steady("w")
        while True:
            if current is None and responses and responses[0].due <= self.cycle and self._moves():
                current = responses.popleft()
                ctx.set(bus.b.payload, {"id": current.id, "resp": self._response(current)})
            ctx.set(bus.b.valid, current is not None)
            address_ready, beat_ready = self._moves(), self._moves()
            ctx.set(bus.aw.ready, address_ready)
            ctx.set(bus.w.ready, beat_ready)
            _, _, address_valid, address, beat_valid, beat, taken = await ctx.tick().sample(
                bus.aw.valid, bus.aw.payload, bus.w.valid, bus.w.payload, bus.b.ready
            )
            steady_address.check(address_valid, address_ready, address.as_bits())
            steady_beat.check(beat_valid, beat_ready, beat.as_bits())
            if address_valid and address_ready:
                bursts.append(self._accept(address))
            if beat_valid and beat_ready:
                beats.append((beat.data, beat.strb, beat.last))
            while bursts and beats:
                self._write_beat(bursts[0], *beats.popleft())
                if bursts[0].sent == bursts[0].beats:
                    bursts[0].due = self._due()
                    responses.append(bursts.popleft())
            if current is not None and taken:
                self.outstanding -= 1
                current = None
            self.cycle += 1

    def _write_beat(self, burst, value, strobes, last):
        """Write the bytes of a beat that `strobes` enables; check that `last` is right."""
        start = burst.address - self._base + burst.sent * self._width
        for index in range(self._width):
            if strobes >> index & 1:
                self.contents[start + index] = value >> 8 * index & 255
        burst.sent += 1
        assert last == (burst.sent == burst.beats), (
            f"w.last is {last} in beat {burst.sent} of {burst.beats}"
        )
