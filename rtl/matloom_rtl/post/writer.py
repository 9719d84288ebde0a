"""The writing side of post-processing: results of the lanes, to bytes or to accumulators."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data

from matloom.arch.config import Config
from matloom.arch.isa import Destination, Table
from matloom_rtl.memory.claims import claims_of
from matloom_rtl.memory.reserved import Reserved
from matloom_rtl.memory.slice import Slice
from matloom_rtl.ports import ACC_ADDRESS_BITS, SPAD_ADDRESS_BITS
from matloom_rtl.post.float_lane import FloatLane
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.lanes import Lanes, beat_number
from matloom_rtl.post.numbers import Numbers
from matloom_rtl.post.tables import Tables

__all__ = ["Writer"]


def _place_layout(config: Config) -> data.StructLayout:
    """Return where a result goes; `last` ends the instruction."""
    return data.StructLayout(
        {
            "address": SPAD_ADDRESS_BITS,
            "claims": config.spad_banks,
            "entry": ACC_ADDRESS_BITS,
            "mask": config.columns,
            "last": 1,
        }
    )


def _result_layout(config: Config, bits: int) -> data.StructLayout:
    return data.StructLayout({"place": _place_layout(config), "data": bits * config.columns})


class Writer:
    """Collects the beats of results, queues them, and offers them to the memories.

    Parameters
    ----------
    command, numbers, lanes:
        The command at hand, what it says of its numbers, and the lanes.
    acc, spad:
        The ports of the accumulators and of the scratchpad.
    """

    def __init__(self, config: Config, command, numbers: Numbers, lanes: Lanes, acc, spad):
        self._config = config
        self._command = command
        self._numbers = numbers
        self._lanes = lanes
        self._acc, self._spad = acc, spad

    def collect(self, m: Module, start, results, written):
        """Collect a vector's beats, queue them, offer the head; set `written` when it is taken.

        A result waits in registers for its grant, like a request. Returns whether the last of the
        instruction is taken, and whether one waits.
        """
        command, columns, lanes = self._command, self._config.columns, self._config.lanes
        beats = columns // lanes
        to_spad = command.destination == Destination.SPAD
        beat, full = beat_number(beats), Signal()
        words = Signal(32 * columns, reset_less=True)
        # Known a cycle ahead, for a register of its own for each beat: many bits wait for it.
        inside = self._lanes.inside
        emerging, emerges = inside[Lane.LATENCY - 1], Signal(beats)
        # Of a word the byte is the lower one.
        words_made = self._config.has_words
        bytes_made = [lane.word if words_made else lane.byte for lane in self._lanes.units]
        if self._config.tables:
            looks_up = to_spad & (command.table == Table.LOOK_UP)
            fills = _fills(command)
            entries = self._tables(m, start, full & fills, words)
            emerging = Mux(looks_up, inside[Lane.LATENCY + Tables.LATENCY - 1], emerging)
            bytes_made = [
                Mux(looks_up, entry, byte) for entry, byte in zip(entries, bytes_made, strict=True)
            ]
        if self._config.has_float:
            emerging = Mux(self._numbers.floating, inside[FloatLane.LATENCY - 1], emerging)
        m.d.sync += [emerges.eq(Mux(emerging, 1 << beat, 0)), full.eq(emerges[-1])]
        with m.If(emerging):
            m.d.sync += beat.eq(Mux(beat == beats - 1, 0, beat + 1))
        for b in range(beats):
            with m.If(emerges[b]):
                for index, lane in enumerate(self._lanes.units):
                    value = Mux(to_spad, bytes_made[index], lane.result)
                    if self._config.has_float:
                        element, result = self._lanes.float_results[index]
                        value = Mux(self._numbers.floating, Mux(to_spad, element, result), value)
                    m.d.sync += words.word_select(b * lanes + index, 32).eq(value)
        layout = _result_layout(self._config, 32)
        m.submodules.queue = queue = Reserved(width=layout.size, depth=self._lanes.behind)
        collected, head = data.View(layout, queue.w_data), data.View(layout, queue.r_data)
        self._place(m, results, collected.place)
        m.submodules.to_spad = bytes_out = Slice(
            _result_layout(self._config, 8), at_hand=("place",)
        )
        m.submodules.to_acc = sums_out = Slice(layout, at_hand=("place",))
        place, data_out = head.place, _narrowed(head.data, 8, columns)
        bytes_taken = bytes_out.i.ready
        if self._config.element_size_bits:
            place, data_out, last_part = self._parts(m, head, bytes_out.i)
            bytes_taken &= last_part
        m.d.comb += [
            collected.data.eq(words),
            queue.w_en.eq(full),
            results.advance.eq(full),
            written.eq(queue.r_rdy & Mux(to_spad, bytes_taken, sums_out.i.ready)),
            queue.r_en.eq(written),
            bytes_out.i.valid.eq(queue.r_rdy & to_spad),
            bytes_out.i.payload.place.eq(place),
            bytes_out.i.payload.data.eq(data_out),
            sums_out.i.valid.eq(queue.r_rdy & ~to_spad),
            sums_out.i.payload.eq(head),
        ]
        self._offer(m, bytes_out.o, sums_out.o)
        return written & head.place.last, bytes_out.o.valid | sums_out.o.valid

    def _tables(self, m: Module, start, fill, words):
        """Look up the lanes' bytes; fill with those of a vector. Return each lane's entry."""
        m.submodules.tables = tables = Tables(self._config)
        row_bytes = self._config.table_row_bytes
        m.d.comb += [
            tables.start.eq(start),
            tables.fill.eq(fill),
            tables.row.eq(Cat(words.word_select(index, 32)[:8] for index in range(row_bytes))),
        ]
        m.d.comb += [
            tables.index[number].eq(lane.byte) for number, lane in enumerate(self._lanes.units)
        ]
        return [tables.value[number] for number in range(self._config.lanes)]

    def _parts(self, m: Module, head, stream):
        """Return place and bytes of the write at hand of a vector, and if it is the last one."""
        config, columns = self._config, self._config.columns
        part, last = self._numbers.count_parts(m, stream.valid & stream.ready, "written")
        place = Signal(_place_layout(config))
        m.d.comb += place.eq(head.place)
        m.d.comb += place.address.eq(head.place.address + part * columns)
        m.d.comb += place.claims.eq(claims_of(place.address, columns, config))
        bytes_out = Signal(8 * columns)
        with m.Switch(self._numbers.size):
            for size in range(len(self._numbers.size) + 1):
                with m.Case(size):
                    times = 1 << size
                    packed = _narrowed(head.data, 8 * times, columns)
                    masks = Cat(bit.replicate(times) for bit in head.place.mask)
                    m.d.comb += [
                        bytes_out.eq(packed.word_select(part, 8 * columns)),
                        place.mask.eq(masks.word_select(part, columns)),
                    ]
        return place, bytes_out, last

    def _place(self, m: Module, results, place):
        """Tell where the result that is complete goes; it is then queued, come what may."""
        m.d.comb += [
            place.address.eq(results.at_address),
            place.claims.eq(claims_of(results.at_address, self._config.columns, self._config)),
            place.entry.eq(results.at_entry),
            place.last.eq(results.end),
        ]
        shown = ~results.last_block
        for index in range(self._config.columns):
            mask = shown | (index < self._command.tail)
            if self._config.tables:
                # What fills the table goes nowhere else.
                mask &= ~_fills(self._command)
            m.d.comb += place.mask[index].eq(mask)

    def _offer(self, m: Module, byte_result, sum_result):
        """Show results to the memories."""
        spad, acc = self._spad, self._acc
        m.d.comb += [
            spad.valid.eq(byte_result.valid),
            spad.address.eq(byte_result.payload.place.address),
            spad.claims.eq(byte_result.payload.place.claims),
            spad.data.eq(byte_result.payload.data),
            spad.mask.eq(byte_result.payload.place.mask),
            byte_result.ready.eq(spad.ready),
            acc.valid.eq(sum_result.valid),
            acc.address.eq(sum_result.payload.place.entry),
            acc.add.eq(self._command.destination == Destination.ACC_ADD),
            acc.data.eq(sum_result.payload.data),
            acc.mask.eq(sum_result.payload.place.mask),
            sum_result.ready.eq(acc.ready),
        ]
        if self._config.has_float:
            m.d.comb += acc.floating.eq(self._numbers.floating)


def _fills(command):
    """Return whether a command's bytes go into the table."""
    return (command.destination == Destination.SPAD) & (command.table == Table.FILL)


def _narrowed(words, bits: int, columns: int):
    """Return the low bits of words of 32 bits, side by side."""
    return Cat(words.word_select(index, 32)[:bits] for index in range(columns))
