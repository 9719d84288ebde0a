"""The contract that all queues of the hardware keep.

- Items leave once, in order and unchanged.
- An item that is shown stays until it is taken; nothing else is shown.
- The oldest item is shown a fixed number of cycles after it was put.
- A queue holds a fixed number of items, and no more; an empty one soon has room.
- A reset drops all items.

Other promises of a unit, such as its cycles, have their own files; `formal` proves the order.
"""

import random
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from amaranth.hdl import Value
from amaranth.lib import data
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered

import matloom_rtl
from matloom_rtl.memory.credits import CREDITS, CreditQueue
from matloom_rtl.memory.skid_buffer import SkidBuffer
from matloom_rtl.memory.stream_register import StreamRegister
from matloom_rtl.memory.unchecked_fifo import UncheckedFIFO
from matloom_rtl.testing import cached_unit, simulate, with_reset

ITEM = data.StructLayout({"low": 4, "high": 4})
#: Cycles after which an empty queue has room: those of a credit on its way back, and one more.
SOON = 3


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A unit, with its ports mapped to those of a queue.

    Members
    -------
    put, data:
        Signals that put an item.
    room:
        Whether one may be put; None if the user must know.
    shown, item, take:
        Whether an item is shown, the item, and the signal that takes it.
    places, latency:
        Capacity in items; cycles from putting an item to showing it.
    polite:
        The user must check for room and for an item; the unit does not.
    """

    unit: object
    put: tuple
    data: Value
    room: Value | None
    shown: Value
    item: Value
    take: Value
    places: int
    latency: int = 1
    polite: bool = False


def of_streams(unit, places):
    ports = {"put": (unit.i.valid,), "data": Value.cast(unit.i.payload), "room": unit.i.ready}
    shown = {"shown": unit.o.valid, "item": Value.cast(unit.o.payload), "take": unit.o.ready}
    return Queue(unit=unit, places=places, **ports, **shown)


def of_fifo(unit, places, **options):
    ports = {"put": (unit.w_en,), "data": unit.w_data, "room": getattr(unit, "w_rdy", None)}
    shown = {"shown": unit.r_rdy, "item": unit.r_data, "take": unit.r_en}
    return Queue(unit=unit, places=places, **ports, **shown, **options)


def credit_queue():
    unit = cached_unit(CreditQueue, ITEM, registered=("low",))
    ports = {"put": (unit.start, unit.w_en), "data": Value.cast(unit.w_data), "room": unit.room}
    shown = {"shown": unit.o.valid, "item": Value.cast(unit.o.payload), "take": unit.o.ready}
    return Queue(unit=unit, places=CREDITS, polite=True, **ports, **shown)


QUEUES: dict[str, Callable[[], Queue]] = {
    "UncheckedFIFO": lambda: of_fifo(cached_unit(UncheckedFIFO, width=8, depth=5), 5, polite=True),
    "CreditQueue": credit_queue,
    "SkidBuffer": lambda: of_streams(cached_unit(SkidBuffer, ITEM, registered=("low",)), 2),
    "StreamRegister": lambda: of_streams(cached_unit(StreamRegister, 8), 1),
    "SyncFIFO": lambda: of_fifo(cached_unit(SyncFIFO, width=8, depth=4), 4),
    "SyncFIFOBuffered": lambda: of_fifo(
        cached_unit(SyncFIFOBuffered, width=8, depth=4), 4, latency=2
    ),
}


class Model:
    """Model of a queue: items with the cycles since they were put, the oldest first."""

    def __init__(self, queue):
        self.queue, self.held, self.idle = queue, deque(), 0

    def check(self, shown, item):
        """Check the contract in one cycle."""
        if shown:
            assert self.held, "an item is shown that nobody put"
            assert item == self.held[0][0], "items leave in order and unchanged"
        elif self.held:
            assert self.held[0][1] < self.queue.latency, "an item is shown in time, and stays"

    def has_room(self, signal):
        """Return whether an item may be put, from the unit's signal or from the model."""
        full = len(self.held) >= self.queue.places
        if signal is None:
            return not full
        assert signal or self.idle < SOON, "an empty queue has room"
        return bool(signal)

    def step(self, put, taken):
        """Advance to the next cycle; `put` is an item or None."""
        if taken:
            self.held.popleft()
        self.held = deque((item, age + 1) for item, age in self.held)
        if put is not None:
            self.held.append((put, 1))
        assert len(self.held) <= self.queue.places, "no more items than places"
        self.idle = 0 if self.held else self.idle + 1


async def cycle(ctx, model, offered, wants):
    """Simulate a cycle: offer `offered`, or nothing if None, and take an item if `wants` is set.

    Returns whether the offered item was put into the queue.
    """
    queue = model.queue
    shown, item = ctx.get(queue.shown), ctx.get(queue.item)
    model.check(shown, item)
    ctx.set(queue.take, wants and (shown or not queue.polite))
    room = model.has_room(None if queue.room is None else ctx.get(queue.room))
    puts = offered is not None and (room or not queue.polite)
    for signal in queue.put:
        ctx.set(signal, puts)
    ctx.set(queue.data, offered if offered is not None else 0)
    await ctx.tick()
    model.step(offered if puts and room else None, wants and shown)
    return puts and room


@pytest.mark.parametrize("name", QUEUES)
@pytest.mark.parametrize(("puts", "takes"), [(1, 1), (1, 0.3), (0.3, 1), (0.5, 0.5)])
def test_items_leave_once_in_order_and_unchanged(name, puts, takes, seed):
    queue, draw = QUEUES[name](), random.Random(seed)
    model = Model(queue)

    async def bench(ctx):
        passed, offered = 0, None
        for _cycle in range(200):
            # An offer stays until it is accepted.
            if offered is None and draw.random() < puts:
                offered = draw.randrange(256)
            if await cycle(ctx, model, offered, draw.random() < takes):
                passed, offered = passed + 1, None
        assert passed > 30

    simulate(with_reset(queue.unit)[0], bench, cycles=210)


@pytest.mark.parametrize("name", QUEUES)
def test_a_queue_holds_its_places_until_a_reset_forgets_them(name):
    queue = QUEUES[name]()
    top, reset = with_reset(queue.unit)

    async def bench(ctx):
        for _round in range(2):
            model = Model(queue)
            put = [await cycle(ctx, model, item, wants=False) for item in range(queue.places + 4)]
            assert sum(put) == queue.places
            for signal in queue.put:
                ctx.set(signal, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            assert not ctx.get(queue.shown)
        model = Model(queue)
        assert await cycle(ctx, model, 77, wants=True)
        for _cycle in range(queue.latency + 1):
            await cycle(ctx, model, None, wants=True)
        assert not model.held

    simulate(top, bench, cycles=100)


def test_all_kinds_of_queues_are_held_against_the_contract():
    """All queues with one clock: those of `memory`, and those of Amaranth in use."""
    root = Path(matloom_rtl.__file__).parent
    used = set()
    for path in root.rglob("*.py"):
        for names in re.findall(r"from amaranth\.lib\.fifo import (.*)", path.read_text()):
            used |= {name for name in names.split(", ") if not name.startswith("Async")}
    own = {"UncheckedFIFO", "CreditQueue", "SkidBuffer", "StreamRegister"}
    assert used | own == set(QUEUES)
