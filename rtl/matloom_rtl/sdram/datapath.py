"""Data path between the beats of the bus and the words at the data pins."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.sdram.pins import ControllerPlan

__all__ = ["DataPath"]


class DataPath(wiring.Component):
    """Send a beat word by word for each WRITE, and assemble a beat from words for each READ.

    `dq_o`, `oe` and `dqm` are registers: for a command issued in cycle t, command and first word
    are at the pins in t + 1. `dq_i` is captured in a register.

    Members
    -------
    write, write_data: in
        WRITE is issued in this cycle, with these bytes and strobes.
    read: in
        READ is issued in this cycle.
    final, id: in
        The READ is for the last beat of its burst; id of the burst.
    ready: in
        While 0, all bytes are masked.
    dq_i: in
        Data pins.
    dq_o, oe, dqm: out
        Data for the pins, output enable, and byte masks.
    give, read_data: out
        A beat that was read, `latency` cycles after its READ; valid with `give`.
    """

    def __init__(self, plan: ControllerPlan):
        self._plan = plan
        bits, pins = plan.bus_bits, plan.word_bits
        super().__init__(
            {
                **{name: In(1) for name in ("write", "read", "final", "id", "ready")},
                "write_data": In(data.StructLayout({"data": bits, "strb": bits // 8})),
                "dq_i": In(pins),
                "dq_o": Out(pins),
                "oe": Out(1),
                "dqm": Out(pins // 8, init=-1),
                "give": Out(1),
                "read_data": Out(data.StructLayout({"data": bits, "id": 1, "last": 1})),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from a READ command to its beat."""
        plan = self._plan
        return plan.waits.cas_latency + 2 + plan.pin_cycles + plan.burst - 1

    def elaborate(self, platform):
        """Return the module: the path to the data pins, and the path from them."""
        m = Module()
        self._send(m)
        self._gather(m)
        return m

    def _send(self, m: Module):
        """Drive the words of a WRITE and their masks at the data pins, one after another."""
        width, burst = self._plan.word_bits, self._plan.burst
        beat = self.write_data
        # The rest of a beat after its first word.
        words = Signal((burst - 1) * width, reset_less=True)
        masks = Signal((burst - 1) * width // 8)
        left = Signal(burst - 1)
        m.d.sync += [
            self.dq_o.eq(words[:width]),
            words.eq(words[width:]),
            self.dqm.eq(masks[: width // 8] | (~self.ready).replicate(width // 8)),
            masks.eq(masks[width // 8 :]),
            self.oe.eq(left[:1]),
            left.eq(left[1:]),
        ]
        with m.If(self.write):
            m.d.sync += [
                Cat(self.dq_o, words).eq(beat.data),
                Cat(self.dqm, masks).eq(~beat.strb),
                Cat(self.oe, left).eq((1 << burst) - 1),
            ]

    def _gather(self, m: Module):
        """Collect the words of a READ from the data pins; signal when a beat is complete."""
        width, burst = self._plan.word_bits, self._plan.burst
        caught = Signal(burst * width, reset_less=True)
        m.d.sync += caught.eq(Cat(caught[width:], self.dq_i))
        passing = Cat(self.read, self.final, self.id)
        for stage in range(self.latency):
            register = Signal(3, name=f"passing_{stage}", init=0)
            m.d.sync += register.eq(passing)
            passing = register
        m.d.comb += [
            Cat(self.give, self.read_data.last, self.read_data.id).eq(passing),
            self.read_data.data.eq(caught),
        ]
