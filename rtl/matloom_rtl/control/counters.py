"""Counts what each cycle of a run went into."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.csr import COUNTERS, EXEC_CAUSES

__all__ = ["SLOT_BITS", "Counters"]

_NAMES = [name for name, _doc in COUNTERS]
assert _NAMES[0] == "cycles"

#: Bits of the number of a counter.
SLOT_BITS = (len(_NAMES) - 1).bit_length()


class Counters(wiring.Component):
    """Keep the counters of `arch/csr.py`: cleared by `start`, counting while `running`.

    A cycle's events count in the cycle after, so the last cycle of a run is part of the totals.

    `cycles` is a register. Of every other counter a register holds the events since its last visit;
    one counter is visited a cycle, in turn, and its events are added to its total, which is in a
    memory. So 32 bits of adder serve all, and reading waits for a visit: `value` is the counter's
    in a cycle with `shown`, a turn and two cycles (21) after `slot` changed at the latest. Events
    of the two cycles before may be missing, which is none once a run has ended for four cycles.

    `Config.counters` chooses what is built; what is not reads as zero.

    Members
    -------
    start, running: in
    exec_cause: in
        One bit for each of `EXEC_CAUSES`.
    dispatched, load_busy, post_busy, store_busy: in
    read_burst, read_beat, write_burst, write_beat: in
        Events of the bus.
    cycles: out
        The first counter, always.
    slot: in
        Which of the other counters is asked for; its number in `COUNTERS`.
    value, shown: out
        Its value, where `shown`.
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
        m = Module()
        m.d.comb += self.shown.eq(1)
        if self._counters > 0:
            self._count_cycles(m)
        if self._counters > 1:
            self._count_events(m)
        return m

    def _count_cycles(self, m: Module):
        counting = Signal()
        m.d.sync += counting.eq(self.running)
        with m.If(self.start):
            m.d.sync += self.cycles.eq(0)
        with m.Elif(counting):
            m.d.sync += self.cycles.eq(self.cycles + 1)

    def _events(self):
        """Return the source of every counter but the first, by its name."""
        causes = {name: self.exec_cause[index] for index, (name, _doc) in enumerate(EXEC_CAUSES)}
        return {
            "instructions": self.dispatched,
            **causes,
            "load_busy": self.load_busy,
            "post_busy": self.post_busy,
            "store_busy": self.store_busy,
            "read_bursts": self.read_burst,
            "read_beats": self.read_beat,
            "write_bursts": self.write_burst,
            "write_beats": self.write_beat,
        }

    def _count_events(self, m: Module):
        count = len(_NAMES)
        m.submodules.totals = totals = Memory(shape=32, depth=1 << SLOT_BITS, init=[])
        write, read = totals.write_port(), totals.read_port(domain="comb")
        # The counter that is visited, and the one before it, whose events are added.
        visited, adding = Signal(SLOT_BITS, init=1), Signal(SLOT_BITS)
        # In the first turn after a start, totals are those of the run before; nothing is added of
        # a counter that is visited in the cycle of the start.
        first, first_add = Signal(init=1), Signal(init=1)
        since, events = [], self._events()
        for number, name in enumerate(_NAMES[1:], start=1):
            # As many as a turn has cycles.
            event, recent = (
                Signal(name=f"event_{name}"),
                Signal(range(count), name=f"recent_{name}"),
            )
            m.d.sync += event.eq(events[name] & self.running)
            m.d.sync += recent.eq(Mux(visited == number, 0, recent) + event)
            with m.If(self.start):
                m.d.sync += recent.eq(0)
            since.append(recent)
        amount = Signal(range(count))
        m.d.sync += [
            amount.eq(Array([0, *since])[visited]),
            adding.eq(visited),
            first_add.eq(first),
        ]
        with m.If(visited == count - 1):
            m.d.sync += [visited.eq(1), first.eq(0)]
        with m.Else():
            m.d.sync += visited.eq(visited + 1)
        with m.If(self.start):
            m.d.sync += [visited.eq(1), first.eq(1), amount.eq(0)]

        total, told = Signal(32), Signal(SLOT_BITS)
        m.d.comb += [
            read.addr.eq(adding),
            total.eq(Mux(first_add, 0, read.data) + amount),
            write.addr.eq(adding),
            write.data.eq(total),
            write.en.eq(1),
            self.shown.eq(told == self.slot),
        ]
        m.d.sync += [self.value.eq(total), told.eq(adding)]
