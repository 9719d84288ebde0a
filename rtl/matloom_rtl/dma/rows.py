"""Walks the planes and rows of LOAD and STORE instructions."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, Region
from matloom_rtl.dma.bursts import row_layout
from matloom_rtl.ports import body_layout

__all__ = ["REGION_BASES", "Rows", "reads_constants"]

#: The bus address of every region, by number.
REGION_BASES = data.ArrayLayout(unsigned(32), len(Region))

#: Digits of a row's addresses: two of that in external memory, one of that in the scratchpad.
_LOW, _HIGH, _SPAD = range(3)


def reads_constants(command):
    """Return whether a LOAD reads region PROGRAM."""
    return (command.region == Region.PROGRAM) & ~command.fill


class Rows(wiring.Component):
    """Turn instructions into rows, planes outermost, with both addresses of each.

    A row takes many cycles to move, so its addresses are worked out in three cycles by one adder
    of 16 bits, or of those that the scratchpad's addresses have: the lower half of that in external
    memory, its upper half, that in the scratchpad. Those of the row before, and of the first row of
    its plane, lie in a small memory.

    A fill touches no external memory: its rows lie at address 0, so that no beat is wasted. What is
    in the scratchpad wraps at `Config.spad_addr_bits`.

    Instructions are not copied: `i` shows one until its last row is taken, and is taken with it.

    Latency: an instruction shown in cycle t, when the one before has no row left, shows its first
    row in t + `LATENCY`. Throughput: a row in ``LATENCY + 1`` cycles, across instructions, too.
    Stalls: `o` holds its row until taken.

    Members
    -------
    i: stream of `body_layout(opcode, config)`, in
        Instructions, LOAD or STORE.
    region_base: array of 4 x 32 bits, in
        Bus address of every region; stable while instructions come.
    o: stream of `row_layout(config)`, out
        Rows.
    """

    #: Cycles from an instruction, or from the row before, to a row.
    LATENCY = 3

    def __init__(self, opcode: Opcode, config: Config):
        self._opcode = opcode
        self._spad_bits = config.spad_addr_bits
        self._width = max(16, config.spad_addr_bits)
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
        taken, end = self.o.valid & self.o.ready, Signal()
        # A bit for each digit: what it chooses needs no decoder.
        digit, working = Signal(self.LATENCY, init=1), Signal()
        m.d.comb += [
            working.eq(self.i.valid & ~self.o.valid),
            self.i.ready.eq(taken & end),
            row.bytes.eq(command.row_bytes),
            row.last.eq(end),
            row.timestamp.eq(command.timestamp),
            # STORE has none of these; that its fields are so only its checks know.
            row.fill.eq(fill),
            row.fill_value.eq(command.fill_value if loads else 0),
            row.constant.eq(reads_constants(command) if loads else 0),
            row.spread.eq(command.spread if loads else 0),
        ]
        with m.If(working):
            m.d.sync += [digit.eq(digit.rotate_left(1)), self.o.valid.eq(digit[-1])]
        with m.If(taken):
            m.d.sync += self.o.valid.eq(0)
        kind = self._count(m, taken, end)
        self._show(m, working, digit, self._add(m, working, digit, kind), fill)
        return m

    def _count(self, m: Module, taken, end) -> dict:
        """Count rows and planes; return of which kind the row is that is worked out.

        Kinds: the first of an instruction (`begins`), of another plane (`turns`), and of the others
        the one behind such a first (`follows`).
        """
        command = self.i.payload
        kind = {"begins": Signal(init=1), "turns": Signal(), "follows": Signal()}
        number, plane = Signal.like(command.rows, init=1), Signal.like(command.planes, init=1)
        # Known when the row is shown, cycles after it was counted.
        plane_end, last_plane = Signal(), Signal()
        m.d.comb += end.eq(plane_end & last_plane)
        m.d.sync += [
            plane_end.eq(number == command.rows),
            last_plane.eq(plane == command.planes),
        ]
        with m.If(taken):
            m.d.sync += [
                number.eq(number + 1),
                kind["begins"].eq(end),
                kind["turns"].eq(plane_end & ~last_plane),
                kind["follows"].eq((kind["begins"] | kind["turns"]) & ~plane_end),
            ]
            with m.If(plane_end):
                m.d.sync += [number.eq(1), plane.eq(plane + 1)]
            with m.If(end):
                m.d.sync += plane.eq(1)
        return kind

    def _add(self, m: Module, working, digit, kind: dict):
        """Return a digit of an address: of the instruction's, or of an earlier row's and a step."""
        m.submodules.before = before = Memory(shape=self._width, depth=16, init=[])
        store, fetch = before.write_port(), before.read_port(domain="comb")
        total, carry = Signal(self._width + 1), Signal()
        number = digit[_HIGH:]
        m.d.comb += [
            # First rows of planes lie below the others.
            store.addr.eq(Cat(number, ~(kind["begins"] | kind["turns"]))),
            store.en.eq(working),
            store.data.eq(total),
            fetch.addr.eq(Cat(number, ~(kind["turns"] | kind["follows"]))),
            total.eq(self._base(digit, kind, fetch.data) + self._step(digit, kind) + carry),
        ]
        with m.If(working):
            m.d.sync += carry.eq(total[-1] & digit[_LOW])
        return total[: self._width]

    def _base(self, digit, kind: dict, before):
        """Return what a step is added to: a region's base, nothing, or a row's address."""
        region, begins = self.i.payload.region, kind["begins"]
        found = [(~begins, before)]
        for number, base in enumerate(self.region_base):
            chosen = begins & (region == number)
            found += [
                (chosen & digit[_LOW], base[: self._width]),
                (chosen & digit[_HIGH], base[self._width :]),
            ]
        return _choose(found)

    def _step(self, digit, kind: dict):
        """Return the digit of what is added."""
        command, found = self.i.payload, []
        rest = ~(kind["begins"] | kind["turns"])
        for chosen, external, spad in (
            (kind["begins"], command.dram_offset, command.spad_addr),
            (kind["turns"], command.dram_plane_step, command.spad_plane_step),
            (rest, command.dram_row_step, command.spad_row_step),
        ):
            found += [
                (chosen & digit[_LOW], external[: self._width]),
                (chosen & digit[_HIGH], external[self._width :]),
                (chosen & digit[_SPAD], spad),
            ]
        return _choose(found)

    def _show(self, m: Module, working, digit, total, fill):
        """Keep each digit in its place of the row."""
        row = self.o.payload
        address = Signal(32, reset_less=True)
        spad = Signal(self._spad_bits, reset_less=True)
        m.d.comb += [row.address.eq(address), row.spad.eq(spad)]
        parts = (address[: self._width], address[self._width :], spad)
        for place, part in enumerate(parts):
            with m.If(working & digit[place]):
                m.d.sync += part.eq(total if place == _SPAD else Mux(fill, 0, total))


def _choose(found):
    """Return the value whose bit is set; of several bits only one is."""
    result = C(0)
    for chosen, value in found:
        result |= Mux(chosen, value, 0)
    return result
