"""The reading side of post-processing: vectors of sums, bytes, or products, ahead of the lanes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data

from matloom.arch.config import Config
from matloom.arch.isa import Source
from matloom_rtl.memory.claims import claims_of
from matloom_rtl.memory.reserved import Reserved
from matloom_rtl.memory.slice import Slice
from matloom_rtl.ports import (
    ACC_ADDRESS_BITS,
    ACC_READ_LATENCY,
    SPAD_ADDRESS_BITS,
    SPAD_READ_LATENCY,
)
from matloom_rtl.post.numbers import Numbers
from matloom_rtl.post.products import Products

__all__ = ["Reader"]

#: Vectors read and not yet taken by the lanes: covers the longest read latency at full rate.
_READ_AHEAD = 10


def _request_layout(config: Config) -> data.StructLayout:
    """Return a vector's place in the accumulators or the scratchpad."""
    return data.StructLayout(
        {
            "from_acc": 1,
            "ends_block": 1,
            "entry": ACC_ADDRESS_BITS,
            "address": SPAD_ADDRESS_BITS,
            "claims": config.spad_banks,
        }
    )


def _byte_request_layout(config: Config) -> data.StructLayout:
    """Return a read of the scratchpad: a vector, or parameters."""
    return data.StructLayout(
        {
            "of_vector": 1,
            "ends_block": 1,
            "address": SPAD_ADDRESS_BITS,
            "claims": config.spad_banks,
            **({"completes": 1} if config.element_size_bits else {}),
        }
    )


