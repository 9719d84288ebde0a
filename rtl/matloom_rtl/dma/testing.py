"""Behavioural scratchpad port and instruction driver for simulations."""

import random
from collections import deque
from collections.abc import Sequence

from amaranth.hdl import Array, Module

from matloom_rtl.ports import SPAD_READ_LATENCY

__all__ = ["CommandDriver", "SpadPort", "with_bases"]


def with_bases(unit, bases: Sequence[int]) -> Module:
    """Return a module of a unit and a look-up of its `region_base`: ``bases[unit.region]``."""
    m = Module()
    m.submodules.unit = unit
    m.d.comb += unit.region_base.eq(Array(bases)[unit.region])
    return m


class SpadPort:
    """Model of the scratchpad at one port; run `read` or `write` in the background.

    Parameters
    ----------
    port:
        The initiator's port.
    contents:
        Bytes from address 0 on, changed in place by writes.
    stall, seed:
        Probability that a request is refused in a cycle, and seed of the random numbers.
    """

    def __init__(self, port, contents, *, stall=0.0, seed=0):
        self.contents = contents
        self.grants = []
        self.cycle = 0
        self._port, self._stall = port, stall
        self._width = port.signature.width
        self._random = random.Random(seed)

    async def write(self, ctx):
        """Serve writes forever, and append the cycle of each grant to `grants`."""
        port = self._port
        while True:
            ready = self._random.random() >= self._stall
            ctx.set(port.ready, ready)
            _, _, valid, address, mask = await ctx.tick().sample(
                port.valid, port.address, port.mask
            )
            if valid and ready:
                value = ctx.get(port.data)
                self.grants.append(self.cycle)
                for index in range(self._width):
                    if mask >> index & 1:
                        place = (address + index) % 2**24
                        assert place < len(self.contents), f"write to byte {place}"
                        self.contents[place] = value >> 8 * index & 255
            self.cycle += 1

    async def read(self, ctx):
        """Serve reads forever, and append the cycle of each grant to `grants`.

        Data is random except in the one cycle in which it is valid.
        """
        port, bits = self._port, 8 * self._width
        pipeline = deque([None] * (SPAD_READ_LATENCY - 1))
        while True:
            ready = self._random.random() >= self._stall
            ctx.set(port.ready, ready)
            _, _, valid, address = await ctx.tick().sample(port.valid, port.address)
            granted = None
            if valid and ready:
                self.grants.append(self.cycle)
                places = [(address + index) % 2**24 for index in range(self._width)]
                granted = bytes(
                    self.contents[place] if place < len(self.contents) else 0xEE for place in places
                )
            pipeline.append(granted)
            shown = pipeline.popleft()
            noise = self._random.getrandbits(bits)
            ctx.set(port.data, noise if shown is None else int.from_bytes(shown, "little"))
            self.cycle += 1


class CommandDriver:
    """Driver of instructions for a unit.

    `taken` lists the cycle in which the unit took each instruction; `done` lists the cycle in which
    each was done, and its timestamp.

    Parameters
    ----------
    unit:
        The unit's CommandSignature port.
    bodies:
        Field values of each instruction.
    stall, seed:
        Probability that a cycle without an offered instruction offers none, and seed of the random
        numbers.
    """

    def __init__(self, unit, bodies, *, stall=0.0, seed=0):
        self.done = []
        self.taken = []
        self.cycle = 0
        self._unit, self._bodies, self._stall = unit, bodies, stall
        self._random = random.Random(seed)

    async def issue(self, ctx):
        """Offer the instructions in order, and return when all are done; fill `taken` and `done`.

        Assert in every cycle that the unit's `busy` is right.
        """
        unit, waiting, offered = self._unit, deque(self._bodies), False
        while len(self.done) < len(self._bodies):
            if waiting and not offered and self._random.random() >= self._stall:
                ctx.set(unit.command.payload, waiting[0])
                offered = True
            ctx.set(unit.command.valid, offered)
            _, _, ready, done, timestamp, busy = await ctx.tick().sample(
                unit.command.ready, unit.done, unit.done_mark, unit.busy
            )
            shown_or_under_way = offered or len(self.taken) > len(self.done)
            assert busy == shown_or_under_way, f"busy is {busy} in cycle {self.cycle}"
            if done:
                self.done.append((self.cycle, timestamp))
            if offered and ready:
                self.taken.append(self.cycle)
                waiting.popleft()
                offered = False
            self.cycle += 1
        ctx.set(unit.command.valid, 0)
        await ctx.delay(1e-9)
        assert not ctx.get(unit.busy), "busy after the last instruction"
