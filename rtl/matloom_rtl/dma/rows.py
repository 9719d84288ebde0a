"""Walks the planes and rows of LOAD and STORE instructions."""

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
    """Return whether a LOAD reads region PROGRAM."""
    return (command.region == Region.PROGRAM) & ~command.fill


class Rows(wiring.Component):
    """Turn instructions into rows, planes outermost, with both addresses of each.

    A row takes many cycles to move, so one adder works its addresses out, that in external memory
    before that in the scratchpad. Those of the row before, and of the first row of its plane, lie
    in a small memory.

    A fill touches no external memory: its rows lie at address 0, so that no beat is wasted. What is
    in the scratchpad wraps at `Config.spad_addr_bits`.

    Instructions are not copied: `i` shows one until its last row is taken, and is taken with it.

    Latency: an instruction shown in cycle t, when the one before has no row left, shows its first
    row in t + 2. Throughput: a row in two cycles, and a cycle between instructions: the next row of
    an instruction is begun when one is taken. Stalls: `o` holds its row until taken.

    Members
    -------
    i: stream of `body_layout(opcode, config)`, in
        Instructions, LOAD or STORE.
    region, region_base: out, in
        The instruction's region, and its bus address in the same cycle.
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
        m = Module()
        command, row = self.i.payload, self.o.payload
        loads = self._opcode is Opcode.LOAD
        fill = command.fill if loads else 0
        taken, end = self.o.valid & self.o.ready, Signal()
        # Which address is worked out: that in the scratchpad, or else that in external memory.
        on_chip, working = Signal(), Signal()
        m.d.comb += [
            working.eq(self.i.valid & (~self.o.valid | (self.o.ready & ~end))),
            self.i.ready.eq(taken & end),
            self.region.eq(command.region),
            row.bytes.eq(command.row_bytes),
            row.last.eq(end),
            row.timestamp.eq(command.timestamp),
            # STORE has none of these; that its fields are so only its checks know.
            row.fill.eq(fill),
            row.fill_value.eq(command.fill_value if loads else 0),
            row.constant.eq(reads_constants(command) if loads else 0),
            row.spread.eq(command.spread if loads else 0),
        ]
        with m.If(taken):
            m.d.sync += self.o.valid.eq(0)
        with m.If(working):
            m.d.sync += [on_chip.eq(~on_chip), self.o.valid.eq(on_chip)]
        kind = self._count(m, working & on_chip, end)
        self._add(m, working, on_chip, kind, fill)
        return m

    def _count(self, m: Module, done, end) -> dict:
        """Count rows and planes when one is done; return of which kind the next one is.

        Kinds: the first of an instruction (`begins`), of another plane (`turns`), and of the others
        the one behind such a first (`follows`).
        """
        command = self.i.payload
        kind = {"begins": Signal(init=1), "turns": Signal(), "follows": Signal()}
        number, plane = Signal.like(command.rows, init=1), Signal.like(command.planes, init=1)
        # Known before the row is done.
        plane_end, last_plane = Signal(), Signal()
        m.d.sync += [
            plane_end.eq(number == command.rows),
            last_plane.eq(plane == command.planes),
        ]
        with m.If(done):
            m.d.sync += [
                end.eq(plane_end & last_plane),
                number.eq(number + 1),
                kind["begins"].eq(plane_end & last_plane),
                kind["turns"].eq(plane_end & ~last_plane),
                kind["follows"].eq((kind["begins"] | kind["turns"]) & ~plane_end),
            ]
            with m.If(plane_end):
                m.d.sync += [number.eq(1), plane.eq(Mux(last_plane, 1, plane + 1))]
        return kind

    def _add(self, m: Module, working, on_chip, kind: dict, fill):
        """Work an address out: the instruction's, or that of an earlier row and a step.

        It is kept in the row, and stored from there in the cycle behind: nobody asks for it sooner.
        """
        m.submodules.before = before = Memory(shape=32, depth=4, init=[])
        store, fetch = before.write_port(), before.read_port(domain="comb")
        result, address = Signal(32), Signal(32, reset_less=True)
        spad, stores_spad = Signal(self._spad_bits, reset_less=True), Signal()
        m.d.comb += [
            fetch.addr.eq(Cat(on_chip, ~(kind["turns"] | kind["follows"]))),
            result.eq(self._base(on_chip, kind, fetch.data) + self._step(on_chip, kind)),
            store.data.eq(Mux(stores_spad, spad, address)),
            self.o.payload.address.eq(address),
            self.o.payload.spad.eq(spad),
        ]
        m.d.sync += [
            store.en.eq(working),
            stores_spad.eq(on_chip),
            # First rows of planes lie below the others.
            store.addr.eq(Cat(on_chip, ~(kind["begins"] | kind["turns"]))),
        ]
        with m.If(working & ~on_chip):
            m.d.sync += address.eq(Mux(fill, 0, result))
        with m.If(working & on_chip):
            m.d.sync += spad.eq(result)

    def _base(self, on_chip, kind: dict, before):
        """Return what a step is added to: a region's base, nothing, or a row's address."""
        return _choose((~kind["begins"], before), (kind["begins"] & ~on_chip, self.region_base))

    def _step(self, on_chip, kind: dict):
        """Return what is added."""
        command = self.i.payload
        rest = ~(kind["begins"] | kind["turns"])
        return _choose(
            (kind["begins"] & ~on_chip, command.dram_offset),
            (kind["turns"] & ~on_chip, command.dram_plane_step),
            (rest & ~on_chip, command.dram_row_step),
            (kind["begins"] & on_chip, command.spad_addr),
            (kind["turns"] & on_chip, command.spad_plane_step),
            (rest & on_chip, command.spad_row_step),
        )


def _choose(*found):
    """Return the value whose bit is set; of several bits only one is."""
    result = C(0)
    for chosen, value in found:
        result |= Mux(chosen, value, 0)
    return result
