"""Performance counters of a run: cycles, cycles by what EXEC did in them, and events."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.csr import COUNTERS, EXEC_CAUSES

__all__ = ["SLOT_BITS", "Counters"]

_NAMES = [name for name, _doc in COUNTERS]
_CAUSES = [name for name, _doc in EXEC_CAUSES]
assert _NAMES[0] == "cycles"

#: Width of a counter's index in `COUNTERS`.
SLOT_BITS = (len(_NAMES) - 1).bit_length()

#: Width of a counter's address in its memory.
_PLACE_BITS = 4


class Counters(wiring.Component):
    """Performance counters of `arch/csr.py`: cleared by `start`, counting while `running`.

    Events are counted one cycle later, so that the last cycle of a run is included.

    `cycles` is a register; all other counters are in two memories with an adder each. Causes, at
    most one per cycle, are counted directly in memory. For each other counter, a register collects
    events; one counter after another is visited, one per cycle, and the collected events are added
    to its total in memory.

    Latency: `value` is valid in a cycle with `shown`, at most 11 cycles after `slot` changes. It
    may lack the events of the last few cycles; four cycles after the end of a run it is exact.

    `Config.counters` selects the counters that are built; the others read as zero.

    Members
    -------
    start, running: in
        Clear the counters, and count.
    exec_cause: in
        One bit for each of `EXEC_CAUSES`.
    dispatched, load_busy, post_busy, store_busy: in
    read_burst, read_beat, write_burst, write_beat: in
        Bus events.
    cycles: out
        The first counter, always valid.
    slot: in
        Index in `COUNTERS` of another counter to be read.
    value, shown: out
        Value of that counter, valid with `shown`.
    """

    def __init__(self, config: Config):
        self._counters = config.counters
        super().__init__(
            {
                "start": In(1),
                "running": In(1),
                "exec_cause": In(len(EXEC_CAUSES)),
                "dispatched": In(1),
                "load_busy": In(1),
                "post_busy": In(1),
                "store_busy": In(1),
                "read_burst": In(1),
                "read_beat": In(1),
                "write_burst": In(1),
                "write_beat": In(1),
                "cycles": Out(32),
                "slot": In(SLOT_BITS),
                "value": Out(32),
                "shown": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: the cycle counter, and the memories of the other counters."""
        m = Module()
        m.d.comb += self.shown.eq(1)
        if self._counters > 0:
            self._count_cycles(m)
        if self._counters > 1:
            self._count_events(m)
        return m

    def _count_cycles(self, m: Module):
        """Count the cycles of a run in `cycles`; `start` clears the count."""
        counting = Signal()
        m.d.sync += counting.eq(self.running)
        with m.If(self.start):
            m.d.sync += self.cycles.eq(0)
        with m.Elif(counting):
            m.d.sync += self.cycles.eq(self.cycles + 1)

    def _events(self):
        """Return the event signals, by the name of the counter; causes and cycles are left out."""
        return {
            "instructions": self.dispatched,
            "load_busy": self.load_busy,
            "post_busy": self.post_busy,
            "store_busy": self.store_busy,
            "read_bursts": self.read_burst,
            "read_beats": self.read_beat,
            "write_bursts": self.write_burst,
            "write_beats": self.write_beat,
        }

    def _count_events(self, m: Module):
        """Count causes and events; drive `value` and `shown` for the counter that `slot` requests.

        A cause is shown at once, any other counter when it is visited.
        """
        asked = Signal(_PLACE_BITS)
        is_cause = Signal()
        with m.Switch(self.slot):
            for number, name in enumerate(_NAMES):
                with m.Case(number):
                    for names, flag in ((_CAUSES, 1), (list(self._events()), 0)):
                        if name in names:
                            m.d.comb += [asked.eq(names.index(name)), is_cause.eq(flag)]
        cause = self._count_causes(m, asked)
        total, added = self._count_visits(m)
        # Keeps the requested one of the totals visited in turn, and its number.
        told = Signal(_PLACE_BITS)
        told_cause = Signal()
        found = Signal(32)
        m.d.sync += [
            found.eq(Mux(is_cause, cause, total)),
            told.eq(Mux(is_cause, asked, added)),
            told_cause.eq(is_cause),
        ]
        m.d.comb += [
            self.value.eq(found),
            self.shown.eq((told == asked) & (told_cause == is_cause)),
        ]

    def _count_causes(self, m: Module, asked):
        """Count each cycle by its cause (why no vector entered the array); return count `asked`."""
        m.submodules.causes = causes = Memory(shape=32, depth=1 << _PLACE_BITS, init=[])
        write = causes.write_port()
        read, look = causes.read_port(domain="comb"), causes.read_port(domain="comb")
        event = Signal()
        place = Signal(_PLACE_BITS)
        # The count is read in one cycle, incremented and written back in the next.
        count = Signal(32, reset_less=True)
        following = Signal(32)
        # Causes counted in this run; the other counts are from an earlier run, and read as zero.
        known = Signal(1 << _PLACE_BITS)
        m.d.sync += event.eq(self.running & self.exec_cause.any())
        for number in range(len(_CAUSES)):
            with m.If(self.exec_cause[number]):
                m.d.sync += place.eq(number)
        m.d.comb += [
            *(read.addr.eq(place), look.addr.eq(asked)),
            *(following.eq(count + 1), write.data.eq(following)),
        ]
        m.d.sync += [write.en.eq(event & ~self.start), write.addr.eq(place)]
        # Forwarded: a count being written is not yet in the memory.
        with m.If(write.en & (write.addr == place)):
            m.d.sync += count.eq(following)
        with m.Else():
            m.d.sync += count.eq(Mux(known.bit_select(place, 1), read.data, 0))
        with m.If(write.en):
            m.d.sync += known.bit_select(write.addr, 1).eq(1)
        with m.If(self.start):
            m.d.sync += known.eq(0)
        return Mux(known.bit_select(asked, 1), look.data, 0)

    def _count_visits(self, m: Module):
        """Update one event counter per cycle; return its new total, and its index in `_events`."""
        events = list(self._events().values())
        turn = len(events)
        m.submodules.totals = totals = Memory(shape=32, depth=1 << _PLACE_BITS, init=[])
        write, read = totals.write_port(), totals.read_port(domain="comb")
        visited = Signal(range(turn))
        adding = Signal(range(turn))
        # In the first turn after a start, totals in memory are those of the last run.
        first = Signal(init=1)
        first_add = Signal(init=1)
        since = []
        for number, source in enumerate(events):
            # Wide enough for one event in each cycle of a turn.
            event = Signal(name=f"event_{number}")
            recent = Signal(range(turn + 1), name=f"recent_{number}")
            m.d.sync += event.eq(source & self.running)
            m.d.sync += recent.eq(Mux(visited == number, 0, recent) + event)
            with m.If(self.start):
                m.d.sync += recent.eq(0)
            since.append(recent)
        amount = Signal(range(turn + 1))
        m.d.sync += [
            *(amount.eq(Array(since)[visited]), adding.eq(visited), first_add.eq(first)),
            visited.eq(Mux(visited == turn - 1, 0, visited + 1)),
        ]
        with m.If(visited == turn - 1):
            m.d.sync += first.eq(0)
        with m.If(self.start):
            m.d.sync += [visited.eq(0), first.eq(1), amount.eq(0)]
        total = Signal(32)
        m.d.comb += [
            *(read.addr.eq(adding), write.addr.eq(adding), write.en.eq(1)),
            total.eq(Mux(first_add, 0, read.data) + amount),
            write.data.eq(total),
        ]
        return total, adding
