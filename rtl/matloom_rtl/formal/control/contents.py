"""Proof of the registers' contents: the last bytes written, wherever a register is visible."""

from amaranth.hdl import Assert, Cat, Cover, Module, Mux, Signal

from matloom.arch.csr import Access, register
from matloom.arch.isa import Region
from matloom_rtl.control.csr import ASKERS, Registers
from matloom_rtl.control.places import STORED, place_of
from matloom_rtl.formal.parts.arbitrary import Arbitrary
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["contents", "contents_proofs"]

#: Cycles without a change after which the base of a requested region is shown.
_SETTLED = 3


class _ArbitraryRegister(Arbitrary):
    """One arbitrary writable register, constant during a run, with its properties as signals."""

    def __init__(self, m: Module, unit: Registers):
        self.items = [item for item in unit._table if item.access is Access.RW]
        super().__init__(m, len(self.items))
        self.offset, self.reset = (
            self.property_of(lambda item: item.offset),
            self.property_of(lambda i: i.reset),
        )
        self.locked, self.stored = (
            self.property_of(lambda i: i.locked),
            self.property_of(lambda i: i in STORED),
        )
        self.bits = self.property_of(lambda item: (1 << item.width) - 1)
        self.place = self.property_of(lambda item: place_of(item.offset) if item in STORED else 0)

    def property_of(self, property_):
        """Return the value of a property for the chosen register.

        `property_` is a function from a register to the property, an integer or bool.
        """
        return self.choose([int(property_(item)) for item in self.items])

    def is_named(self, name: str):
        """Return whether the chosen register is the one called `name`."""
        return self.number == self.items.index(register(name))


