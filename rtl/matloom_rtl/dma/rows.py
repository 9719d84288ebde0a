"""Walks the planes and rows of LOAD and STORE instructions."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, Region
from matloom_rtl.dma.bursts import row_layout
from matloom_rtl.ports import body_layout

__all__ = ["REGION_BASES", "Rows", "reads_constants"]

#: The bus address of every region, by number.
REGION_BASES = data.ArrayLayout(unsigned(32), len(Region))


def reads_constants(command):
    """Return whether a LOAD reads region PROGRAM."""
    return (command.region == Region.PROGRAM) & ~command.fill


class Rows(wiring.Component):
    """Turn instructions into rows, planes outermost, with both addresses of each.

    A fill touches no external memory: its rows lie at address 0, so that no beat is wasted.

    Instructions are not copied: `i` shows one until its last row is taken, and is taken with it.

    Latency: an instruction shown in cycle t, when the one before has no row left, shows its first
    row in t + 1. Throughput: one row a cycle, and a cycle between instructions. Stalls: `o` holds
    its row until taken.

    Members
    -------
    i: stream of `body_layout(opcode, config)`, in
        Instructions, LOAD or STORE.
    region_base: array of 4 x 32 bits, in
        Bus address of every region; stable while instructions come.
    o: stream of `row_layout(config)`, out
        Rows.
    """

    def __init__(self, opcode: Opcode, config: Config):
        self._opcode = opcode
        super().__init__(
            {
                "i": In(stream.Signature(body_layout(opcode, config))),
                "region_base": In(REGION_BASES),
                "o": Out(stream.Signature(row_layout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        command, row = self.i.payload, self.o.payload
        loads = self._opcode is Opcode.LOAD
        fill = command.fill if loads else 0
        working, plane_end, end = Signal(), Signal(), Signal()
        rows_left = Signal.like(command.rows, reset_less=True)
        planes_left = Signal.like(command.planes, reset_less=True)
        address, plane_address = (
            Signal.like(row.address, name=name, reset_less=True)
            for name in ("address", "plane_address")
        )
        spad, plane_spad = (
            Signal.like(row.spad, name=name, reset_less=True) for name in ("spad", "plane_spad")
        )

        # Whether the row at hand ends its plane, and is in the last plane, in registers.
        last_plane = Signal()
        m.d.comb += [
            end.eq(plane_end & last_plane),
            self.o.valid.eq(working),
            row.address.eq(address),
            row.spad.eq(spad),
            row.bytes.eq(command.row_bytes),
            row.last.eq(end),
            row.timestamp.eq(command.timestamp),
            # STORE has none of these; that its fields are so only its checks know.
            row.fill.eq(fill),
            row.fill_value.eq(command.fill_value if loads else 0),
            row.constant.eq(reads_constants(command) if loads else 0),
            row.spread.eq(command.spread if loads else 0),
            self.i.ready.eq(working & end & self.o.ready),
        ]

        # Two adders each, so that the counters decide behind them, not before.
        next_plane_address, next_plane_spad = Signal.like(row.address), Signal.like(row.spad)
        next_address, next_spad = Signal.like(row.address), Signal.like(row.spad)
        m.d.comb += [
            next_plane_address.eq(plane_address + command.dram_plane_step),
            next_plane_spad.eq(plane_spad + command.spad_plane_step),
            next_address.eq(Mux(plane_end, next_plane_address, address + command.dram_row_step)),
            next_spad.eq(Mux(plane_end, next_plane_spad, spad + command.spad_row_step)),
        ]
        with m.If(self.o.ready & working):
            m.d.sync += [
                working.eq(~end),
                address.eq(Mux(fill, 0, next_address)),
                spad.eq(next_spad),
                rows_left.eq(rows_left - 1),
                plane_end.eq(rows_left == 2),
            ]
            with m.If(plane_end):
                m.d.sync += [
                    plane_address.eq(next_plane_address),
                    plane_spad.eq(next_plane_spad),
                    rows_left.eq(command.rows),
                    plane_end.eq(command.rows == 1),
                    planes_left.eq(planes_left - 1),
                    last_plane.eq(planes_left == 2),
                ]

        start = Signal.like(row.address)
        m.d.comb += start.eq(Mux(fill, 0, self.region_base[command.region] + command.dram_offset))
        # What is taken while nothing is valid is never worked on.
        with m.If(~working):
            m.d.sync += [
                working.eq(self.i.valid),
                rows_left.eq(command.rows),
                planes_left.eq(command.planes),
                plane_end.eq(command.rows == 1),
                last_plane.eq(command.planes == 1),
                address.eq(start),
                plane_address.eq(start),
                spad.eq(command.spad_addr),
                plane_spad.eq(command.spad_addr),
            ]
        return m
