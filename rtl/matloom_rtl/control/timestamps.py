"""The completion-time table: in which cycle each marked instruction completed."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import UNITS
from matloom_rtl.ports import mark_bits

__all__ = ["Timestamps"]


class Timestamps(wiring.Component):
    """Store the cycle of every completion whose timestamp is not 0.

    Each unit's completion is latched with its cycle and written when the one write port is free,
    four cycles later at the most. Two marked completions of one unit within four cycles lose the
    first; marks are for layers. `start` clears the table, one slot a cycle, and what completes
    meanwhile waits until the end of that.

    Members
    -------
    start: in
    cycle: in
        The cycle counter; it counts every cycle, or stands still.
    done, done_mark: in
        Completions, by unit.
    slot, stored: in, out
        Read port: the cycle follows its slot by one cycle.
    """

    def __init__(self, config: Config):
        self._timestamps = config.timestamps
        super().__init__(
            {
                "start": In(1),
                "cycle": In(32),
                "done": In(len(UNITS)),
                "done_mark": In(data.ArrayLayout(mark_bits(config), len(UNITS))),
                "slot": In(range(config.timestamps)),
                "stored": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = Memory(shape=32, depth=self._timestamps, init=[])
        write, read = table.write_port(), table.read_port()
        m.d.comb += [read.addr.eq(self.slot), self.stored.eq(read.data)]

        clearing, clear_slot = Signal(), Signal(range(self._timestamps))
        pending = Signal(len(UNITS))
        slots = Array(
            Signal(range(self._timestamps), name=f"slot_{n}", reset_less=True)
            for n in range(len(UNITS))
        )
        # Of the cycle the lower bits: it is not long ago when it is written.
        bits = (self._timestamps + 2 * len(UNITS)).bit_length()
        cycles = Array(Signal(bits, name=f"cycle_{n}", reset_less=True) for n in range(len(UNITS)))
        low = Signal(bits)
        # Zero while the table is cleared, as the lower bits are then.
        upper = Mux(clearing, 0, self.cycle[bits:]) - (low > self.cycle[:bits])
        m.d.comb += write.data.eq(Cat(low, upper[: 32 - bits]))
        for number in range(len(UNITS)):
            with m.If(~clearing & pending[number] & ~pending[:number].any()):
                m.d.comb += [
                    write.en.eq(1),
                    write.addr.eq(slots[number]),
                    low.eq(cycles[number]),
                ]
                m.d.sync += pending[number].eq(0)
            with m.If(self.done[number] & (self.done_mark[number] != 0)):
                m.d.sync += [
                    pending[number].eq(1),
                    slots[number].eq(self.done_mark[number]),
                    cycles[number].eq(self.cycle),
                ]
        with m.If(clearing):
            m.d.comb += [write.en.eq(1), write.addr.eq(clear_slot)]
            m.d.sync += clear_slot.eq(clear_slot + 1)
            with m.If(clear_slot == self._timestamps - 1):
                m.d.sync += clearing.eq(0)
        with m.If(self.start):
            m.d.sync += [clearing.eq(1), clear_slot.eq(0), pending.eq(0)]
        return m