def contents(unit: Registers) -> Claim:
    """Claim that an arbitrary register shows the bytes written to it, at its port and in reads.

    Writes are observed on the bus. The bytes of a word with strobes are written when its address
    and the word have both come, in either order, unless the register is locked by a run.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    chosen = _ArbitraryRegister(m, unit)
    shadow = Signal(32)
    written = Signal()
    value = Signal(32)
    m.d.comb += value.eq(Mux(written, shadow, chosen.reset))
    takes, merged = _changes(m, whitebox, chosen, value)
    m.d.comb += _ports(unit, chosen, value)
    # It reaches the memory for reads one cycle later.
    pending = Signal()
    old = Signal(32)
    was = Signal()
    m.d.sync += [pending.eq(takes & chosen.stored), old.eq(value), was.eq(written)]
    with m.If(takes):
        m.d.sync += [shadow.eq(merged), written.eq(1)]
    _storage_lemmas(m, whitebox, chosen, (pending, old, was), (value, shadow, written))
    _reads(m, whitebox, chosen, value, takes)
    _regions(m, unit, chosen, value, takes | pending)
    m.d.comb += Cover(written & (value != chosen.reset) & unit.bus.r.valid)
    return Claim(module=m, ports=(*inputs_of(unit), chosen.number))


def _changes(m: Module, whitebox: Whitebox, chosen: _ArbitraryRegister, value) -> tuple:
    """Follow writes on the bus; return whether the register is written now, and its next value."""
    unit = whitebox.unit
    bus = unit.bus
    address = Signal(12)
    word = Signal(32)
    strobes = Signal(4)
    have_address = Signal()
    have_word = Signal()
    writing = Signal()
    m.d.comb += writing.eq(have_address & have_word)
    with m.If(bus.aw.valid & bus.aw.ready):
        m.d.sync += [address.eq(bus.aw.payload), have_address.eq(1)]
    with m.If(bus.w.valid & bus.w.ready):
        m.d.sync += [word.eq(bus.w.payload.data), strobes.eq(bus.w.payload.strb), have_word.eq(1)]
    with m.If(writing):
        m.d.sync += [have_address.eq(0), have_word.eq(0)]
    mask = Signal(32)
    takes = Signal()
    allowed = ~(chosen.locked & unit.running)
    m.d.comb += [
        mask.eq(Cat(bit.replicate(8) for bit in strobes)),
        takes.eq(writing & (address == chosen.offset) & allowed),
        # Lemmas: the unit holds the same parts.
        Assert(whitebox.register(name="have_address") == have_address),
        Assert(whitebox.register(name="have_word") == have_word),
    ]
    held = (("address", address), ("word", word), ("mask", mask))
    m.d.comb += [Assert(whitebox.register(name=name) == part) for name, part in held]
    return takes, ((value & ~mask) | (word & mask)) & chosen.bits


def _ports(unit: Registers, chosen: _ArbitraryRegister, value) -> list:
    """Return claims that the port of the chosen register shows its value."""
    return [
        implies(chosen.number == number, getattr(unit, item.name.lower()) == value)
        for number, item in enumerate(chosen.items)
    ]


def _storage_lemmas(m: Module, whitebox: Whitebox, chosen: _ArbitraryRegister, before, now) -> None:
    """Assert invariants for the induction: the register memory, and a write to it in progress.

    `before` and `now` describe the register before and after that write.
    """
    (pending, old, was), (value, shadow, written) = before, now
    known = whitebox.register(name="known").bit_select(chosen.place, 1)
    store = whitebox.register(name="$signature__en")
    kept = whitebox.peek("stored", chosen.place)
    m.d.comb += [
        implies(pending, store & written & (whitebox.register(name="before") == old)),
        implies(chosen.stored & pending, known == was),
        implies(chosen.stored & ~pending, known == written),
        implies(chosen.stored & ~pending & written, kept == shadow),
        implies(chosen.stored & pending & was, kept == old),
    ]
    address, offset = whitebox.register(name="address"), chosen.offset
    word, mask = whitebox.register(name="word"), whitebox.register(name="mask")
    m.d.comb += [
        implies(pending, (address == offset) & (value == ((old & ~mask) | (word & mask)))),
        # Nothing else is stored at its place.
        implies(chosen.stored & store & ~pending, place_of(address) != chosen.place),
    ]


def _reads(m: Module, whitebox: Whitebox, chosen: _ArbitraryRegister, value, takes) -> None:
    """Claim that a read returns the value, if the register is not written meanwhile."""
    bus = whitebox.unit.bus
    mine = Signal()
    quiet = Signal()
    with m.If(takes):
        m.d.sync += quiet.eq(0)
    with m.If(bus.ar.valid & bus.ar.ready):
        m.d.sync += [mine.eq(bus.ar.payload == chosen.offset), quiet.eq(~takes)]
    looked_at = whitebox.register(name="looked_at")
    looking, looked = whitebox.register(name="looking"), whitebox.register(name="looked")
    source, there = whitebox.register(name="source"), whitebox.register(name="there")
    m.d.comb += [
        implies(bus.r.valid & mine, bus.r.payload.resp == 0),
        implies(bus.r.valid & mine & quiet, bus.r.payload.data == value),
        # Lemmas: the lookup uses the address of the chosen register.
        implies((looking | looked) & mine, looked_at == chosen.offset),
        implies(looked & mine, (source == 0) & there),
        implies(looked & mine & quiet, whitebox.register(name="before") == value),
    ]


def _regions(m: Module, unit: Registers, chosen: _ArbitraryRegister, value, changes) -> None:
    """Claim that look-ups of a region's base and size return the value of their register."""
    for region in Region:
        asked = chosen.is_named(f"{region.name}_BYTES") & (unit.region == region)
        m.d.comb += implies(asked & ~changes, unit.region_bytes == value)
    for asker in range(ASKERS):
        asked, base = unit.base_regions[asker], unit.bases[asker]
        cycles = Signal(range(4))
        before = Signal.like(asked, name=f"asked_{asker}")
        same = ~changes & (asked == before)
        m.d.sync += [before.eq(asked), cycles.eq(Mux(same, cycles + (cycles != _SETTLED), 0))]
        for region in Region:
            mine = chosen.is_named(f"{region.name}_BASE") & (asked == region)
            m.d.comb += implies(mine & same & (cycles == _SETTLED), base == value)


def contents_proofs(units: list) -> list[Proof]:
    """Return the proof for the registers of a chip."""
    return [
        Proof(
            kind="registers",
            unit="Registers, contents",
            statement="each writable register shows the bytes written last, with address and word "
            "in either order, at its port, in reads, and in look-ups of regions",
            build=lambda unit=unit: contents(unit),
            depth=5,
            cover_depth=15,
        )
        for unit in units
        if isinstance(unit, Registers)
    ]
