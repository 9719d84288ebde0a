"""Prefetch of a command buffer for the dispatcher."""

from amaranth.hdl import C, Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.csr import Fault
from matloom.arch.isa import INSTRUCTION_WORD_BYTES
from matloom_rtl.bus.axi import AxiReadSignature
from matloom_rtl.ports import FaultSignature

__all__ = ["Fetch"]

#: Number of bytes to prefetch. The longest burst has half of them, so that one burst is read while
#: another is used.
_AHEAD_BYTES = 32 * INSTRUCTION_WORD_BYTES
_BURST_BYTES = _AHEAD_BYTES // 2


class Fetch(wiring.Component):
    """Read a sequence of instruction words in order, up to 32 ahead.

    A start discards what is left of an earlier one: `o` is withdrawn at once, and beats that are
    still in flight are awaited and dropped before anything is read.

    Latency: `ar` follows `start` by 3 cycles if no beats are in flight; a word follows its last
    beat by at most 3.
    Throughput: that of the bus, at most one instruction word per cycle.
    Stalls: beats are always accepted, so they never delay LOAD's beats behind them. Addresses wait
    until the longest burst has room, and come at most in every other cycle.

    Members
    -------
    start: in
        Begin; high for one cycle.
    address, bytes: in
        Bus address of the first word, and total size in bytes; multiples of 16, taken with `start`.
    o: stream of 128 bits, out
        Instruction words.
    exhausted: out
        All instruction words have been taken; falls in the cycle after `start`.
    axi: AxiReadSignature, out
        Id 0.
    halt: in
        Issue no new address and drop incoming data, until reset.
    quiet: out
        No address is pending and no burst is in flight.
    fault: FaultSignature, out
        AXI_READ and the burst's address for each beat with an error, one cycle after the beat.
        Not for dropped beats, nor for a beat that coincides with a start.
    """

    def __init__(self, config: Config):
        self._width = config.bus_bytes
        self._depth = _AHEAD_BYTES // config.bus_bytes
        longest = min(config.burst_beats, _BURST_BYTES // config.bus_bytes)
        self._index_bits = config.bus_bytes.bit_length() - 1
        self._cut_bits = longest.bit_length() - 1
        super().__init__(
            {
                "start": In(1),
                "address": In(32),
                "bytes": In(32),
                "o": Out(stream.Signature(8 * INSTRUCTION_WORD_BYTES)),
                "exhausted": Out(1, init=1),
                "axi": Out(AxiReadSignature(config.bus_bits)),
                "halt": In(1),
                "quiet": Out(1),
                "fault": Out(FaultSignature()),
            }
        )

    def elaborate(self, platform):
        """Return the module: burst requests, a queue of beats, and the assembly of words."""
        m = Module()
        # Awaiting the beats of an earlier start; nothing is read or delivered meanwhile.
        waiting = Signal()
        owed = Signal(range(self._depth + 1))
        left = Signal(32 - 4)
        # Start address at first, then the address of the burst whose beats arrive.
        burst_address = Signal(32, reset_less=True)
        beats = SyncFIFOBuffered(width=8 * self._width, depth=self._depth)
        m.submodules.beats = ResetInserter(waiting)(beats)

        m.d.comb += self.quiet.eq((owed == 0) & ~self.axi.ar.valid)
        with m.If(waiting & self.quiet):
            m.d.sync += waiting.eq(0)
        asked = self._request_bursts(m, beats, waiting, (burst_address, left))
        came = self._receive(m, beats, waiting, burst_address)
        m.d.sync += owed.eq(owed + asked - came)
        self._deliver(m, beats, waiting, burst_address)
        # `o.valid` comes from a register that knows whether a word is left.
        taken = self.o.valid & self.o.ready
        with m.If(taken):
            m.d.sync += self.exhausted.eq(left == 1)
        with m.If(self.start | taken):
            m.d.sync += left.eq(Mux(self.start, self.bytes[4:], left) - ~self.start)
        with m.If(self.start):
            m.d.sync += waiting.eq(1)
            m.d.sync += self.exhausted.eq(self.bytes[4:] == 0)
        return m

    def _request_bursts(self, m: Module, beats, waiting, begin):
        """Request bursts when there is room; return the number of beats requested in this cycle.

        There must be room for the longest burst, and bursts end at multiples of its length. Only
        one address is shown at a time, because `reserved` must include its beats before the next.
        `begin` is a pair: the start address, and the number of instruction words to read.
        """
        ar, cut_bits = self.axi.ar, self._cut_bits
        beat = Signal(32 - self._index_bits, reset_less=True)
        unasked = Signal(len(beat) + 1, reset_less=True)
        reserved = Signal(range(self._depth + 1))
        room = Signal()
        some = Signal()
        place, window = beat[:cut_bits], beat[cut_bits:]
        to_cut = Signal(cut_bits + 1)
        # Registered, so no address is shown in the first cycle of its `beat`.
        ends = Signal(reset_less=True)
        length = Signal(cut_bits + 1, reset_less=True)
        asked = Signal(cut_bits + 1)
        taken = ar.valid & ar.ready
        m.d.comb += [
            to_cut.eq((1 << cut_bits) - place),
            ar.payload.addr.eq(Cat(C(0, self._index_bits), beat)),
            ar.payload.len.eq((length - 1)[:cut_bits]),
            asked.eq(Mux(taken, length, 0)),
        ]
        fits = ~unasked[cut_bits + 1 :].any() & (unasked[: cut_bits + 1] <= to_cut)
        m.d.sync += [ends.eq(fits), length.eq(Mux(fits, unasked, to_cut))]
        m.d.sync += room.eq(~ar.valid & (reserved <= self._depth - (1 << cut_bits)))
        with m.If(~ar.valid & room & some & ~self.halt):
            m.d.sync += ar.valid.eq(1)
        with m.If(taken):
            m.d.sync += [
                ar.valid.eq(0),
                some.eq(some & ~ends),
            ]
        # Freed places are counted one cycle late, for a shorter path.
        freed = Signal()
        m.d.sync += [
            freed.eq(beats.r_en & beats.r_rdy),
            reserved.eq(reserved + asked - freed),
        ]
        address, left = begin
        # A single subtractor, which subtracts nothing at the start: the selection of its operand
        # goes into its carry cells.
        before = Mux(waiting, self._beats_of(address, left), unasked)
        begins = address[self._index_bits :]
        with m.If(taken | (waiting & self.quiet)):
            m.d.sync += [
                unasked.eq(before - Mux(waiting, 0, to_cut)),
                place.eq(Mux(waiting, begins[:cut_bits], 0)),
                window.eq(Mux(waiting, begins[cut_bits:], window) + ~waiting),
            ]
        with m.If(waiting):
            m.d.sync += [freed.eq(0), reserved.eq(0)]
            with m.If(self.quiet):
                m.d.sync += some.eq(~self.exhausted)
        with m.If(self.start):
            m.d.sync += some.eq(0)
        return asked

    def _beats_of(self, address, left):
        """Return the number of beats that hold the `left` instruction words at an address."""
        parts = INSTRUCTION_WORD_BYTES // self._width
        if parts:
            return left * parts
        words = self._width // INSTRUCTION_WORD_BYTES
        return (left + address[4 : self._index_bits] + words - 1) >> (words - 1).bit_length()

    def _receive(self, m: Module, beats, waiting, burst_address):
        """Store beats, and drop those that are not wanted; return whether a beat came."""
        r = self.axi.r
        came = Signal()
        wanted = Signal()
        ended = Signal()
        m.d.comb += [
            # A beat that coincides with a start is discarded in the next cycle with everything
            # else.
            wanted.eq(~self.halt & ~waiting),
            r.ready.eq(beats.w_rdy | ~wanted),
            came.eq(r.valid & r.ready),
            beats.w_en.eq(came & wanted),
            beats.w_data.eq(r.payload.data),
            self.fault.cause.eq(Fault.AXI_READ),
            self.fault.address.eq(burst_address),
        ]
        # The address advances one cycle after its burst ends, because a fault shows it.
        m.d.sync += [
            ended.eq(came & wanted & r.payload.last),
            self.fault.valid.eq(came & wanted & r.payload.resp[1] & ~self.start),
        ]
        cut = self._index_bits + self._cut_bits
        window, low = burst_address[cut:], burst_address[:cut]
        # A burst that ended with the start does not advance the new address.
        moves = ended & ~waiting
        with m.If(waiting & self.quiet):
            m.d.sync += burst_address[: self._index_bits].eq(0)
        with m.If(self.start | moves):
            # A single adder: the selection of its operand goes into its carry cells.
            m.d.sync += [
                window.eq(Mux(self.start, self.address[cut:], window) + ~self.start),
                low.eq(Mux(self.start, self.address[:cut], 0)),
            ]
        return came

    def _deliver(self, m: Module, beats, waiting, address):
        """Assemble instruction words in a register, from several beats, one, or a part of one."""
        parts = INSTRUCTION_WORD_BYTES // self._width
        o = self.o
        shown = Signal()
        found = Signal()
        instruction_word = Signal.like(o.payload, reset_less=True)
        m.d.comb += [
            o.valid.eq(shown & ~waiting & ~self.exhausted),
            o.payload.eq(instruction_word),
            found.eq((~shown | (o.valid & o.ready)) & beats.r_rdy),
        ]
        count, first = None, 0
        if parts == 1:
            word, whole, used = beats.r_data, 1, found
        elif parts:
            count = Signal(range(parts))
            word = Cat(instruction_word, beats.r_data)[8 * self._width :]
            whole, used = count == parts - 1, found
        else:
            # Position of the word in its beat.
            count = Signal(range(self._width // INSTRUCTION_WORD_BYTES))
            word = beats.r_data.word_select(count, len(o.payload))
            whole, used = 1, found & count.all()
            first = address[4 : self._index_bits]
        m.d.comb += beats.r_en.eq(used)
        with m.If(o.valid & o.ready):
            m.d.sync += shown.eq(0)
        with m.If(found):
            m.d.sync += [instruction_word.eq(word), shown.eq(whole)]
        with m.If(waiting):
            m.d.sync += shown.eq(0)
        if count is not None:
            with m.If(found):
                m.d.sync += count.eq(count + 1)
            with m.If(waiting):
                m.d.sync += count.eq(first)
