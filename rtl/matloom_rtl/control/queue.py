"""Queue of instructions in front of a unit, and the gate that holds them until they may start."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import FORMATS, UNITS, Opcode
from matloom_rtl.control.layouts import (
    GRANULE_BITS,
    LONGEST,
    count_bits,
    notes_layout,
    place_bits,
    queue_places,
    view_body,
)
from matloom_rtl.ports import body_layout

__all__ = ["UnitQueue"]


class UnitQueue(wiring.Component):
    """Queue up to `queue_depth` instructions of a unit, in order (at least three).

    Instructions arrive before the dispatcher has checked them. The latest one is shown only once
    it is `issued`. The head is read from `InstructionMemory` into a register, which feeds `o`.

    `met` shows which dependencies of the head are met: the completions of the unit exceed the
    target, compared modulo ``2**count_bits(config)``. From the time the head is read this is
    evaluated in every cycle, and a dependency once met stays met, so any number of instructions may
    complete in other units while the head waits. With `gated`, `o` is valid only when all
    dependencies are met. EXEC is not gated, because it fetches weights earlier.

    Latency: two cycles from `issued` to `o`, if the instruction has already been read; one cycle
    from `completed` to `met`. Throughput: one instruction in three cycles plus one per
    instruction word, if no other unit reads meanwhile. Stalls: `o` is held until taken.

    Members
    -------
    i: stream of places, in
        An instruction, identified by the place of its last word. The next may come only after it
        is issued.
    issued: in
        The latest instruction has passed all checks.
    asks, place: out
        Read request to `InstructionMemory`.
    brings, index, word, notes: in
        Response: a word and its index in the instruction, the last word first; the notes are valid
        with the first word to arrive.
    completed: in
        Number of completions of each unit, `count_bits` each.
    o: stream of `body_layout`, out
        The head.
    met: out
        One bit for each unit: the dependency of the head on it is met, or there is none.
    """

    def __init__(self, config: Config, opcode: Opcode, *, gated: bool = True):
        self._config, self._opcode, self._gated = config, opcode, gated
        super().__init__(
            {
                "i": In(stream.Signature(place_bits(config))),
                "issued": In(1),
                "asks": Out(1),
                "place": Out(place_bits(config)),
                "brings": In(1),
                "index": In(range(LONGEST)),
                "word": In(GRANULE_BITS),
                "notes": In(notes_layout(config)),
                "completed": In(data.ArrayLayout(count_bits(config), len(UNITS))),
                "o": Out(stream.Signature(body_layout(opcode, config))),
                "met": Out(len(UNITS)),
            }
        )

    def elaborate(self, platform):
        """Return the module: a FIFO, and the register of the oldest instruction."""
        m = Module()
        places = queue_places(self._config)
        m.submodules.fifo = fifo = SyncFIFO(width=len(self.place), depth=places)
        present = Signal()
        checked = Signal(init=1)
        m.d.comb += [
            fifo.w_data.eq(self.i.payload),
            fifo.w_en.eq(self.i.valid),
            self.i.ready.eq(fifo.w_rdy),
            fifo.r_en.eq(self.brings & (self.index == 0)),
            self.asks.eq(fifo.r_rdy & ~present),
            self.place.eq(fifo.r_data),
        ]
        with m.If(self.issued):
            m.d.sync += checked.eq(1)
        with m.Elif(self.i.valid & self.i.ready):
            m.d.sync += checked.eq(0)
        notes = self._load_head(m, present)

        # Met until the next head. The head is the latest instruction if none follows it.
        stays = Signal()
        shown = Signal()
        judged = Signal()
        m.d.comb += [
            self.o.valid.eq(self.met.all() if self._gated else judged),
            stays.eq(present & ~(self.o.valid & self.o.ready)),
            shown.eq(stays & (checked | fifo.r_rdy)),
        ]
        with m.If(present & ~stays):
            m.d.sync += present.eq(0)
        m.d.sync += judged.eq(shown)
        for index in range(len(UNITS)):
            target = notes.targets[index]
            beyond = (target - self.completed[index])[len(target) - 1]
            met = self.met[index] | ~notes.waits[index] | beyond
            m.d.sync += self.met[index].eq(shown & met)
        return m

    def _load_head(self, m: Module, present):
        """Load incoming words into the register of the head; return its notes: its waits."""
        count = FORMATS[self._opcode].instruction_words
        head = Signal(count * GRANULE_BITS, reset_less=True)
        notes = Signal(notes_layout(self._config), reset_less=True)
        with m.If(self.brings):
            for index in range(count):
                with m.If(self.index == index):
                    m.d.sync += head.word_select(index, GRANULE_BITS).eq(self.word)
            with m.If(self.index == count - 1):
                m.d.sync += notes.eq(self.notes)
            with m.If(self.index == 0):
                m.d.sync += present.eq(1)
        m.d.comb += self.o.payload.eq(view_body(head, self._opcode, self._config))
        return notes