class Reader:
    """Reads the vectors of a command into a queue, up to `_READ_AHEAD` of them.

    Parameters
    ----------
    command, numbers:
        The command at hand, and what it says of its numbers.
    acc, spad:
        Its ports of the accumulators and of the scratchpad.
    """

    def __init__(self, config: Config, command, numbers: Numbers, acc, spad):
        self._config = config
        self._command = command
        self._numbers = numbers
        self._acc, self._spad = acc, spad

    def queue(self, m: Module, streaming, sources, parameters):
        """Request vectors from the cycle after `streaming` on, while there is room.

        Parameters go before vectors at the byte port.

        A request waits in registers for its grant: the arbiters of the memories are far away.
        """
        columns, command, acc, spad = self._config.columns, self._command, self._acc, self._spad
        read_ahead = _READ_AHEAD + self._config.products * Products.LATENCY
        m.submodules.fifo = fifo = Reserved(width=32 * columns + 1, depth=read_ahead)
        m.submodules.requests = requests = Slice(
            _request_layout(self._config), at_hand=("from_acc", "entry", "claims")
        )
        ask, request = requests.i, requests.o
        room, asked = Signal(range(read_ahead + 1), init=read_ahead), Signal()
        asking, room_next = Signal(), Signal.like(room)
        m.d.comb += [
            ask.valid.eq(asking),
            ask.payload.from_acc.eq(command.source == Source.ACC),
            ask.payload.ends_block.eq(sources.block_end),
            ask.payload.entry.eq(sources.at_entry),
            ask.payload.address.eq(sources.at_address),
            ask.payload.claims.eq(claims_of(sources.at_address, columns, self._config)),
            asked.eq(ask.valid & ask.ready),
            sources.advance.eq(asked),
            acc.address.eq(request.payload.entry),
        ]
        from_bytes = self._requests(m, request, parameters)
        m.d.comb += room_next.eq(room - asked + fifo.r_en)
        m.d.sync += [room.eq(room_next), asking.eq(streaming & (room_next != 0))]

        of_vector = from_bytes.of_vector
        read_spad = spad.valid & spad.ready
        acc_arrived = _delayed(m, acc.valid & acc.ready, ACC_READ_LATENCY, "acc_asked")
        spad_arrived = _delayed(m, read_spad & of_vector, SPAD_READ_LATENCY, "spad_asked")
        acc_end = _delayed(m, request.payload.ends_block, ACC_READ_LATENCY, "acc_end")
        spad_end = _delayed(m, from_bytes.ends_block, SPAD_READ_LATENCY, "spad_end")
        spad_values = Cat(_extend(spad.data.word_select(index, 8)) for index in range(columns))
        if self._config.element_size_bits:
            completes = _delayed(m, from_bytes.completes, SPAD_READ_LATENCY, "completes")
            spad_values = self._assemble(m, spad_values, spad_arrived)
            spad_arrived = spad_arrived & completes
        m.d.comb += parameters.arriving.eq(
            _delayed(m, read_spad & ~of_vector, SPAD_READ_LATENCY - 1, "parameters_asked")
        )
        written, vectors = acc_arrived | spad_arrived, Cat(spad_values, spad_end)
        vectors = Mux(acc_arrived, Cat(acc.data, acc_end), vectors)
        if self._config.products:
            m.submodules.products = products = Products(self._config, read_ahead)
            multiplies = _multiplies(command)
            m.d.comb += [
                products.zero.eq(command.factor_zero),
                products.sums_arrived.eq(acc_arrived & multiplies),
                products.sums.eq(acc.data),
                products.bytes_arrived.eq(spad_arrived & multiplies),
                products.bytes.eq(spad.data),
                products.ends.eq(spad_end),
            ]
            written = Mux(multiplies, products.valid, written)
            vectors = Mux(multiplies, Cat(products.values, products.ended), vectors)
        m.d.comb += [fifo.w_en.eq(written), fifo.w_data.eq(vectors)]
        return fifo

    def _assemble(self, m: Module, values, arrived):
        """Return the values of a vector whose last bytes arrive, in 32 bits each."""
        columns, sizes = self._config.columns, self._config.element_size_bits
        bits = 8 * columns
        before = Signal(((1 << sizes) - 1) * bits, reset_less=True)
        everything = Cat(before, self._spad.data)
        with m.If(arrived):
            m.d.sync += before.eq(everything[bits:])
        doubles = everything[-2 * bits :]
        doubles = Cat(_extend(doubles.word_select(index, 16)) for index in range(columns))
        values = Mux(self._numbers.size[0], doubles, values)
        return Mux(self._numbers.size[1], everything, values) if sizes > 1 else values

    def _requests(self, m: Module, request, parameters):
        """Ask for sums; for parameters, else vectors of bytes; return the payload of the latter.

        One register more for vectors of bytes, none for sums, which are most of them. Of a
        product both are asked for in the same cycle.
        """
        acc, spad, wanted = self._acc, self._spad, parameters.read
        m.submodules.byte_requests = requests = Slice(
            _byte_request_layout(self._config), at_hand=("of_vector", "claims")
        )
        ask, shown = requests.i, requests.o
        claims = claims_of(wanted.address, self._config.columns, self._config)
        from_acc, bytes_ready = request.payload.from_acc, ask.ready & ~wanted.valid
        acc_valid, bytes_valid = request.valid & from_acc, request.valid & ~from_acc
        address, vector_claims = request.payload.address, request.payload.claims
        part_taken = bytes_ready
        if self._config.element_size_bits:
            part, last_part = self._numbers.count_parts(m, bytes_valid & bytes_ready, "read")
            address = (address + part * self._config.columns)[:SPAD_ADDRESS_BITS]
            vector_claims = claims_of(address, self._config.columns, self._config)
            m.d.comb += ask.payload.completes.eq(last_part)
            part_taken = bytes_ready & last_part
        taken = Mux(from_acc, acc.ready, part_taken)
        if self._config.products:
            multiplies = _multiplies(self._command)
            acc_valid |= request.valid & multiplies & bytes_ready
            bytes_valid &= ~multiplies | acc.ready
            taken &= ~multiplies | acc.ready
        m.d.comb += [
            acc.valid.eq(acc_valid),
            ask.valid.eq(wanted.valid | bytes_valid),
            ask.payload.of_vector.eq(~wanted.valid),
            ask.payload.ends_block.eq(request.payload.ends_block),
            ask.payload.address.eq(Mux(wanted.valid, wanted.address, address)),
            ask.payload.claims.eq(Mux(wanted.valid, claims, vector_claims)),
            wanted.ready.eq(ask.ready),
            wanted.data.eq(spad.data),
            request.ready.eq(taken),
            spad.valid.eq(shown.valid),
            spad.address.eq(shown.payload.address),
            spad.claims.eq(shown.payload.claims),
            shown.ready.eq(spad.ready),
        ]
        return shown.payload


def _multiplies(command):
    """Return whether a command's values are products."""
    return command.product & (command.source == Source.SPAD)


def _delayed(m: Module, value, cycles: int, name: str):
    """Return a bit some cycles later."""
    for stage in range(cycles):
        later = Signal(name=f"{name}_{stage}")
        m.d.sync += later.eq(value)
        value = later
    return value


def _extend(number):
    """Return the bits of a signed number at 32 bits."""
    return Cat(number, number[-1].replicate(32 - len(number)))
