"""Table of completion times: the cycle in which each marked instruction completed."""

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

    Each unit's completion is latched with its cycle and written when the single write port is
    free: within four cycles, plus two if the table is being read. If one unit completes two marked
    instructions within that time, the first is lost; marks are meant for layers. `start` clears
    the table, one slot per cycle; completions wait until that is done.

    Members
    -------
    start: in
        Clear the table.
    cycle: in
        The cycle counter. It increments in every cycle or stands still, and is zero at the latest
        in the second cycle after `start`.
    done, done_mark: in
        For each unit: an instruction completes, and its timestamp: the slot to write, or 0.
    reading, slot, stored: in, in, out
        Read port: the cycle is valid one cycle after its slot. Reads suspend writes, and come at
        most in every fourth cycle.
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
        """Return the module: a memory of cycles, and the completions that await a write to it."""
        m = Module()
        # No writes during reads, so that the memory needs no logic for collisions.
        table = Memory(shape=32, depth=self._timestamps, init=[], attrs={"no_rw_check": 1})
        m.submodules.table = table
        write, read = table.write_port(), table.read_port()
        m.d.comb += [read.addr.eq(self.slot), self.stored.eq(read.data)]

        # Clearing starts two slots early, while `cycle` still belongs to the last run.
        clearing = Signal()
        clear_slot = Signal(range(2 * self._timestamps))
        early = (1 << len(clear_slot)) - 2
        pending = Signal(len(UNITS))
        # Lower bits of the cycle. They suffice to restore the whole: it is recent when it is
        # written, unless the table was being cleared, and then the upper bits are zero.
        bits = (self._timestamps + 4 * len(UNITS)).bit_length()
        slots, cycles = (
            [Signal(size, name=f"{name}_{n}", reset_less=True) for n in range(len(UNITS))]
            for name, size in (("slot", len(write.addr)), ("cycle", bits))
        )
        # The first waiting unit, as a binary number: a multiplexer takes fewer tables that way.
        first = Signal(range(len(UNITS)))
        for number in reversed(range(len(UNITS))):
            with m.If(pending[number]):
                m.d.comb += first.eq(number)
        # Zero while the table is cleared, as are the upper bits.
        low = Mux(clearing, 0, choose(cycles, first))
        # If the highest of the lower bits has fallen since, the upper bits have advanced by one.
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
