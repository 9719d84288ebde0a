"""Splits rows of bytes into aligned AXI bursts."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.ports import SPAD_ADDRESS_BITS

__all__ = ["Bursts", "burst_layout", "row_layout"]

#: Bits of `row_bytes` in LOAD and STORE.
ROW_BYTE_BITS = 21


def _companion() -> dict:
    """What the two sides of a transfer have to know of its instruction."""
    return {"last": 1, "mark": 8, "fill": 1, "fill_value": 8}


def row_layout(byte_bits: int = ROW_BYTE_BITS) -> data.StructLayout:
    """Return the layout of one contiguous row.

    `bytes` (at least 1) from byte `address` of external memory go with those from byte `spad` of
    the scratchpad on; `last` marks the last row of an instruction, `mark`, `fill` and `fill_value`
    are the instruction's.
    """
    return data.StructLayout(
        {"address": 32, "spad": SPAD_ADDRESS_BITS, "bytes": byte_bits, **_companion()}
    )


def burst_layout(bus_bytes: int) -> data.StructLayout:
    """Return the layout of one burst of `len` + 1 beats.

    Beat k goes with scratchpad bytes ``spad + k * bus_bytes`` on. Of the first beat the bytes below
    `first`, of the last beat those above `final` are not the row's. `last` marks the last burst of
    an instruction.
    """
    index_bits = bus_bytes.bit_length() - 1
    return data.StructLayout(
        {
            "address": 32,
            "len": 8,
            "spad": SPAD_ADDRESS_BITS,
            "first": index_bits,
            "final": index_bits,
            **_companion(),
        }
    )


class Bursts(wiring.Component):
    """Cut rows at multiples of `burst_beats` beats, a power of two, of at most 4 KiB together.

    So no burst is longer than `burst_beats` and none crosses 4 KiB. A row that starts inside a beat
    starts with the whole beat.

    Latency: a row taken in cycle t shows its first burst in t + 1.
    Throughput: one burst a cycle, also across rows.
    Stalls: `o` holds its burst until taken; `i` is taken with the last burst of the row before.

    Members
    -------
    i: stream of `row_layout(byte_bits)`, in
        Rows.
    o: stream of `burst_layout(bus_bytes)`, out
        Bursts in the order of addresses, row after row.
    """

    def __init__(self, *, bus_bytes: int, burst_beats: int, byte_bits: int = ROW_BYTE_BITS):
        self._bus_bytes = bus_bytes
        self._index_bits = bus_bytes.bit_length() - 1
        self._room_bits = burst_beats.bit_length() - 1
        self._byte_bits = byte_bits
        super().__init__(
            {
                "i": In(stream.Signature(row_layout(byte_bits))),
                "o": Out(stream.Signature(burst_layout(bus_bytes))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        row, burst = self.i.payload, self.o.payload
        index_bits, room_bits = self._index_bits, self._room_bits

        working, end = Signal(), Signal()
        beat = Signal(32 - index_bits)
        # Beats of the row beyond the next one, and those that fit before the next cut.
        rest = Signal(self._byte_bits + 1 - index_bits)
        room = Signal(8)
        length = Signal(8)
        final = Signal(index_bits)
        spad, first = Signal.like(row.spad), Signal.like(burst.first)
        last = Signal()

        m.d.comb += [
            room.eq((1 << room_bits) - 1 - beat[:room_bits] if room_bits else 0),
            end.eq(rest <= room),
            length.eq(Mux(end, rest, room)),
            self.o.valid.eq(working),
            burst.address.eq(Cat(Const(0, index_bits), beat)),
            burst.len.eq(length),
            burst.spad.eq(spad),
            burst.first.eq(first),
            burst.final.eq(Mux(end, final, self._bus_bytes - 1)),
            burst.last.eq(last & end),
            self.i.ready.eq(~working | (self.o.ready & end)),
        ]

        with m.If(self.o.ready & working):
            m.d.sync += [
                rest.eq(rest - room - 1),
                beat.eq(Cat(Const(0, room_bits), beat[room_bits:] + 1)),
                spad.eq(spad + Cat(Const(0, index_bits), length + 1)),
                first.eq(0),
            ]

        offset = row.address[:index_bits]
        last_byte = Signal(self._byte_bits + 1)
        m.d.comb += last_byte.eq(row.bytes + offset - 1)
        with m.If(self.i.ready):
            m.d.sync += working.eq(self.i.valid)
            with m.If(self.i.valid):
                m.d.sync += [
                    beat.eq(row.address[index_bits:]),
                    rest.eq(last_byte[index_bits:]),
                    final.eq(last_byte[:index_bits]),
                    first.eq(offset),
                    spad.eq(row.spad - offset),
                    last.eq(row.last),
                    *(burst[name].eq(row[name]) for name in ("mark", "fill", "fill_value")),
                ]
        return m
