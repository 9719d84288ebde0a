"""Proof of POST's writes: each result once, at its address, with exactly its own bytes."""

from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal, Value

from matloom.arch.isa import Destination, RowFunction, Table
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.post.positions import touched_banks
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.lanes import PLACES
from matloom_rtl.post.writer import Writer

__all__ = ["writer", "writer_proofs"]


class _Results:
    """Vectors of results, from their first beat to their write; one arbitrary vector is marked.

    Assumes that beats come in order, and that a vector begins only if there is room.

    Members
    -------
    mark:
        Free input that selects the marked vector in the cycle of its last beat.
    count, beat:
        Number of complete vectors that are not written yet, and of beats of the arriving vector
        that have come.
    ahead:
        Position of the marked vector in the order of writes, from 1 on; 0 if there is none.
    value:
        Values of the marked vector.
    mine:
        Whether the next vector to write is the marked one.
    """

    def __init__(self, m: Module, whitebox: Whitebox, leaves):
        unit, beats, lanes = whitebox.unit, whitebox.unit._beats, whitebox.unit._config.lanes
        self.mark = Signal()
        self.count = Signal(range(PLACES + 1))
        self.ahead = Signal(5)
        self.beat = Signal(range(beats + 1))
        self.value = Signal(32 * unit._config.columns)
        gathered = Signal.like(self.value)
        now = Signal.like(self.value)
        width, self.mine = 32 * lanes, self.ahead == 1
        beat = [self.beat == number for number in range(beats)]
        arrives = unit.emerges[-1]
        m.d.comb += [
            now.eq(gathered),
            Assume((unit.emerges == 0) | (unit.emerges == Cat(beat))),
            Assume(~unit.emerges[0] | (self.count < PLACES)),
        ]
        for number in range(beats):
            with m.If(unit.emerges[number]):
                m.d.comb += now[number * width :][:width].eq(unit.results.as_value())
        with m.If(unit.emerges.any()):
            m.d.sync += [self.beat.eq(Mux(arrives, 0, self.beat + 1)), gathered.eq(now)]
        m.d.sync += self.count.eq(self.count + arrives - leaves)
        with m.If(arrives & self.mark & (self.ahead == 0)):
            m.d.sync += [self.ahead.eq(self.count + 1 - leaves), self.value.eq(now)]
        with m.Elif(self.ahead != 0):
            m.d.sync += self.ahead.eq(self.ahead - leaves)
        self._lemmas(m, whitebox, (leaves, gathered))

    def _lemmas(self, m: Module, whitebox: Whitebox, state) -> None:
        """Assert invariants: the unit's counters, and the places of the values in its memories."""
        leaves, gathered = state
        unit, config = whitebox.unit, whitebox.unit._config
        at = whitebox.register(name="write_at")
        left = Signal()
        # If values are shown in the cycle of their data, the read pointer advances a cycle late.
        m.d.sync += left.eq(leaves)
        late = 0 if config.tables or config.element_size_bits else left
        place = (at + PLACES - self.count + self.ahead - 1)[: len(at)]
        m.d.comb += [
            Assert(self.ahead <= self.count),
            Assert((self.count + (self.beat != 0) <= PLACES) & (self.beat < unit._beats)),
            Assert(whitebox.register(name="level") == self.count),
            Assert(whitebox.register(name="present") == (self.count != 0)),
        ]
        for column in range(config.columns):
            if column % 4 == 0:
                read_at = whitebox.register(name=f"read_at_{column}")
                m.d.comb += Assert(read_at == (at - self.count - late)[: len(at)])
            bits = slice(32 * column, 32 * column + 32)
            name, came = f"results_{column}", self.beat > column // config.lanes
            m.d.comb += [
                implies(self.ahead != 0, whitebox.peek(name, place) == self.value[bits]),
                implies(came, whitebox.peek(name, at) == gathered[bits]),
            ]


