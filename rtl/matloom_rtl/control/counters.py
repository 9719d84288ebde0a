"""Counts what each cycle of a run went into."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.csr import COUNTERS, EXEC_CAUSES

__all__ = ["Counters"]


class Counters(wiring.Component):
    """Keep the counters of `arch/csr.py`: cleared by `start`, counting while `running`.

    A cycle's events count in the cycle after, so the last cycle of a run is part of the totals.

    Members
    -------
    start, running: in
    exec_cause: in
        One bit for each of `EXEC_CAUSES`.
    dispatched, load_busy, post_busy, store_busy: in
    read_burst, read_beat, write_burst, write_beat: in
        Events of the bus.
    values: out
        32 bits for each counter, the first lowest.
    """

    def __init__(self):
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
                "values": Out(32 * len(COUNTERS)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        causes = {name: self.exec_cause[index] for index, (name, _doc) in enumerate(EXEC_CAUSES)}
        events = {
            "cycles": 1,
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
        values = []
        for name, _doc in COUNTERS:
            event, value = Signal(name=f"event_{name}"), Signal(32, name=f"count_{name}")
            m.d.sync += event.eq(events[name] & self.running)
            with m.If(self.start):
                m.d.sync += value.eq(0)
            with m.Elif(event):
                m.d.sync += value.eq(value + 1)
            values.append(value)
        m.d.comb += self.values.eq(Cat(values))
        return m
