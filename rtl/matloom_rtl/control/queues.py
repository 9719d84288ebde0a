"""Queues of all units, sharing one instruction memory."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom.arch.config import Config
from matloom.arch.isa import UNITS, Opcode
from matloom_rtl.control.instructions import InstructionMemory
from matloom_rtl.control.layouts import GRANULE_BITS, count_bits, notes_layout
from matloom_rtl.control.queue import UnitQueue
from matloom_rtl.ports import body_layout

__all__ = ["Queues"]


class Queues(wiring.Component):
    """Hold instructions from their first word until their units take them.

    Latency and stalls are those of `InstructionMemory` and `UnitQueue`. Reset empties all queues.

    Members
    -------
    i: stream of instruction words, in
        Words in order, stored on arrival.
    load, exec, post, store: streams of `notes_layout`, in
        Put the instruction whose last word arrived most recently into the queue of this unit, with
        its waits.
    issue: in
        One bit for each unit: the latest instruction in its queue has passed all checks.
    completed: in
        Number of completions of each unit.
    o_load, o_exec, o_post, o_store: streams of `body_layout`, out
        Head of each queue, valid when its dependencies are met; that of EXEC is always valid.
    met: array of bits for each unit, out
        For each queue, a bit for each unit: the dependency of the head on it is met.
    """

    def __init__(self, config: Config):
        self._config = config
        names = {unit.name.lower(): unit for unit in UNITS}
        notes = stream.Signature(notes_layout(config))
        super().__init__(
            {
                "i": In(stream.Signature(GRANULE_BITS)),
                **{name: In(notes) for name in names},
                "issue": In(len(UNITS)),
                "completed": In(data.ArrayLayout(count_bits(config), len(UNITS))),
                **{
                    f"o_{name}": Out(stream.Signature(body_layout(unit, config)))
                    for name, unit in names.items()
                },
                "met": Out(data.ArrayLayout(len(UNITS), len(UNITS))),
            }
        )

    def elaborate(self, platform):
        """Return the module: the instruction memory, and a queue for each unit."""
        m = Module()
        given = [getattr(self, unit.name.lower()) for unit in UNITS]
        m.submodules.instructions = memory = InstructionMemory(self._config)
        connect(m, flipped(self.i), memory.i)
        m.d.comb += [
            memory.note.eq(Cat(each.valid for each in given).any()),
            # All queues receive the same notes.
            memory.notes.eq(given[0].payload),
        ]
        for number, unit in enumerate(UNITS):
            name = unit.name.lower()
            queue = UnitQueue(self._config, unit, gated=unit is not Opcode.EXEC)
            m.submodules[name] = queue
            connect(m, queue.o, flipped(getattr(self, f"o_{name}")))
            m.d.comb += [
                queue.i.valid.eq(given[number].valid),
                queue.i.payload.eq(memory.last),
                given[number].ready.eq(queue.i.ready),
                memory.asks[number].eq(queue.asks),
                memory.places[number].eq(queue.place),
                queue.brings.eq(memory.brings[number]),
                queue.index.eq(memory.index),
                queue.word.eq(memory.word),
                queue.notes.eq(memory.word_notes),
                queue.completed.eq(self.completed),
                queue.issued.eq(self.issue[number]),
                self.met[number].eq(queue.met),
            ]
        return m
