"""Block RAM as external memory on AXI4, for boards without other memory."""

from itertools import pairwise

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

from matloom_rtl.board.lane import MemoryLane
from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature, ReadBeat
from matloom_rtl.memory.credits import CreditQueue

__all__ = ["BLOCK_WORDS", "BurstMemory", "words_of_bank"]

#: Maximum words per bank: a block RAM of an ECP5 or a Gowin device holds one bit of each of them.
BLOCK_WORDS = 16384

#: Minimum words per bank: smaller banks would be many, and leave most of their block RAMs empty.
_LEAST_WORDS = 512

#: AXI response codes.
_OKAY, _DECODE_ERROR = 0, 3


def words_of_bank(size: int, bus_bits: int) -> int:
    """Return the words per bank of a memory of `size` bytes.

    This is the largest power of two, up to `BLOCK_WORDS`, that divides the memory.

    Raises
    ------
    ValueError
        The size is not a positive multiple of the smallest bank.
    """
    least, words = _LEAST_WORDS * bus_bits // 8, size // (bus_bits // 8)
    if size < least or size % least:
        raise ValueError(f"size must be a multiple of {least} bytes, not {size}")
    return min(BLOCK_WORDS, words & -words)


class BurstMemory(wiring.Component):
    """Block RAM with an AXI4 port; reads and writes are independent.

    A write is visible to every read that begins after its response. Addresses outside the memory
    respond with a decode error, and nothing is written. Ids are returned unchanged.

    Latency: seven cycles from an address to its first beat, one from the last beat of a write to
    its response. Throughput: one beat per cycle, for reads also across bursts; for writes with two
    idle cycles between bursts. Stalls: either side may stall; no output depends combinationally on
    an input.
    Reset aborts bursts in flight and keeps the contents.

    Parameters
    ----------
    bus_bits:
        Width of the bus.
    base:
        Bus address of the first byte, aligned to `size` rounded up to a power of two.
    size:
        Size in bytes, a multiple of a bank.
    bank_words:
        Number of words per bank, a power of two; by default the largest up to `BLOCK_WORDS` that
        divides the memory.

    Members
    -------
    axi_read, axi_write: AxiReadSignature, AxiWriteSignature, in
        The bus.
    """

    def __init__(self, *, bus_bits: int, base: int, size: int, bank_words: int | None = None):
        bank_words = bank_words or words_of_bank(size, bus_bits)
        bank = bank_words * bus_bits // 8
        if size < bank or size % bank:
            raise ValueError(f"size must be a multiple of {bank} bytes, not {size}")
        self._bus_bits, self._words = bus_bits, bank_words
        #: Number of banks.
        self.banks = size // bank
        #: Width in bits of the index of a byte in a word, a word in a bank, a bank in the memory.
        self._byte_bits = (bus_bits // 8 - 1).bit_length()
        self._word_bits = (bank_words - 1).bit_length()
        self._bank_bits = (self.banks - 1).bit_length()
        self._offset_bits = self._byte_bits + self._word_bits + self._bank_bits
        if base % (1 << self._offset_bits):
            raise ValueError(
                f"base must be a multiple of {1 << self._offset_bits:#x}, not {base:#x}"
            )
        self._base = base
        super().__init__(
            {
                "axi_read": In(AxiReadSignature(bus_bits)),
                "axi_write": In(AxiWriteSignature(bus_bits)),
            }
        )

    def elaborate(self, platform):
        """Return the module: the banks of block RAM, and the read and write bursts."""
        m = Module()
        # Narrower lanes would not use all bits of their block RAMs.
        bits = min(self._bus_bits, max(8, BLOCK_WORDS // self._words))
        banks = [
            [MemoryLane(words=self._words, bits=bits) for _ in range(self._bus_bits // bits)]
            for _ in range(self.banks)
        ]
        for index, lanes in enumerate(banks):
            for place, lane in enumerate(lanes):
                m.submodules[f"bank_{index}_{place}"] = lane
        self._read(m, banks)
        self._write(m, banks)
        return m

    def _burst(self, m: Module, name: str, address, go):
        """Track a burst of an address channel; return the index of its current word, id and error.

        `go` advances to the next word. The caller may accept an address only if no burst is in
        progress, or together with the last word of one.
        """
        place = Signal(self._word_bits + self._bank_bits, name=f"{name}_place", reset_less=True)
        id_ = Signal(name=f"{name}_id", reset_less=True)
        bad = Signal(name=f"{name}_bad")
        payload = address.payload
        high = payload.addr[self._offset_bits :] != self._base >> self._offset_bits
        beyond = payload.addr[self._byte_bits : self._offset_bits] >= self.banks * self._words
        with m.If(go):
            m.d.sync += place.eq(place + 1)
        with m.If(address.valid & address.ready):
            m.d.sync += [
                place.eq(payload.addr[self._byte_bits :]),
                id_.eq(payload.id),
                bad.eq(high | beyond),
            ]
        return place, id_, bad

    def _read(self, m: Module, banks):
        """Serve read bursts: words go from the lanes through a common register to a queue."""
        layout = ReadBeat(self._bus_bits)
        m.submodules.queue = queue = CreditQueue(layout, registered=("last",))
        ar = self.axi_read.ar
        active = Signal()
        left = Signal(8, reset_less=True)
        go = Signal()
        last = left == 0
        m.d.comb += [go.eq(active & queue.room), queue.start.eq(go), ar.ready.eq(~active)]
        place, id_, bad = self._burst(m, "read", ar, go)
        with m.If(go):
            m.d.sync += [left.eq(left - 1), active.eq(~last)]
        with m.If(go & last):
            m.d.comb += ar.ready.eq(1)
        with m.If(ar.valid & ar.ready):
            m.d.sync += [active.eq(1), left.eq(ar.payload.len)]

        # Attributes of a word, by the pipeline stage that its data has reached.
        word = Signal(self._word_bits, reset_less=True)
        stages = [
            {
                "valid": Signal(name=f"valid_{stage}"),
                "rest": Signal(3 + self._bank_bits, name=f"rest_{stage}", reset_less=True),
            }
            for stage in range(5)
        ]
        m.d.sync += [
            word.eq(place),
            stages[0]["valid"].eq(go),
            stages[0]["rest"].eq(Cat(id_, bad, last, place[self._word_bits :])),
        ]
        for before, after in pairwise(stages):
            m.d.sync += [after[name].eq(before[name]) for name in after]
        m.d.comb += [lane.read_word.eq(word) for lanes in banks for lane in lanes]
        held = [Cat(lane.found for lane in lanes) for lanes in banks]
        found = Signal(self._bus_bits, reset_less=True)
        which = stages[3]["rest"][3:]
        m.d.sync += found.eq(Array(held)[which] if self._bank_bits else held[0])
        rest = stages[4]["rest"]
        m.d.comb += [
            queue.w_en.eq(stages[4]["valid"]),
            queue.w_data.data.eq(found),
            queue.w_data.id.eq(rest[0]),
            queue.w_data.resp.eq(rest[1].replicate(2) & _DECODE_ERROR),
            queue.w_data.last.eq(rest[2]),
        ]
        connect(m, queue.o, flipped(self.axi_read.r))

    def _write(self, m: Module, banks):
        """Serve write bursts through a register; respond as soon as it contains the last word.

        A read that follows the response reaches its lane later than the last word does.
        """
        aw, w, b = self.axi_write.aw, self.axi_write.w, self.axi_write.b
        active = Signal()
        go = Signal()
        m.d.comb += [
            aw.ready.eq(~active & ~b.valid),
            w.ready.eq(active),
            go.eq(active & w.valid),
        ]
        place, id_, bad = self._burst(m, "write", aw, go)
        word = Signal(self._word_bits, reset_less=True)
        data = Signal(self._bus_bits, reset_less=True)
        m.d.sync += [word.eq(place), data.eq(w.payload.data)]
        bank = place[self._word_bits :]
        for index, lanes in enumerate(banks):
            strobes = Signal(self._bus_bits // 8, name=f"strobes_{index}")
            here = go & ~bad & (bank == index)
            m.d.sync += strobes.eq(w.payload.strb & here.replicate(len(strobes)))
            for place_, lane in enumerate(lanes):
                bits, bytes_ = len(lane.data), len(lane.strobes)
                m.d.comb += [
                    lane.write_word.eq(word),
                    lane.data.eq(data.word_select(place_, bits)),
                    lane.strobes.eq(strobes.word_select(place_, bytes_)),
                ]
        with m.If(aw.valid & aw.ready):
            m.d.sync += active.eq(1)
        with m.If(b.valid & b.ready):
            m.d.sync += b.valid.eq(0)
        with m.If(go & w.payload.last):
            m.d.sync += [
                active.eq(0),
                b.valid.eq(1),
                b.payload.id.eq(id_),
                b.payload.resp.eq(bad.replicate(2) & _DECODE_ERROR),
            ]
