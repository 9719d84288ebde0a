"""Register block on AXI4-Lite, generated from the register table."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.csr import (
    COUNTERS,
    COUNTERS_OFFSET,
    IDENTITY,
    REGISTERS,
    TIMESTAMPS_OFFSET,
    Access,
    register,
    registers_of,
)
from matloom.arch.isa import Region
from matloom_rtl.bus.axi_lite import AxiLiteSignature
from matloom_rtl.control.choose import choose
from matloom_rtl.control.counters import SLOT_BITS
from matloom_rtl.control.places import PLACE_BITS, STORED, place_of

__all__ = ["ASKERS", "Registers"]

#: Number of units that look up the bases of regions at the same time: LOAD and STORE.
ASKERS = 2

_OKAY, _SLAVE_ERROR = 0, 2

_CONSTANTS = ("ID", "DIGEST")

#: Counters are read one at a time; the first one has a port like other registers.
_COUNTERS = [name.upper() for name, _doc in COUNTERS[1:]]

#: 32-bit registers that hardware sets, other than constants and counters.
_SET_BY_HARDWARE = [
    item
    for item in REGISTERS
    if item.access is Access.R and item.width == 32 and item.name not in (*_CONSTANTS, *_COUNTERS)
]

#: Name and width of each part of a write that is held until both channels have delivered.
_WRITE = (("address", 12), ("word", 32), ("mask", 32))


def _members(config: Config) -> dict:
    """Return the ports for registers that logic outside the block sets or uses, by name."""
    members = {}
    for item in registers_of(config):
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
    """AXI4-Lite registers with byte strobes; one read and one write at a time.

    Latency: a write responds two cycles after the later of address and data. A read responds three
    cycles after its address, and up to two cycles later if a write takes effect in the first of
    them. A counter other than `cycles` responds once it is shown. Offsets without a register,
    writes to read-only registers, and writes to locked ones while the engine runs respond SLVERR.

    Members
    -------
    bus: AxiLiteSignature, in
    running: in
        Locked registers keep their values.
    mark_reading, mark_slot, mark_cycle: out, out, in
        Read port of the completion-time table; the cycle is valid one cycle after its slot.
    region, region_bytes: in, out
        A region, and its size in the same cycle.
    base_regions, bases: in, out
        For each of `ASKERS` units, a region and its bus address, which is valid at most two cycles
        later because the units share a read port.
    counter, counter_value, counter_shown: out, in, in
        As `Counters.slot`, `value` and `shown`.
    (register names in lower case):
        `RW` registers, out; `R` registers, in; `WO` registers, out, valid for one cycle when
        written; `W1C` registers, out, with ``_set`` bits, in.
    """

    def __init__(self, config: Config):
        self._config, self._table = config, registers_of(config)
        super().__init__(
            {
                "bus": In(AxiLiteSignature()),
                "running": In(1),
                "mark_reading": Out(1),
                "mark_slot": Out(range(max(2, config.timestamps))),
                "mark_cycle": In(32),
                "region": In(range(len(Region))),
                "region_bytes": Out(32),
                "base_regions": In(data.ArrayLayout(range(len(Region)), ASKERS)),
                "bases": Out(data.ArrayLayout(32, ASKERS)),
                "counter": Out(SLOT_BITS),
                "counter_value": In(32),
                "counter_shown": In(1),
                **_members(config),
            }
        )

    def elaborate(self, platform):
        """Return the module: the memory of stored registers, and the bus accesses."""
        m = Module()
        m.submodules.stored = memory = Memory(shape=32, depth=1 << PLACE_BITS, init=[])
        store, fetch = memory.write_port(), memory.read_port(domain="comb")
        address, word, mask = (Signal(bits, name=n) for n, bits in _WRITE)
        writing = Signal()
        stores = Signal()
        self._write(m, address, word, mask, writing, stores)
        # The stored word is read in one cycle and written back with the new bytes in the next:
        # until then address, word and mask are stable.
        before = Signal(32, reset_less=True)
        m.d.sync += store.en.eq(stores)
        m.d.comb += [
            store.addr.eq(place_of(address)),
            store.data.eq(Cat(Mux(mask[n], word[n], before[n]) for n in range(32))),
        ]
        looked_at = Signal(12)
        at = Signal(12)
        m.d.comb += [at.eq(Mux(writing, address, looked_at)), fetch.addr.eq(place_of(at))]
        found, known = self._find(m, at, fetch, store)
        m.d.sync += before.eq(found)
        m.d.comb += self.region_bytes.eq(self._look_up(m, memory, known, "BYTES", self.region))
        turn = Signal(range(ASKERS))
        m.d.sync += [
            turn.eq(turn + 1),
            self.bases[turn].eq(self._look_up(m, memory, known, "BASE", self.base_regions[turn])),
        ]
        self._read(m, looked_at, writing | store.en, before)
        return m

    def _find(self, m: Module, at, fetch, store):
        """Return the value of the register at address `at`, and a mask of the registers written.

        The value is 0 for an address without register, and for registers that hardware sets
        (`_SET_BY_HARDWARE`); a stored register has its reset value until it is written. The mask
        has a bit for each word of the memory behind the ports `fetch` and `store`.
        """
        known = Signal(1 << PLACE_BITS)
        stored = Signal()
        rest = Signal(32)
        with m.If(store.en):
            m.d.sync += known.bit_select(store.addr, 1).eq(1)
        written = known.bit_select(fetch.addr, 1)
        with m.Switch(at[2:]):
            for item in self._table:
                with m.Case(item.offset >> 2):
                    if item in STORED:
                        m.d.comb += [stored.eq(written), rest.eq(Mux(written, 0, item.reset))]
                    elif item not in _SET_BY_HARDWARE and item.name not in _COUNTERS:
                        m.d.comb += rest.eq(self._value(item))
        return Mux(stored, fetch.data, 0) | rest, known

    def _look_up(self, m: Module, memory, known, kind: str, region):
        """Return a region's base or size, as `kind` is BASE or BYTES; `known` is from `_find`."""
        items = [register(f"{each.name}_{kind}") for each in Region]
        assert not any(item.reset for item in items)
        place = Array(place_of(item.offset) for item in items)[region]
        fetch = memory.read_port(domain="comb")
        m.d.comb += fetch.addr.eq(place)
        return Mux(known.bit_select(place, 1), fetch.data, 0)

    def _write(self, m: Module, address, word, mask, writing, store):
        """Accept an address and a word, and perform the write in the cycle of `writing`.

        `store` is set in that cycle if the word goes to the memory of stored registers.
        """
        bus = self.bus
        for item in self._table:
            if item.access is Access.W1C:
                port = getattr(self, item.name.lower())
                m.d.sync += port.eq(port | getattr(self, f"{item.name.lower()}_set"))
            if item.access is Access.WO:
                m.d.sync += getattr(self, item.name.lower()).eq(0)

        have_address = Signal()
        have_word = Signal()
        m.d.comb += [
            bus.aw.ready.eq(~have_address & ~bus.b.valid),
            bus.w.ready.eq(~have_word & ~bus.b.valid),
        ]
        with m.If(bus.aw.valid & bus.aw.ready):
            m.d.sync += [address.eq(bus.aw.payload), have_address.eq(1)]
        with m.If(bus.w.valid & bus.w.ready):
            strobes = Cat(bit.replicate(8) for bit in bus.w.payload.strb)
            m.d.sync += [word.eq(bus.w.payload.data), mask.eq(strobes), have_word.eq(1)]
        m.d.comb += writing.eq(have_address & have_word)
        with m.If(bus.b.valid & bus.b.ready):
            m.d.sync += bus.b.valid.eq(0)
        with m.If(writing):
            m.d.sync += [have_address.eq(0), have_word.eq(0), bus.b.valid.eq(1)]
            with m.Switch(address):
                for item in self._table:
                    if item.access is not Access.R:
                        with m.Case(item.offset):
                            self._answer_write(m, item, word, mask, store)
                with m.Default():
                    m.d.sync += bus.b.payload.eq(_SLAVE_ERROR)

    def _answer_write(self, m: Module, item, word, mask, store):
        """Write a register and answer OKAY, or SLVERR if a run locks it."""
        if item.locked:
            with m.If(self.running):
                m.d.sync += self.bus.b.payload.eq(_SLAVE_ERROR)
            with m.Else():
                m.d.sync += self.bus.b.payload.eq(_OKAY)
                self._assign(m, item, word, mask, store)
        else:
            m.d.sync += self.bus.b.payload.eq(_OKAY)
            self._assign(m, item, word, mask, store)

    def _assign(self, m: Module, item, word, mask, store):
        """Update the register `item` with the bits of `word` that `mask` selects."""
        port = getattr(self, item.name.lower())
        if item.access is Access.W1C:
            fresh = getattr(self, f"{item.name.lower()}_set")
            m.d.sync += port.eq((port & ~(word & mask)) | fresh)
        elif item.access is Access.WO:
            m.d.sync += port.eq(word & mask)
        else:
            # Byte by byte: strobes are register enables, so that data bits pass no gate.
            for place in range(0, len(port), 8):
                with m.If(mask[place]):
                    m.d.sync += port[place : place + 8].eq(word[place : place + 8])
            if item in STORED:
                m.d.comb += store.eq(1)

    def _read(self, m: Module, address, writing, found):
        """Answer reads: locate a register in one cycle, and select its value in the next."""
        bus = self.bus
        looking = Signal()
        looked = Signal()
        m.d.comb += [
            bus.ar.ready.eq(~looking & ~looked & ~bus.r.valid),
            self.mark_reading.eq(looking),
            self.mark_slot.eq(address[2:]),
            self.counter.eq(address[2:]),
        ]
        with m.If(bus.r.valid & bus.r.ready):
            m.d.sync += bus.r.valid.eq(0)
        with m.If(bus.ar.valid & bus.ar.ready):
            m.d.sync += [address.eq(bus.ar.payload), looking.eq(1)]
        sources = {"found": found, "mark": self.mark_cycle, "counter": self.counter_value}
        sources |= {item.name: getattr(self, item.name.lower()) for item in _SET_BY_HARDWARE}
        names = list(sources)
        source = Signal(range(len(names)))
        there = Signal()
        m.d.sync += there.eq(self._decode_read_address(m, address, source, names))
        waits = (source == names.index("counter")) & ~self.counter_shown
        m.d.sync += looked.eq((looking & ~writing) | (looked & waits))
        with m.If(looking & ~writing):
            m.d.sync += looking.eq(0)
        with m.If(looked & ~waits):
            m.d.sync += [
                bus.r.valid.eq(1),
                bus.r.payload.data.eq(choose(list(sources.values()), source)),
                bus.r.payload.resp.eq(Mux(there, _OKAY, _SLAVE_ERROR)),
            ]

    def _decode_read_address(self, m: Module, address, source, names):
        """Return whether a byte address is that of a register.

        One cycle later, drive `source`: the index in `names` of the source of the register's value.
        """
        there = Signal()
        place = Signal.like(source)
        timestamps_end = TIMESTAMPS_OFFSET + 4 * self._config.timestamps
        first_counter, beyond = COUNTERS_OFFSET + 4, COUNTERS_OFFSET + 4 * len(COUNTERS)
        with m.Switch(address[2:]):
            for item in self._table:
                if item.name not in _COUNTERS:
                    with m.Case(item.offset >> 2):
                        m.d.comb += there.eq(1)
                        if item in _SET_BY_HARDWARE:
                            m.d.comb += place.eq(names.index(item.name))
        with m.If((address >= TIMESTAMPS_OFFSET) & (address < timestamps_end)):
            m.d.comb += [there.eq(1), place.eq(names.index("mark"))]
        with m.If((address >= first_counter) & (address < beyond)):
            m.d.comb += [there.eq(1), place.eq(names.index("counter"))]
        m.d.sync += source.eq(place)
        return there & (address[:2] == 0)

    def _value(self, item):
        """Return the value that a read of the register `item` returns."""
        if item.name == "ID":
            return IDENTITY
        if item.name == "DIGEST":
            return self._config.digest
        # Write-only registers read as zero.
        return 0 if item.access is Access.WO else getattr(self, item.name.lower())
