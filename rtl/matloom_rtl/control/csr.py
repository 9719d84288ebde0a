"""The register block behind AXI4-Lite, made from the register table."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.csr import (
    COUNTERS,
    COUNTERS_OFFSET,
    IDENTITY,
    REGISTERS,
    TIMESTAMPS_OFFSET,
    Access,
)
from matloom_rtl.bus.axi_lite import AxiLiteSignature
from matloom_rtl.control.counters import SLOT_BITS

__all__ = ["Registers"]

_OKAY, _SLAVE_ERROR = 0, 2

#: Registers are read in two steps: within rows of so many bytes, and among the rows.
_ROW_BYTES = 32

_CONSTANTS = ("ID", "DIGEST")

#: They are read one by one; the first has a port as other registers have.
_COUNTERS = [name.upper() for name, _doc in COUNTERS[1:]]


def _members() -> dict:
    """Return a port for each register that something outside the block sets or uses."""
    members = {}
    for item in REGISTERS:
        name = item.name.lower()
        if item.access is Access.RW:
            members[name] = Out(item.width, init=item.reset)
        elif item.access is Access.WO:
            members[name] = Out(item.width)
        elif item.access is Access.W1C:
            members |= {name: Out(item.width), f"{name}_set": In(item.width)}
        elif item.name not in (*_CONSTANTS, *_COUNTERS):
            members[name] = In(32)
    return members


class Registers(wiring.Component):
    """Serve one read and one write at a time, with byte strobes.

    A write answers two cycles after the later of address and data; a read three cycles after its
    address, of a counter but `cycles` when that is shown. Offsets without a register, writes to
    read-only ones, and to locked ones while the engine runs, answer SLVERR.

    Members
    -------
    bus: AxiLiteSignature, in
    running: in
        Locked registers keep their values.
    mark_slot, mark_cycle: out, in
        Read port of the completion-time table; the cycle follows its slot by one cycle.
    counter, counter_value, counter_shown: out, in, in
        As `Counters.slot`, `value` and `shown`.
    (register names in lower case):
        `RW` registers, out; `R` registers, in; `WO` registers, out, for one cycle where written;
        `W1C` registers, out, with ``_set`` bits, in.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "bus": In(AxiLiteSignature()),
                "running": In(1),
                "mark_slot": Out(range(max(2, config.timestamps))),
                "mark_cycle": In(32),
                "counter": Out(SLOT_BITS),
                "counter_value": In(32),
                "counter_shown": In(1),
                **_members(),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._write(m)
        self._read(m)
        return m

    def _write(self, m: Module):
        bus = self.bus
        address, word = Signal(12), Signal(32)
        mask = Signal(32)
        for item in REGISTERS:
            if item.access is Access.W1C:
                port = getattr(self, item.name.lower())
                m.d.sync += port.eq(port | getattr(self, f"{item.name.lower()}_set"))
            if item.access is Access.WO:
                m.d.sync += getattr(self, item.name.lower()).eq(0)

        have_address, have_word = Signal(), Signal()
        m.d.comb += [
            bus.aw.ready.eq(~have_address & ~bus.b.valid),
            bus.w.ready.eq(~have_word & ~bus.b.valid),
        ]
        with m.If(bus.aw.valid & bus.aw.ready):
            m.d.sync += [address.eq(bus.aw.payload), have_address.eq(1)]
        with m.If(bus.w.valid & bus.w.ready):
            strobes = Cat(bit.replicate(8) for bit in bus.w.payload.strb)
            m.d.sync += [word.eq(bus.w.payload.data), mask.eq(strobes), have_word.eq(1)]
        with m.If(bus.b.valid & bus.b.ready):
            m.d.sync += bus.b.valid.eq(0)
        with m.If(have_address & have_word):
            m.d.sync += [have_address.eq(0), have_word.eq(0), bus.b.valid.eq(1)]
            with m.Switch(address):
                for item in REGISTERS:
                    if item.access is not Access.R:
                        with m.Case(item.offset):
                            self._obey(m, item, word, mask)
                with m.Default():
                    m.d.sync += bus.b.payload.eq(_SLAVE_ERROR)

    def _obey(self, m: Module, item, word, mask):
        if item.locked:
            with m.If(self.running):
                m.d.sync += self.bus.b.payload.eq(_SLAVE_ERROR)
            with m.Else():
                m.d.sync += self.bus.b.payload.eq(_OKAY)
                self._assign(m, item, word, mask)
        else:
            m.d.sync += self.bus.b.payload.eq(_OKAY)
            self._assign(m, item, word, mask)

    def _assign(self, m: Module, item, word, mask):
        port = getattr(self, item.name.lower())
        if item.access is Access.W1C:
            fresh = getattr(self, f"{item.name.lower()}_set")
            m.d.sync += port.eq((port & ~(word & mask)) | fresh)
        elif item.access is Access.WO:
            m.d.sync += port.eq(word & mask)
        else:
            # Byte by byte: a strobe enables registers, and no bit passes a gate.
            for place in range(0, len(port), 8):
                with m.If(mask[place]):
                    m.d.sync += port[place : place + 8].eq(word[place : place + 8])

    def _read(self, m: Module):
        """Look into every row of registers at once, then choose the row."""
        bus = self.bus
        address, looking, looked = Signal(12), Signal(), Signal()
        timestamps_end = TIMESTAMPS_OFFSET + 4 * self._config.timestamps
        in_timestamps, aligned, in_counters = Signal(), Signal(), Signal()
        first_counter, beyond = COUNTERS_OFFSET + 4, COUNTERS_OFFSET + 4 * len(COUNTERS)
        m.d.comb += [
            bus.ar.ready.eq(~looking & ~looked & ~bus.r.valid),
            self.mark_slot.eq(address[2:]),
            self.counter.eq(address[2:]),
        ]
        m.d.sync += [
            in_timestamps.eq((address >= TIMESTAMPS_OFFSET) & (address < timestamps_end)),
            in_counters.eq((address >= first_counter) & (address < beyond)),
            aligned.eq(address[:2] == 0),
        ]
        with m.If(bus.r.valid & bus.r.ready):
            m.d.sync += bus.r.valid.eq(0)
        with m.If(bus.ar.valid & bus.ar.ready):
            m.d.sync += [address.eq(bus.ar.payload), looking.eq(1)]
        waits = in_counters & ~self.counter_shown
        m.d.sync += looked.eq(looking | (looked & waits))
        with m.If(looking):
            m.d.sync += looking.eq(0)
        rows = self._rows(m, address)
        with m.If(looked & ~waits):
            m.d.sync += [
                bus.r.valid.eq(1),
                bus.r.payload.data.eq(self.mark_cycle),
                bus.r.payload.resp.eq(Mux(in_timestamps & aligned, _OKAY, _SLAVE_ERROR)),
            ]
            with m.Switch(address[_ROW_BYTES.bit_length() - 1 :]):
                for row, word, known in rows:
                    with m.Case(row):
                        m.d.sync += [
                            bus.r.payload.data.eq(word),
                            bus.r.payload.resp.eq(Mux(known & aligned, _OKAY, _SLAVE_ERROR)),
                        ]
            with m.If(in_counters):
                m.d.sync += [
                    bus.r.payload.data.eq(self.counter_value),
                    bus.r.payload.resp.eq(Mux(aligned, _OKAY, _SLAVE_ERROR)),
                ]

    def _rows(self, m: Module, address):
        """Return of each row its number, the word that the address selects, and whether it is."""
        rows = []
        registers = [item for item in REGISTERS if item.name not in _COUNTERS]
        for row in sorted({item.offset // _ROW_BYTES for item in registers}):
            word, known = (
                Signal(32, name=f"word_{row}", reset_less=True),
                Signal(name=f"known_{row}"),
            )
            m.d.sync += [word.eq(0), known.eq(0)]
            with m.Switch(address[2 : _ROW_BYTES.bit_length() - 1]):
                for item in registers:
                    if item.offset // _ROW_BYTES == row:
                        with m.Case(item.offset % _ROW_BYTES // 4):
                            m.d.sync += [word.eq(self._value(item)), known.eq(1)]
            rows.append((row, word, known))
        return rows

    def _value(self, item):
        if item.name == "ID":
            return IDENTITY
        if item.name == "DIGEST":
            return self._config.digest
        # A write-only register reads as zero.
        return 0 if item.access is Access.WO else getattr(self, item.name.lower())
