"""Instruction memory, shared by the queues of all units."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import FORMATS, UNITS
from matloom_rtl.control.layouts import GRANULE_BITS, LONGEST, notes_layout, place_bits

__all__ = ["InstructionMemory"]


class InstructionMemory(wiring.Component):
    """Hold instruction words from their arrival until the queue of their unit has read them.

    Words are stored in order of arrival in a ring. A place is free again once its word has been
    read; instructions may be read in any order. An instruction is identified by the place of its
    last word, next to which its notes are stored.

    Latency: a unit that asks in cycle t receives its words from t + 1 on, one per cycle, the last
    word first, unless another unit is reading. Throughput: one word stored and one read per cycle,
    with one idle cycle between instructions; units earlier in `UNITS` have priority. Stalls: `i`
    waits for a free place, and one cycle longer. Reset empties the memory.

    Members
    -------
    i: stream of instruction words, in
    last: out
        Place of the word stored most recently.
    note, notes: in
        Store these notes for the instruction that ends at `last`.
    asks, places: in
        For each unit: request the instruction that ends at this place. Hold until word 0 has
        arrived.
    word, word_notes: out
        The word being read; the notes are valid with an instruction's last word.
    brings, index: out
        For each unit, whether `word` is for it; and the index of `word` in its instruction.
    """

    def __init__(self, config: Config):
        self._notes = notes_layout(config)
        self._bits = place_bits(config)
        super().__init__(
            {
                "i": In(stream.Signature(GRANULE_BITS)),
                "last": Out(self._bits, init=-1),
                "note": In(1),
                "notes": In(self._notes),
                "asks": In(len(UNITS)),
                "places": In(data.ArrayLayout(self._bits, len(UNITS))),
                "word": Out(GRANULE_BITS),
                "word_notes": Out(self._notes),
                "brings": Out(len(UNITS)),
                "index": Out(range(LONGEST)),
            }
        )

    def elaborate(self, platform):
        """Return the module: the memories of words and notes, and the reads for the queues."""
        m = Module()
        depth = 1 << self._bits
        m.submodules.words = words = Memory(shape=GRANULE_BITS, depth=depth, init=[])
        m.submodules.noted = noted = Memory(shape=self._notes, depth=depth, init=[])
        store, note = words.write_port(), noted.write_port()
        read, read_note = words.read_port(domain="comb"), noted.read_port(domain="comb")
        occupied = Signal(depth)
        following = Signal(self._bits)
        place = Signal(self._bits)
        free = Signal(init=1)
        m.d.comb += [
            following.eq(self.last + 1),
            self.i.ready.eq(free),
            *(store.addr.eq(following), store.data.eq(self.i.payload)),
            store.en.eq(self.i.valid & self.i.ready),
            *(note.addr.eq(self.last), note.data.eq(self.notes), note.en.eq(self.note)),
            *(read.addr.eq(place), read_note.addr.eq(place)),
            *(self.word.eq(read.data), self.word_notes.eq(read_note.data)),
        ]
        # Registered: FETCH is far away, and `ready` reaches all bits of a word. Whether a word
        # comes is known last, so both possible places are examined in advance.
        here, beyond = (
            ~occupied.bit_select(place, 1) for place in (following, (self.last + 2)[: self._bits])
        )
        m.d.sync += free.eq(Mux(store.en, beyond, here))
        reading = self._read(m, place)
        with m.If(reading):
            m.d.sync += occupied.bit_select(place, 1).eq(0)
        # Writes go only to free places, which are never read.
        with m.If(store.en):
            m.d.sync += [occupied.bit_select(following, 1).eq(1), self.last.eq(following)]
        return m

    def _read(self, m: Module, place):
        """Select a unit, and read its instruction from the last word to the first.

        Return whether the word at `place` is being read.
        """
        reading = self.brings.any()
        m.d.sync += [place.eq(place - 1), self.index.eq(self.index - 1)]
        with m.If(self.index == 0):
            m.d.sync += self.brings.eq(0)
        with m.If(~reading):
            for number, unit in reversed(list(enumerate(UNITS))):
                with m.If(self.asks[number]):
                    m.d.sync += [
                        self.brings.eq(1 << number),
                        place.eq(self.places[number]),
                        self.index.eq(FORMATS[unit].instruction_words - 1),
                    ]
        return reading
