"""The writing side of post-processing: results of the lanes, to bytes or to accumulators."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Destination, Opcode
from matloom_rtl.memory.claims import claims_of
from matloom_rtl.memory.reserved import Reserved
from matloom_rtl.memory.slice import Slice
from matloom_rtl.ports import (
    ACC_ADDRESS_BITS,
    SPAD_ADDRESS_BITS,
    AccUpdateSignature,
    SpadWriteSignature,
    body_layout,
)
from matloom_rtl.post.lanes import fills_table, places
from matloom_rtl.post.layouts import position_layout
from matloom_rtl.post.numbers import count_parts, numbers_layout

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


class Writer(wiring.Component):
    """Queue results with their places, and offer them to the memories.

    Results are never refused: who sends them knows that one of the `places` is free. A result
    waits in registers for its grant, like a request.

    Latency: from `complete` to the request two cycles. Throughput: a result a cycle, of elements
    of several bytes a write a cycle. Stalls: requests hold until they are granted. A reset
    forgets results and requests.

    Members
    -------
    command, numbers: in
        Constant from the first result until `waiting` is low behind the last one.
    complete, results: in
        A result: 32 bits a column.
    position: in
        Where it goes (`position_layout`).
    advance: out
        Show the next position.
    written: out
        A result left the queue.
    finished: out
        It was the last of the command.
    waiting: out
        A request waits for its grant.
    acc, spad: AccUpdateSignature, SpadWriteSignature, out
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "command": In(body_layout(Opcode.POST, config)),
                "numbers": In(numbers_layout(config)),
                "complete": In(1),
                "results": In(32 * config.columns),
                "position": In(position_layout()),
                "advance": Out(1),
                "written": Out(1),
                "finished": Out(1),
                "waiting": Out(1),
                "acc": Out(AccUpdateSignature(config)),
                "spad": Out(SpadWriteSignature(config.columns, config.spad_banks)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        layout = _result_layout(config, 32)
        m.submodules.queue = queue = Reserved(width=layout.size, depth=places(config))
        collected, head = data.View(layout, queue.w_data), data.View(layout, queue.r_data)
        self._place(m, collected.place)
        m.submodules.to_spad = bytes_out = Slice(_result_layout(config, 8), at_hand=("place",))
        m.submodules.to_acc = sums_out = Slice(layout, at_hand=("place",))
        to_spad = self.command.destination == Destination.SPAD
        place, bytes_of_write = head.place, _narrowed(head.data, 8, config.columns)
        bytes_taken = bytes_out.i.ready
        if config.element_size_bits:
            place, bytes_of_write, last_part = self._parts(m, head, bytes_out.i)
            bytes_taken &= last_part
        m.d.comb += [
            collected.data.eq(self.results),
            queue.w_en.eq(self.complete),
            self.advance.eq(self.complete),
            self.written.eq(queue.r_rdy & Mux(to_spad, bytes_taken, sums_out.i.ready)),
            queue.r_en.eq(self.written),
            bytes_out.i.valid.eq(queue.r_rdy & to_spad),
            bytes_out.i.payload.place.eq(place),
            bytes_out.i.payload.data.eq(bytes_of_write),
            sums_out.i.valid.eq(queue.r_rdy & ~to_spad),
            sums_out.i.payload.eq(head),
            self.finished.eq(self.written & head.place.last),
            self.waiting.eq(bytes_out.o.valid | sums_out.o.valid),
        ]
        self._offer(m, bytes_out.o, sums_out.o)
        return m

    def _place(self, m: Module, place):
        """Tell where the result that is complete goes."""
        config, position = self._config, self.position
        m.d.comb += [
            place.address.eq(position.address),
            place.claims.eq(claims_of(position.address, config.columns, config)),
            place.entry.eq(position.entry),
            place.last.eq(position.end),
        ]
        for index in range(config.columns):
            mask = ~position.last_block | (index < self.command.tail)
            if config.tables:
                # What fills the table goes nowhere else.
                mask &= ~fills_table(self.command)
            m.d.comb += place.mask[index].eq(mask)

    def _parts(self, m: Module, head, writes):
        """Return place and bytes of the write at hand of a vector, and if it is the last one."""
        config, columns, size = self._config, self._config.columns, self.numbers.size
        part, last = count_parts(m, size, writes.valid & writes.ready, "written")
        place = Signal(_place_layout(config))
        m.d.comb += place.eq(head.place)
        m.d.comb += place.address.eq(head.place.address + part * columns)
        m.d.comb += place.claims.eq(claims_of(place.address, columns, config))
        bytes_of_write = Signal(8 * columns)
        with m.Switch(size):
            for number in range(len(size) + 1):
                with m.Case(number):
                    times = 1 << number
                    packed = _narrowed(head.data, 8 * times, columns)
                    masks = Cat(bit.replicate(times) for bit in head.place.mask)
                    m.d.comb += [
                        bytes_of_write.eq(packed.word_select(part, 8 * columns)),
                        place.mask.eq(masks.word_select(part, columns)),
                    ]
        return place, bytes_of_write, last

    def _offer(self, m: Module, byte_result, sum_result):
        """Show results to the memories."""
        spad, acc = self.spad, self.acc
        m.d.comb += [
            spad.valid.eq(byte_result.valid),
            spad.address.eq(byte_result.payload.place.address),
            spad.claims.eq(byte_result.payload.place.claims),
            spad.data.eq(byte_result.payload.data),
            spad.mask.eq(byte_result.payload.place.mask),
            byte_result.ready.eq(spad.ready),
            acc.valid.eq(sum_result.valid),
            acc.address.eq(sum_result.payload.place.entry),
            acc.add.eq(self.command.destination == Destination.ACC_ADD),
            acc.data.eq(sum_result.payload.data),
            acc.mask.eq(sum_result.payload.place.mask),
            sum_result.ready.eq(acc.ready),
        ]
        if self._config.has_float:
            m.d.comb += acc.floating.eq(self.numbers.floating)


def _narrowed(words, bits: int, columns: int):
    """Return the low bits of words of 32 bits, side by side."""
    return Cat(words.word_select(index, 32)[:bits] for index in range(columns))
