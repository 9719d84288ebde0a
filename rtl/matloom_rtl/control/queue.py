"""Instructions that wait before a unit, and the gate that holds them until they may start."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import UNITS, Opcode
from matloom_rtl.control.layouts import AHEAD, count_bits, queue_layout, queue_places
from matloom_rtl.ports import body_layout

__all__ = ["UnitQueue"]


class UnitQueue(wiring.Component):
    """Hold up to `queue_depth` instructions of a unit in order (three at least).

    `met` tells for the head which of its dependencies have completed: the completions of a unit
    are beyond the target, in the order of numbers of `count_bits`. With `gated`, `o` is valid only
    when all have; EXEC gates itself, because it fetches weights earlier.

    The head is in a register: units compute with its fields at once, and reading the memory of the
    queue would come on top. Latency: three cycles from `i` to `o`, one from `completed` to `met`.
    Throughput: an instruction in three cycles. Stalls: `o` holds.

    Members
    -------
    i: stream of `queue_layout`, in
    completed: in
        Completions of each unit.
    o: stream of `body_layout`, out
    met: out
        One bit for each unit.
    issued: in
        An instruction goes into this or another queue.
    old: out
        `AHEAD` were issued since the one before the head left, or since the queue was empty: no
        more may be, or the order of numbers is lost.
    """

    def __init__(self, config: Config, opcode: Opcode, *, gated: bool = True):
        self._config, self._opcode, self._gated = config, opcode, gated
        super().__init__(
            {
                "i": In(stream.Signature(queue_layout(opcode, config))),
                "completed": In(data.ArrayLayout(count_bits(config), len(UNITS))),
                "o": Out(stream.Signature(body_layout(opcode, config))),
                "met": Out(len(UNITS)),
                "issued": In(1),
                "old": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        layout = queue_layout(self._opcode, self._config)
        m.submodules.fifo = fifo = SyncFIFO(width=layout.size, depth=queue_places(self._config))
        head, present = Signal(layout, reset_less=True), Signal()
        m.d.comb += [
            fifo.w_data.eq(self.i.payload),
            fifo.w_en.eq(self.i.valid),
            self.i.ready.eq(fifo.w_rdy),
            fifo.r_en.eq(~present),
            self.o.payload.eq(head.body),
        ]
        with m.If(~present):
            m.d.sync += [head.eq(fifo.r_data), present.eq(fifo.r_rdy)]
        # What is met stays met, until the next head.
        stays, judged = Signal(), Signal()
        m.d.comb += [
            self.o.valid.eq(self.met.all() if self._gated else judged),
            stays.eq(present & ~(self.o.valid & self.o.ready)),
        ]
        with m.If(present & ~stays):
            m.d.sync += present.eq(0)
        m.d.sync += judged.eq(stays)
        age = Signal(range(AHEAD + 1))
        m.d.comb += self.old.eq(age == AHEAD)
        with m.If(~stays):
            m.d.sync += age.eq(0)
        with m.Elif(self.issued & ~self.old):
            m.d.sync += age.eq(age + 1)
        for index in range(len(UNITS)):
            target = head.targets[index]
            beyond = (target - self.completed[index])[len(target) - 1]
            m.d.sync += self.met[index].eq(stays & (self.met[index] | ~head.waits[index] | beyond))
        return m