def writer(unit: Writer) -> Claim:
    """Claim that each result is written once, at its position, with the bytes of its columns.

    Assumes that the command and its number formats are constant while there are results, and that a
    position changes only after its result has left. The queue of write requests is removed, because
    it is proven separately.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    config, command = unit._config, unit.command
    to_spad = command.destination == Destination.SPAD
    fills = to_spad & (command.table == Table.FILL) if config.tables else Const(0)
    if config.has_channel_tables:
        fills |= to_spad & (command.table == Table.FILL_EACH)
    if config.softmax:
        fills = fills | (to_spad & (command.softmax == RowFunction.FILL))
    to_spad, free = to_spad & ~fills, ()
    results_leave = Signal()
    ends = Signal()
    results = _Results(m, whitebox, unit.advance)
    if config.element_size_bits:
        parts = whitebox.child("parts").unit
        free = whitebox.free("parts")
        ends = _claim_parts(m, whitebox, parts, results, to_spad)
        waits = parts.o.valid
    else:
        ends, waits = _claim_byte_writes(m, unit, results, to_spad), Const(0)
    _entries(m, unit, results, ~to_spad & ~fills)
    taken = Mux(to_spad, ends, unit.acc.valid & unit.acc.ready)
    if config.fills_tables:
        rows = unit.rows
        m.d.comb += [
            Assert(rows.valid == (fills & (results.count != 0))),
            implies(rows.valid & results.mine, rows.payload == _low_bytes(results.value, rows)),
        ]
        taken = Mux(fills, rows.valid & rows.ready, taken)
        waits = waits | (fills & ~rows.ready)
    some = results.count != 0
    m.d.comb += [
        # Each result advances once, and only existing results do.
        Assert(unit.advance == taken),
        implies(unit.advance, some),
        Assert(unit.finished == (unit.advance & unit.position.end)),
        Assert(unit.waiting == (some | waits)),
    ]
    _assume_constant(m, unit, results, waits)
    m.d.comb += results_leave.eq(unit.advance & (results.count == 2) & (results.ahead == 1))
    m.d.comb += [
        Cover(results_leave & to_spad & unit.position.last_block & (command.tail == 1)),
        Cover(results_leave & ~to_spad & ~fills),
    ]
    return Claim(module=m, ports=(results.mark, *free, *inputs_of(unit)))


def _assume_constant(m: Module, unit: Writer, results: _Results, waits) -> None:
    """Assume that the command, its number formats and a result's position are constant.

    They are while results are pending, the position until its result leaves.
    """
    held = Cat(unit.command, unit.numbers)
    position = Value.cast(unit.position)
    before = Signal.like(held, name="held_before")
    place = Signal.like(position, name="was_at")
    busy = Signal()
    stays = Signal()
    there = (results.count != 0) & ~unit.advance
    m.d.sync += [
        *(before.eq(held), place.eq(position), stays.eq(there)),
        busy.eq((results.count != 0) | waits | (results.beat != 0) | unit.emerges.any()),
    ]
    m.d.comb += [
        Assume(~busy | (held == before)),
        Assume(~stays | (position == place)),
    ]
    if unit._config.element_size_bits:
        m.d.comb += Assume(unit.numbers.size <= unit._config.element_size_bits)


def _mask(unit: Writer):
    """Return one bit per column that a vector has: in the last block, those below `tail`."""
    whole = ~unit.position.last_block
    return Cat(whole | (unit.command.tail > column) for column in range(unit._config.columns))


def _later(m: Module, name: str, value, bits: int = 1):
    """Return a register with a value of the previous cycle; a single bit is 0 after a reset."""
    later = Signal(bits, name=name, reset_less=bits > 1)
    m.d.sync += later.eq(value)
    return later


def _entries(m: Module, unit: Writer, results: _Results, to_acc) -> None:
    """Claim the requests to write results to accumulators, and their data a cycle later."""
    acc, wide = unit.acc, len(unit.acc.data)
    taken = _later(m, "entry_taken", acc.valid & acc.ready & results.mine)
    value = _later(m, "entry_value", results.value, wide)
    m.d.comb += [
        Assert(acc.valid == (to_acc & (results.count != 0))),
        implies(acc.valid, acc.address == unit.position.entry),
        implies(acc.valid, acc.mask == _mask(unit)),
        implies(acc.valid, acc.add == (unit.command.destination == Destination.ACC_ADD)),
        implies(taken, acc.data == value),
    ]
    if unit._config.has_float:
        m.d.comb += implies(acc.valid, acc.floating == unit.numbers.floating)


def _low_bytes(values, port):
    """Return the low byte of each 32-bit value, for as many bytes as the port's payload has."""
    return Cat(values.word_select(index, 32)[:8] for index in range(len(port.payload) // 8))


def _claim_byte_writes(m: Module, unit: Writer, results: _Results, to_spad):
    """Claim the scratchpad writes of one-byte elements; return whether one is granted."""
    spad, columns = unit.spad, unit._config.columns
    taken = spad.valid & spad.ready
    bytes_ = Cat(results.value.word_select(index, 32)[:8] for index in range(columns))
    mine = _later(m, "row_taken", taken & results.mine)
    value = _later(m, "row_value", bytes_, 8 * columns)
    m.d.comb += [
        Assert(spad.valid == (to_spad & (results.count != 0))),
        implies(spad.valid, spad.address == unit.position.address),
        implies(spad.valid, spad.bank_select == unit.position.bank_select),
        implies(spad.valid, spad.mask == _mask(unit)),
        implies(mine, spad.data == value),
    ]
    return taken


def _claim_parts(m: Module, whitebox: Whitebox, parts, results: _Results, to_spad):
    """Claim the scratchpad writes of multi-byte elements, several for each vector.

    Returns whether the queue takes the last part of a vector.
    """
    unit, i, o = whitebox.unit, parts.i, parts.o
    config, spad, position, size = unit._config, unit.spad, unit.position, unit.numbers.size
    columns, most = config.columns, 1 << config.element_size_bits
    part = Signal(range(most + 1))
    last, taken = part + 1 == 1 << size, i.valid & i.ready
    with m.If(taken):
        m.d.sync += part.eq(Mux(last, 0, part + 1))
    address = (position.address + part * columns)[: len(position.address)]
    m.d.comb += [
        Assert(part < 1 << size),
        Assert(whitebox.register(name="part_written") == part),
        implies(part != 0, to_spad & (results.count != 0)),
        Assert(i.valid == (to_spad & (results.count != 0))),
        implies(i.valid, i.payload.address == address),
        implies(i.valid, i.payload.bank_select == touched_banks(address, columns, config)),
    ]
    mask = _mask(unit)
    for log in range(config.element_size_bits + 1):
        for number in range(1 << log):
            here = i.valid & (size == log) & (part == number)
            # Byte k of the vector is one of element k / 2**log.
            places = [divmod(columns * number + each, 1 << log) for each in range(columns)]
            data = Cat(results.value[32 * n + 8 * k :][:8] for n, k in places)
            m.d.comb += [
                implies(here, i.payload.mask == Cat(mask[n] for n, _k in places)),
                implies(here & results.mine, i.payload.data == data),
            ]
    data = _later(m, "part_data", o.payload.data, 8 * columns)
    m.d.comb += [
        Assert((spad.valid == o.valid) & (o.ready == spad.ready)),
        Assert(spad.data == data),
        *(
            Assert(getattr(spad, name) == o.payload[name])
            for name in ("address", "bank_select", "mask")
        ),
    ]
    return taken & last


def writer_proofs(units: list) -> list[Proof]:
    """Return a proof for each writer of POST among a chip's units."""
    return [
        Proof(
            kind="places",
            unit="Writer",
            statement="each result is written once, in order, at its position's address or entry, "
            "with exactly the bytes of the columns that the block has",
            build=lambda unit=unit: writer(unit),
            depth=2,
            cover_depth=20,
        )
        for unit in units
        if isinstance(unit, Writer)
    ]
