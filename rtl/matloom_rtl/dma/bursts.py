"""Splitter of rows of bytes into aligned AXI bursts."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.ports import mark_bits

__all__ = ["SPREAD_BITS", "Bursts", "beat_address_bits", "burst_layout", "row_layout"]

#: Width of the field `spread` of LOAD.
SPREAD_BITS = 2


def beat_address_bits(config: Config) -> int:
    """Return the width of a beat's signed scratchpad address, which may start below byte 0."""
    return 1 + config.spad_addr_bits


def _companion(config: Config) -> dict:
    """Return the fields, with widths, that a row or burst carries along from its instruction."""
    return {
        "last": 1,
        "timestamp": mark_bits(config),
        "constant": 1,
        "fill": 1,
        "fill_value": 8,
        **({"spread": SPREAD_BITS} if config.element_stride else {}),
    }


def row_layout(config: Config, byte_bits: int | None = None) -> data.StructLayout:
    """Return the layout of one contiguous row of a transfer.

    `bytes` (at least 1) from byte `address` of external memory correspond to scratchpad bytes from
    `spad` on, 1 << `spread` apart. `last` marks an instruction's last row. `timestamp`, `fill`,
    `fill_value` and `spread` are the instruction's. `constant`: the instruction reads constants.

    `byte_bits` is the width of `bytes`, by default `Config.spad_size_bits`.
    """
    return data.StructLayout(
        {
            "address": 32,
            "spad": beat_address_bits(config),
            "bytes": byte_bits or config.spad_size_bits,
            **_companion(config),
        }
    )


def burst_layout(config: Config) -> data.StructLayout:
    """Return the layout of one burst of `len` + 1 beats.

    Beat k corresponds to scratchpad bytes from ``spad + k * bus_bytes`` on. With a `spread`, `spad`
    is valid only in the first burst of a row (`begin`), for its first beat; the bytes of the other
    beats follow. Bytes below `first` in the first beat, and above `final` in the last beat, are not
    part of the row. `last` marks the last burst of an instruction.
    """
    index_bits = config.bus_bytes.bit_length() - 1
    return data.StructLayout(
        {
            "address": 32,
            "len": 8,
            "spad": beat_address_bits(config),
            "first": index_bits,
            "final": index_bits,
            "begin": 1,
            **_companion(config),
        }
    )


class Bursts(wiring.Component):
    """Cut rows into bursts at multiples of `burst_beats` beats.

    `burst_beats` is a power of two, and such a burst is at most 4 KiB. So no burst is longer than
    `burst_beats` or crosses a 4 KiB boundary. A row that starts within a beat starts with the whole
    beat.

    Latency: one cycle from a row to its first burst.
    Throughput: one burst per cycle within a row, with one idle cycle between rows: at least one
    burst in two cycles, which memory latency hides. There is no path from `o.ready` to `i.ready`.
    Stalls: `o` holds its burst until taken; `i` is accepted when the previous row has no burst
    left.

    Members
    -------
    i: stream of `row_layout(config, byte_bits)`, in
        Rows.
    o: stream of `burst_layout(config)`, out
        Bursts in address order, row by row.

    Parameters
    ----------
    burst_beats:
        Longest burst in beats, a power of two; by default that of the configuration.
    byte_bits:
        Width of a row's size; by default that of LOAD and STORE.
    """

    def __init__(
        self, config: Config, *, burst_beats: int | None = None, byte_bits: int | None = None
    ):
        self._bus_bytes = config.bus_bytes
        self._companion = _companion(config)
        self._index_bits = config.bus_bytes.bit_length() - 1
        self._window_bits = (
            config.bus_bytes * (burst_beats or config.burst_beats)
        ).bit_length() - 1
        super().__init__(
            {
                "i": In(stream.Signature(row_layout(config, byte_bits))),
                "o": Out(stream.Signature(burst_layout(config))),
            }
        )

    def elaborate(self, platform):
        """Return the module: the position within a row, and the burst that starts there."""
        m = Module()
        row, burst = self.i.payload, self.o.payload
        index_bits, window_bits = self._index_bits, self._window_bits

        # A window is the range between two cuts. The position of the next burst is a window and its
        # first beat in it. `span` is the position of a row's last byte, relative to its first
        # window.
        window = Signal(32 - window_bits, reset_less=True)
        beat = Signal(window_bits - index_bits, reset_less=True)
        span = Signal(max(len(row.bytes), window_bits) + 1)
        m.d.comb += span.eq(row.address[:window_bits] + row.bytes - 1)

        working = Signal()
        end = Signal()
        begin = Signal(reset_less=True)
        windows_left = Signal(len(span) - window_bits, reset_less=True)
        last_beat = Signal.like(beat, reset_less=True)
        final = Signal(index_bits, reset_less=True)
        spad = Signal.like(row.spad, reset_less=True)
        first = Signal.like(burst.first, reset_less=True)
        companion = Signal(data.StructLayout(self._companion), reset_less=True)
        m.d.comb += [
            end.eq(windows_left == 0),
            self.i.ready.eq(~working),
            self.o.valid.eq(working),
            burst.address.eq(Cat(Const(0, index_bits), beat, window)),
            burst.len.eq(Mux(end, last_beat - beat, ~beat)),
            burst.spad.eq(spad),
            burst.first.eq(first),
            burst.final.eq(Mux(end, final, self._bus_bytes - 1)),
            burst.begin.eq(begin),
            *(burst[name].eq(companion[name]) for name in self._companion),
            burst.last.eq(companion.last & end),
        ]

        # One adder for a new row and for a row in progress: the selection of its operand goes into
        # its carry cells.
        comes, offset = self.i.valid & self.i.ready, row.address[:index_bits]
        shifted = Signal.like(spad)
        moved = Signal.like(spad)
        m.d.comb += [
            shifted.eq(offset << row.spread if "spread" in self._companion else offset),
            moved.eq(Mux(comes, ~shifted, Cat(Const(-1, index_bits), ~beat))),
        ]
        with m.If(comes | (self.o.ready & working)):
            m.d.sync += [
                working.eq(comes | ~end),
                windows_left.eq(Mux(comes, span[window_bits:], windows_left) - ~comes),
                window.eq(Mux(comes, row.address[window_bits:], window) + ~comes),
                beat.eq(Mux(comes, row.address[index_bits:window_bits], 0)),
                # Plus one, as a carry below the lowest bit.
                spad.eq((Cat(1, Mux(comes, row.spad, spad)) + Cat(1, moved))[1:]),
                first.eq(Mux(comes, offset, 0)),
                begin.eq(comes),
            ]
        with m.If(comes):
            m.d.sync += [
                Cat(final, last_beat).eq(span),
                *(companion[name].eq(row[name]) for name in self._companion),
            ]
        return m
