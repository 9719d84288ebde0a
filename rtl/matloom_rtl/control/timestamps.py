"""The completion-time table: the cycle in which each marked instruction completed."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import UNITS
from matloom_rtl.control.choose import choose
from matloom_rtl.ports import mark_bits

__all__ = ["Timestamps"]


class Timestamps(wiring.Component):
    """Store the cycle of every completion whose timestamp is not 0.

    Each unit's completion is latched with its cycle and written when the one write port is free,
    four cycles later at the most, and two more where the table is read. Two marked completions of
    one unit within these lose the first; marks are for layers. `start` clears the table, one slot a
    cycle, and what completes meanwhile waits until the end of that.

    Members
    -------
    start: in
    cycle: in
        The cycle counter; it counts every cycle, or stands still, from zero in the second cycle
        after `start` at the latest.
    done, done_mark: in
        Completions, by unit.
    reading, slot, stored: in, in, out
        Read port: the cycle follows its slot by one cycle. Nothing is written meanwhile: it is read
        in every fourth cycle at most.
    """

    def __init__(self, config: Config):
        self._timestamps = config.timestamps
        super().__init__(
            {
                "start": In(1),
                "cycle": In(32),
                "done": In(len(UNITS)),
                "done_mark": In(data.ArrayLayout(mark_bits(config), len(UNITS))),
                "reading": In(1),
                "slot": In(range(config.timestamps)),
                "stored": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # Nothing is written while it is read: no logic for what a read would then see.
        table = Memory(shape=32, depth=self._timestamps, init=[], attrs={"no_rw_check": 1})
        m.submodules.table = table
        write, read = table.write_port(), table.read_port()
        m.d.comb += [read.addr.eq(self.slot), self.stored.eq(read.data)]

        # It begins two slots early, while the cycle is that of the last run.
        clearing = Signal()
        clear_slot = Signal(range(2 * self._timestamps))
        early = (1 << len(clear_slot)) - 2
        pending = Signal(len(UNITS))
        # Of the cycle the lower bits: it is not long ago when it is written, unless the table was
        # cleared first, and then they are all of it.
        bits = (self._timestamps + 4 * len(UNITS)).bit_length()
        slots, cycles = (
            [Signal(size, name=f"{name}_{n}", reset_less=True) for n in range(len(UNITS))]
            for name, size in (("slot", len(write.addr)), ("cycle", bits))
        )
        # The first that waits; a choice by its number takes fewer tables than one by four flags.
        first = Signal(range(len(UNITS)))
        for number in reversed(range(len(UNITS))):
            with m.If(pending[number]):
                m.d.comb += first.eq(number)
        # Zero while the table is cleared, and so are the upper bits then.
        low = Mux(clearing, 0, choose(cycles, first))
        # Once the highest of the lower bits has fallen, the upper ones are those of a later cycle.
        upper = self.cycle[bits:] - (low[-1] & ~self.cycle[bits - 1])
        m.d.comb += [
            write.en.eq(~self.reading & (clearing | pending.any())),
            write.addr.eq(Mux(clearing, clear_slot[: len(write.addr)], choose(slots, first))),
            write.data.eq(Cat(low, upper[: 32 - bits])),
        ]
        for number in range(len(UNITS)):
            with m.If(write.en & ~clearing & (first == number)):
                m.d.sync += pending[number].eq(0)
            with m.If(self.done[number] & (self.done_mark[number] != 0)):
                m.d.sync += [
                    pending[number].eq(1),
                    slots[number].eq(self.done_mark[number]),
                    cycles[number].eq(self.cycle),
                ]
        with m.If(write.en & clearing):
            m.d.sync += clear_slot.eq(clear_slot + 1)
            with m.If(clear_slot == self._timestamps - 1):
                m.d.sync += clearing.eq(0)
        with m.If(self.start):
            m.d.sync += [clearing.eq(1), clear_slot.eq(early), pending.eq(0)]
        return m
