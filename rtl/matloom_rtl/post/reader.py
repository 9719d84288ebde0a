"""Reader of post-processing: fetches vectors of sums, bytes or both ahead of the lanes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Addend, Opcode, Source
from matloom_rtl.memory.bank_select import bank_select_of
from matloom_rtl.memory.skid_buffer import SkidBuffer
from matloom_rtl.memory.unchecked_fifo import UncheckedFIFO
from matloom_rtl.ports import (
    ACC_READ_LATENCY,
    SPAD_READ_LATENCY,
    AccReadSignature,
    SpadReadSignature,
    body_layout,
)
from matloom_rtl.post.layouts import position_layout, vector_layout
from matloom_rtl.post.numbers import count_parts, numbers_layout
from matloom_rtl.post.products import Products

__all__ = ["Reader"]

#: Maximum number of vectors requested but not yet taken by the lanes: enough for full rate with the
#: longest read latency.
_READ_AHEAD = 10


def _request_layout(config: Config) -> data.StructLayout:
    """Return the layout of a scratchpad read, for a vector (`of_vector`) or for parameters.

    `completes`: it is the last read of its vector.
    """
    return data.StructLayout(
        {
            "of_vector": 1,
            "ends_block": 1,
            "address": config.spad_size_bits,
            "bank_select": config.spad_banks,
            **({"completes": 1} if config.element_size_bits else {}),
        }
    )


class Reader(wiring.Component):
    """Read the vectors of a command into a queue, ahead of the lanes, and their parameters.

    Parameters have priority over vectors at the scratchpad port.

    Latency: from `streaming` to the first request, one cycle for sums and two for bytes; from its
    grant to the vector in `vectors`, that of the memory plus one, and two more for products and for
    bytes added to sums. Throughput: one vector per cycle, or one read per cycle for multi-byte
    elements. Stalls: a vector is requested when the queue has room for it; requests hold until
    granted. Reset discards vectors, requests and reads in progress.

    Members
    -------
    command, numbers: in
        The command and its number formats (`Numbers`), constant from the first cycle of `streaming`
        until the last vector is taken.
    streaming: in
        Request `position` in the next cycle, if the queue has room.
    position: in
        Position of the vector to request (`position_layout`).
    advance: out
        The vector at `position` is requested in this cycle; show the next position.
    parameters: SpadReadSignature, in
        Reads of parameters.
    parameters_arriving: out
        The data of the oldest read of parameters is valid in the next cycle.
    vectors: stream of `vector_layout`, out
    bytes_arrive, bytes: out
        Bytes arrive that will be added to the result of their vector. Only with sums of results.
    acc, spad: AccReadSignature, SpadReadSignature, out
        Reads of an accumulator entry, and of `columns` bytes.
    """

    def __init__(self, config: Config):
        self._config = config
        spad = SpadReadSignature(config.columns, config.spad_banks)
        super().__init__(
            {
                "command": In(body_layout(Opcode.POST, config)),
                "numbers": In(numbers_layout(config)),
                "streaming": In(1),
                "position": In(position_layout(config)),
                "advance": Out(1),
                "parameters": In(spad),
                "parameters_arriving": Out(1),
                "vectors": Out(stream.Signature(vector_layout(config))),
                **(
                    {"bytes_arrive": Out(1), "bytes": Out(8 * config.columns)}
                    if config.has_result_sums
                    else {}
                ),
                "acc": Out(AccReadSignature(config)),
                "spad": Out(spad),
            }
        )

    def elaborate(self, platform):
        """Return the module: requests for sums and bytes, their arrival, and the vector queue."""
        m = Module()
        config = self._config
        read_ahead = _READ_AHEAD + bool(config.products) * Products.LATENCY
        m.submodules.queue = queue = UncheckedFIFO(
            width=vector_layout(config).size, depth=read_ahead
        )
        m.d.comb += [
            self.vectors.valid.eq(queue.r_rdy),
            self.vectors.payload.eq(queue.r_data),
            queue.r_en.eq(self.vectors.valid & self.vectors.ready),
        ]
        from_bytes = self._request(m, self._count_room(m, read_ahead, queue.r_en))
        arrived, vector = self._arrive(m, from_bytes, read_ahead)
        m.d.comb += [queue.w_en.eq(arrived), queue.w_data.eq(vector)]
        return m

    def _count_room(self, m: Module, read_ahead: int, taken):
        """Return whether to request the current position, for which the queue has room.

        `taken` is set when a vector leaves the queue.
        """
        room = Signal(range(read_ahead + 1), init=read_ahead)
        asking = Signal()
        room_next = Signal.like(room)
        m.d.comb += room_next.eq(room - self.advance + taken)
        m.d.sync += [room.eq(room_next), asking.eq(self.streaming & (room_next != 0))]
        return asking

    def _request(self, m: Module, asking):
        """Request sums, and parameters or bytes; return the read that the scratchpad port shows.

        Requests for parameters and bytes wait for their grant in a buffer; a request for sums holds
        the position until it is granted. For products and added bytes, sums are requested in the
        cycle in which the buffer accepts the last bytes of their vector.
        """
        acc, spad, wanted, position = self.acc, self.spad, self.parameters, self.position
        m.submodules.byte_requests = requests = SkidBuffer(
            _request_layout(self._config), registered=("of_vector", "bank_select")
        )
        ask, shown = requests.i, requests.o
        from_acc, bytes_ready = self.command.source == Source.ACC, ask.ready & ~wanted.valid
        acc_valid, bytes_valid = asking & from_acc, asking & ~from_acc
        address, bank_select = position.address, position.bank_select
        part_taken = bytes_ready
        if self._config.element_size_bits:
            taken = bytes_valid & bytes_ready
            if self._config.has_word_products:
                # The last part is only taken with a sum.
                taken = reads_part = Signal(name="reads_part")
            part, last_part = count_parts(m, self.numbers.size, taken, "read")
            address = (address + part * self._config.columns)[: len(address)]
            bank_select = bank_select_of(address, self._config.columns, self._config)
            m.d.comb += ask.payload.completes.eq(last_part)
            part_taken = bytes_ready & last_part
        taken = Mux(from_acc, acc.ready, part_taken)
        if self._config.products:
            multiplies = self._multiplies()
            if self._config.has_word_products:
                multiplies &= last_part
            acc_valid |= asking & multiplies & bytes_ready
            bytes_valid &= ~multiplies | acc.ready
            taken &= ~multiplies | acc.ready
        if self._config.has_word_products:
            m.d.comb += reads_part.eq(bytes_valid & bytes_ready)
        m.d.comb += [
            acc.valid.eq(acc_valid),
            acc.address.eq(position.entry),
            ask.valid.eq(wanted.valid | bytes_valid),
            ask.payload.of_vector.eq(~wanted.valid),
            ask.payload.ends_block.eq(position.block_end),
            ask.payload.address.eq(Mux(wanted.valid, wanted.address, address)),
            ask.payload.bank_select.eq(Mux(wanted.valid, wanted.bank_select, bank_select)),
            wanted.ready.eq(ask.ready),
            wanted.data.eq(spad.data),
            self.advance.eq(asking & taken),
            spad.valid.eq(shown.valid),
            spad.address.eq(shown.payload.address),
            spad.bank_select.eq(shown.payload.bank_select),
            shown.ready.eq(spad.ready),
        ]
        return shown.payload

    def _arrive(self, m: Module, from_bytes, read_ahead: int):
        """Return whether a vector arrives, and the vector (`vector_layout`).

        `from_bytes` is the read that the scratchpad port shows.
        """
        config, acc, spad = self._config, self.acc, self.spad
        of_vector = from_bytes.of_vector
        read_spad = spad.valid & spad.ready
        acc_arrived = _delayed(m, acc.valid & acc.ready, ACC_READ_LATENCY, "acc_asked")
        spad_arrived = _delayed(m, read_spad & of_vector, SPAD_READ_LATENCY, "spad_asked")
        acc_end = _delayed(m, self.position.block_end, ACC_READ_LATENCY, "acc_end")
        spad_end = _delayed(m, from_bytes.ends_block, SPAD_READ_LATENCY, "spad_end")
        m.d.comb += self.parameters_arriving.eq(
            _delayed(m, read_spad & ~of_vector, SPAD_READ_LATENCY - 1, "parameters_asked")
        )
        values = Cat(_extend(spad.data.word_select(index, 8)) for index in range(config.columns))
        if config.element_size_bits:
            completes = _delayed(m, from_bytes.completes, SPAD_READ_LATENCY, "completes")
            values = self._assemble(m, values, spad_arrived)
            spad_arrived = spad_arrived & completes
        arrived, vector = acc_arrived | spad_arrived, Cat(values, spad_end)
        vector = Mux(acc_arrived, Cat(acc.data, acc_end), vector)
        if config.products:
            elements = self._elements(values)
            products = self._multiply(
                m, (acc_arrived, spad_arrived), elements, spad_end, read_ahead
            )
            multiplies = self._multiplies()
            arrived = Mux(multiplies, products.valid, arrived)
            vector = Mux(multiplies, Cat(products.values, products.ended), vector)
        return arrived, vector

    def _assemble(self, m: Module, values, arrived):
        """Return the values of a vector, 32 bits each, in the cycle in which its last bytes arrive.

        `values` are the arriving bytes, extended to 32 bits: the result for elements of one byte.
        """
        columns, sizes = self._config.columns, self._config.element_size_bits
        bits, size = 8 * columns, self.numbers.size
        before = Signal(((1 << sizes) - 1) * bits, reset_less=True)
        everything = Cat(before, self.spad.data)
        with m.If(arrived):
            m.d.sync += before.eq(everything[bits:])
        doubles = everything[-2 * bits :]
        doubles = Cat(_extend(doubles.word_select(index, 16)) for index in range(columns))
        values = Mux(size[0], doubles, values)
        return Mux(size[1], everything, values) if sizes > 1 else values

    def _elements(self, values):
        """Return the elements of a vector for products: its bytes, or the low 16 bits of values."""
        if not self._config.has_word_products:
            return self.spad.data
        return Cat(values.word_select(index, 32)[:16] for index in range(self._config.columns))

    def _multiply(self, m: Module, arrived, elements, spad_end, depth: int) -> Products:
        """Add `Products` of `elements` and the arriving sums, and return it.

        `arrived` is a pair: whether sums arrive, and whether elements do.
        """
        acc_arrived, spad_arrived = arrived
        m.submodules.products = products = Products(self._config, depth)
        multiplies = self._multiplies()
        m.d.comb += [
            products.zero.eq(self.command.factor_zero),
            *([products.adds.eq(self.command.addend[0])] if self._config.has_addends else []),
            *(
                [products.squares.eq(self.command.addend == Addend.SQUARE)]
                if self._config.has_squares
                else []
            ),
            *([products.words.eq(self.command.words)] if self._config.has_word_products else []),
            products.sums_arrived.eq(acc_arrived & multiplies),
            products.sums.eq(self.acc.data),
            products.bytes_arrived.eq(spad_arrived & multiplies),
            products.bytes.eq(elements),
            products.ends.eq(spad_end),
        ]
        if self._config.has_result_sums:
            keeps = self.command.addend == Addend.RESULT
            m.d.comb += [
                products.keeps.eq(keeps),
                self.bytes_arrive.eq(spad_arrived & multiplies & keeps),
                self.bytes.eq(self.spad.data),
            ]
        return products

    def _multiplies(self):
        """Return whether the command multiplies or adds accumulators and bytes (in `Products`)."""
        command = self.command
        both = command.product
        if self._config.has_addends:
            both |= command.addend.any()
        return both & (command.source == Source.SPAD)


def _delayed(m: Module, value, cycles: int, name: str):
    """Return a bit delayed by a number of cycles; reset clears it on its way."""
    for stage in range(cycles):
        later = Signal(name=f"{name}_{stage}")
        m.d.sync += later.eq(value)
        value = later
    return value


def _extend(number):
    """Return a number sign-extended to 32 bits."""
    return Cat(number, number[-1].replicate(32 - len(number)))
