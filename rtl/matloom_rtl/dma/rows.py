"""Splitter of LOAD and STORE instructions into planes and rows."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, Region
from matloom_rtl.dma.bursts import row_layout
from matloom_rtl.ports import body_layout

__all__ = ["Rows", "reads_constants"]


def reads_constants(command):
    """Return whether a LOAD reads constants: it is no fill, and its region is PROGRAM."""
    return (command.region == Region.PROGRAM) & ~command.fill


class Rows(wiring.Component):
    """Split instructions into rows, planes outermost, and compute both addresses of each row.

    A row takes many cycles to transfer, so a single adder computes its addresses: first the one in
    the scratchpad, while the region's base is looked up, then the one in external memory. A small
    memory holds the addresses of the last row and of the first row of its plane.

    A fill uses no external memory: its rows start at address 0, so that no beat is wasted.
    Scratchpad addresses wrap at `Config.spad_addr_bits`.

    Instructions are not copied: `i` must show one until its last row is taken, and is then taken.

    Latency: two cycles from an instruction to its first row, if the previous one has no row left.
    Throughput: one row in two cycles, with one idle cycle between instructions; each row starts the
    computation of the next. Stalls: `o` holds its row until taken.

    Members
    -------
    i: stream of `body_layout(opcode, config)`, in
        Instructions, LOAD or STORE.
    region, region_base: out, in
        The instruction's region, and its bus address, which is used one cycle after `i` shows the
        instruction, or later.
    o: stream of `row_layout(config)`, out
        Rows.
    """

    def __init__(self, opcode: Opcode, config: Config):
        self._opcode = opcode
        self._spad_bits = config.spad_addr_bits
        super().__init__(
            {
                "i": In(stream.Signature(body_layout(opcode, config))),
                "region": Out(range(len(Region))),
                "region_base": In(32),
                "o": Out(stream.Signature(row_layout(config))),
            }
        )

    def elaborate(self, platform):
        """Return the module: the counters of rows and planes, and the pipelined addresses."""
        m = Module()
        command, row = self.i.payload, self.o.payload
        loads = self._opcode is Opcode.LOAD
        fill = command.fill if loads else 0
        taken = self.o.valid & self.o.ready
        end = Signal()
        # The address being computed: in external memory, or else in the scratchpad.
        external = Signal()
        working = Signal()
        m.d.comb += [
            working.eq(self.i.valid & (~self.o.valid | (self.o.ready & ~end))),
            self.i.ready.eq(taken & end),
            self.region.eq(command.region),
            row.bytes.eq(command.row_bytes),
            row.last.eq(end),
            row.timestamp.eq(command.timestamp),
            # STORE has no fill; only the checks know that its fields are zero.
            row.fill.eq(fill),
            row.fill_value.eq(command.fill_value if loads else 0),
            row.constant.eq(reads_constants(command) if loads else 0),
        ]
        if "spread" in row.shape().members:
            m.d.comb += row.spread.eq(command.spread if loads else 0)
        with m.If(taken):
            m.d.sync += self.o.valid.eq(0)
        with m.If(working):
            m.d.sync += [external.eq(~external), self.o.valid.eq(external)]
        kind = self._count(m, working & external, end)
        self._compute_address(m, working, external, kind, fill)
        return m

    def _count(self, m: Module, done, end) -> dict:
        """Count rows and planes when a row is `done`; return flags of the next row, by name.

        The row is the first of an instruction (`begins`), the first of another plane (`turns`), or
        any other (`goes_on`). `from_first`: its addresses are relative to those of the first row of
        a plane.
        """
        command = self.i.payload
        kinds = ("begins", "turns", "goes_on", "from_first")
        kind = {name: Signal(name=name, init=name == "begins") for name in kinds}
        number = Signal.like(command.rows, init=1)
        plane = Signal.like(command.planes, init=1)
        # Computed before the row is done.
        plane_end = Signal()
        last_plane = Signal()
        m.d.sync += [
            plane_end.eq(number == command.rows),
            last_plane.eq(plane == command.planes),
        ]
        with m.If(done):
            m.d.sync += [
                end.eq(plane_end & last_plane),
                number.eq(Mux(plane_end, 0, number) + 1),
                kind["begins"].eq(plane_end & last_plane),
                kind["turns"].eq(plane_end & ~last_plane),
                kind["goes_on"].eq(~plane_end),
                kind["from_first"].eq(Mux(plane_end, ~last_plane, ~kind["goes_on"])),
            ]
            with m.If(plane_end):
                m.d.sync += plane.eq(Mux(last_plane, 0, plane) + 1)
        return kind

    def _compute_address(self, m: Module, working, external, kind: dict, fill):
        """Compute an address: that of the instruction, or that of an earlier row plus a step.

        The address is registered in the row, and stored in memory in the next cycle, before it is
        needed there.
        """
        m.submodules.before = before = Memory(shape=32, depth=4, init=[])
        store, fetch = before.write_port(), before.read_port(domain="comb")
        result = Signal(32)
        address = Signal(32, reset_less=True)
        spad = Signal(self._spad_bits, reset_less=True)
        stores_address = Signal()
        m.d.comb += [
            fetch.addr.eq(Cat(external, ~kind["from_first"])),
            result.eq(
                _choose(
                    (~kind["begins"], fetch.data), (kind["begins"] & external, self.region_base)
                )
                + self._step(external, kind)
            ),
            store.data.eq(Mux(stores_address, address, spad)),
            self.o.payload.address.eq(address),
            self.o.payload.spad.eq(spad),
        ]
        m.d.sync += [
            store.en.eq(working),
            stores_address.eq(external),
            # First rows of planes have separate places.
            store.addr.eq(Cat(external, kind["goes_on"])),
        ]
        with m.If(working & external):
            m.d.sync += address.eq(Mux(fill, 0, result))
        with m.If(working & ~external):
            m.d.sync += spad.eq(result)

    def _step(self, external, kind: dict):
        """Return what is added to get a row's address: the transfer's first address, or a step.

        `external` selects external memory rather than the scratchpad. `kind` has the flags of
        `_count`.
        """
        command = self.i.payload
        return _choose(
            (kind["begins"] & external, command.dram_offset),
            (kind["turns"] & external, command.dram_plane_step),
            (kind["goes_on"] & external, command.dram_row_step),
            (kind["begins"] & ~external, command.spad_addr),
            (kind["turns"] & ~external, command.spad_plane_step),
            (kind["goes_on"] & ~external, command.spad_row_step),
        )


def _choose(*found):
    """Return the value of the pair (bit, value) whose bit is set, or 0; at most one is set."""
    result = C(0)
    for chosen, value in found:
        result |= Mux(chosen, value, 0)
    return result
