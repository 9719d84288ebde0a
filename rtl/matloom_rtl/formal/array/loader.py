"""Proof of EXEC's weights: which rows are read, in which order, and where they go."""

from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal

from matloom.arch.modes import MAC_MODES, NARROW_MODES
from matloom_rtl.array.cells import decode_flags
from matloom_rtl.array.loader import Loader
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.post.positions import touched_banks
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.ports import SPAD_READ_LATENCY

__all__ = ["loader", "loader_proofs"]


class _Rows:
    """Reference for the rows to read: the rows of a command are consecutive, tile by tile.

    Members
    -------
    working:
        There is a current command.
    address:
        Address of the current command's next row.
    row:
        Index of the next row in its tile.
    waiting:
        Another command waits for the current one to end.
    following:
        Address of the first row of the waiting command.
    whole:
        All rows of a tile have been read, and the tile has not been released.
    reads, end:
        A row is read in this cycle; the last tile of the current command is released.
    modes, transposed, zeros:
        Number format, whether tiles are transposed, and zero point of the weights, each of the
        current and of the waiting command. Missing if the configuration has no such field.
    """

    def __init__(self, m: Module, unit: Loader):
        config, bits = unit._config, len(unit.i.payload.weight_addr)
        self.reads, self.end = unit.read.valid & unit.read.ready, unit.release & unit.last
        self.working = Signal()
        self.waiting = Signal()
        self.whole = Signal()
        self.address = Signal(bits + 1)
        self.following = Signal(bits + 1)
        self.row = Signal(8)
        last, begins = self.row == config.tile_load_cycles - 1, ~self.working | self.end
        first = unit.i.payload.weight_addr
        with m.If(self.reads):
            m.d.sync += [
                self.address.eq(self.address + config.weight_bytes),
                self.row.eq(Mux(last, 0, self.row + 1)),
            ]
        with m.If(begins):
            m.d.sync += [
                *(self.working.eq(self.waiting), self.address.eq(self.following)),
                self.waiting.eq(0),
            ]
        with m.If(unit.i.valid & unit.i.ready):
            m.d.sync += [
                self.waiting.eq(1),
                self.following.eq(first - first % config.weight_boundary),
            ]
        with m.If(unit.release):
            m.d.sync += self.whole.eq(0)
        with m.If(self.reads & last):
            m.d.sync += self.whole.eq(1)
        # Only complete tiles are released, and the last of a command is marked.
        m.d.comb += Assume(~unit.release | self.whole)
        if _flags(unit):
            self.modes = _command_registers(m, unit, begins, "mode", unit.i.payload.mode)
        if config.transposed_weights:
            exchanged = unit.i.payload.weights_transposed
            self.transposed = _command_registers(m, unit, begins, "transposed", exchanged)
        if config.zero_points:
            given = unit.i.payload
            zero = Mux(given.zero_points & ~given.window, given.line, 0)
            self.zeros = _command_registers(m, unit, begins, "zero", zero)


def _command_registers(m: Module, unit: Loader, begins, name: str, value) -> tuple[Signal, Signal]:
    """Return two registers with a property of the current and of the waiting command.

    `value` is the property of the command that `unit.i` shows; `name` names the registers.
    """
    now, following = (
        Signal.like(value, name=each, reset_less=True) for each in (name, f"following_{name}")
    )
    with m.If(begins):
        m.d.sync += now.eq(following)
    with m.If(unit.i.valid & unit.i.ready):
        m.d.sync += following.eq(value)
    return now, following


def _flags(unit: Loader) -> dict:
    """Return the loader's outputs for the number format of a row of weights, by name."""
    config, flags = unit._config, {}
    if config.has_narrow:
        flags["narrow"] = unit.weight_narrow
    if len(config.float_modes) > 1:
        flags["format"] = unit.weight_format
    return flags


def loader(unit: Loader) -> Claim:
    """Claim that exactly the rows of each command's tiles are read, in order.

    Assumes that other units release a tile only when it is complete, and mark the last tile of a
    command.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    config, read = unit._config, unit.read
    rows = _Rows(m, unit)
    banks = touched_banks(rows.address, config.weight_bytes, config)
    free = ~rows.whole | (unit.release & ~unit.last)
    if config.has_paired_windows:
        free = free & ~unit.taken
    m.d.comb += [
        implies(read.valid, rows.working & free),
        implies(read.valid, read.address == rows.address),
        implies(read.valid, read.bank_select == banks),
        Assert(unit.full == rows.whole),
        Assert(unit.i.ready == ~rows.waiting),
        # Rows of a finished command are dropped, and none is read after its last tile.
        implies(rows.end, ~read.valid),
        Cover(rows.end & rows.waiting),
        Cover(rows.reads & rows.whole),
    ]
    _claim_delivery(m, unit, rows)
    _lemmas(m, whitebox, rows)
    if _flags(unit):
        _format_claim(m, unit, rows)
    if config.transposed_weights:
        _transposed_claim(m, unit, rows)
    _flag_lemmas(m, whitebox, rows)
    return Claim(module=m, ports=inputs_of(unit))


def _claim_delivery(m: Module, unit: Loader, rows: _Rows) -> None:
    """Claim that a row reaches the array a fixed time after its grant, at its index in the tile."""
    config, there, row = unit._config, rows.reads, rows.row
    for cycle in range(SPAD_READ_LATENCY + 1):
        there_then = Signal(name=f"there_{cycle}")
        row_then = Signal(8, name=f"row_{cycle}")
        m.d.sync += [there_then.eq(there), row_then.eq(row)]
        there, row = there_then, row_then
    found = unit.read.data
    if config.has_paired_windows:
        found = Mux(unit.blank, unit.pad.replicate(config.weight_bytes), found)
    data = Signal.like(unit.weight_data, name="data_before", reset_less=True)
    groups = Cat(there & (row == number) for number in range(config.tile_load_cycles))
    m.d.comb += Assert(unit.weight_writes == groups)
    if config.zero_points:
        _less_zero_points(m, unit, rows, found)
        return
    m.d.sync += data.eq(found)
    m.d.comb += Assert(unit.weight_data == data)


def _less_zero_points(m: Module, unit: Loader, rows: _Rows, weights) -> None:
    """Claim that the zero point of weights is subtracted from rows, but not from 2x2 blocks."""
    config = unit._config
    block = unit.taken if config.has_paired_windows else Const(0)
    there, zero = rows.reads, rows.zeros[0]
    for cycle in range(SPAD_READ_LATENCY):
        row = Signal(name=f"row_of_zero_{cycle}")
        other = Signal(name=f"block_{cycle}")
        number = Signal.like(zero, name=f"zero_{cycle}")
        m.d.sync += [row.eq(there), other.eq(block), number.eq(zero)]
        there, block, zero = row, other, number
    arrived = Signal(name="row_arrived")
    of_block = Signal(name="block_arrived")
    numbers = Signal.like(unit.weight_data, name="numbers", reset_less=True)
    less = Mux(block, 0, zero).as_signed()
    parts = (weights.word_select(at, 8).as_signed() - less for at in range(config.weight_bytes))
    m.d.sync += [arrived.eq(there), of_block.eq(block), numbers.eq(Cat(parts))]
    m.d.comb += [
        implies(arrived | of_block, unit.weight_data == numbers),
        Cover(rows.end & arrived & unit.weight_data[8]),
    ]


def _format_claim(m: Module, unit: Loader, rows: _Rows) -> None:
    """Claim that weights reach the array with their command's number format.

    Blocks of 2 x 2 positions are never narrow.
    """
    config, there, mode = unit._config, rows.reads, rows.modes[0]
    block = unit.taken if config.has_paired_windows else Const(0)
    for cycle in range(SPAD_READ_LATENCY + 1):
        then = [Signal.like(each, name=f"told_{cycle}_{n}") for n, each in enumerate((mode, block))]
        row = Signal(name=f"row_there_{cycle}")
        m.d.sync += [row.eq(there), *(a.eq(b) for a, b in zip(then, (mode, block), strict=True))]
        there, (mode, block) = row, then
    if config.has_narrow:
        narrow = Cat(mode == MAC_MODES.index(name) for name in NARROW_MODES).any()
        m.d.comb += [
            implies(there, unit.weight_narrow == narrow),
            implies(block, ~unit.weight_narrow),
            Cover(rows.end & there & unit.weight_narrow),
        ]
    if len(config.float_modes) > 1:
        for index, name in enumerate(config.float_modes):
            mine = there & (mode == MAC_MODES.index(name))
            m.d.comb += implies(mine, unit.weight_format == index)
        m.d.comb += Cover(rows.end & there & unit.weight_format.all())


def _transposed_claim(m: Module, unit: Loader, rows: _Rows) -> None:
    """Claim that a row reaches the array with the flag that its command's tiles are transposed."""
    there, transposed = rows.reads, rows.transposed[0]
    for cycle in range(SPAD_READ_LATENCY + 1):
        row_then = Signal(name=f"any_row_{cycle}")
        transposed_then = Signal(name=f"transposed_{cycle}")
        m.d.sync += [row_then.eq(there), transposed_then.eq(transposed)]
        there, transposed = row_then, transposed_then
    m.d.comb += [
        implies(there, unit.weight_transposed == transposed),
        Cover(rows.end & there & unit.weight_transposed),
    ]


def _flag_lemmas(m: Module, whitebox: Whitebox, rows: _Rows) -> None:
    """Assert invariants for the induction: the flags of commands and of requested rows."""
    unit, requests = whitebox.unit, whitebox.child("requests")
    shown, full = requests.unit.o.valid, ~requests.unit.i.ready
    at, _free = requests.addresses("storage")
    stored = [requests.peek("storage", place) for place in (at, ~at)]
    first = len(requests.unit.o.payload.address)
    flags = {
        name: (flag, *(decode_flags(mode, unit._config)[name] for mode in rows.modes))
        for name, flag in _flags(unit).items()
    }
    if unit._config.transposed_weights:
        flags["transposed"] = unit.weight_transposed, *rows.transposed
    if unit._config.zero_points:
        flags["zero"] = rows.zeros[0], *rows.zeros
    for name, (flag, now, then) in flags.items():
        after = first + len(flag)
        m.d.comb += [
            implies(rows.waiting, whitebox.register(name=f"following_{name}") == then),
            implies(rows.working, whitebox.register(name=name) == now),
            implies(shown, stored[0][first:after] == now),
            implies(full, stored[1][first:after] == now),
        ]
        first = after


def _lemmas(m: Module, whitebox: Whitebox, rows: _Rows) -> None:
    """Assert invariants for the induction: the loader's registers, and rows that await a grant."""
    config, requests = whitebox.unit._config, whitebox.child("requests")
    unit, step = requests.unit, config.weight_bytes
    shown, full = unit.o.valid, ~unit.i.ready
    working, waiting = (whitebox.register(name=name) for name in ("working", "waiting"))
    address, following = (whitebox.register(name=name) for name in ("address", "following"))
    bits = len(address)
    counted, group = whitebox.register(name="group"), rows.row
    after = (rows.address + step)[:bits]
    asked = (rows.address + Mux(full, 2 * step, Mux(shown, step, 0)))[:bits]
    at, free = requests.addresses("storage")
    oldest, second = (requests.peek("storage", place)[:bits] for place in (at, ~at))
    hand, skid = (requests.register(name=f"bank_select{name}") for name in ("", "_skid"))
    m.d.comb += [
        Assert((working == rows.working) & (waiting == rows.waiting)),
        implies(waiting, following == rows.following[:bits]),
        implies(full, shown),
        implies(shown, working),
        implies(working, address == asked),
        Assert((at ^ free) == (shown ^ full)),
        implies(shown, (oldest == rows.address[:bits])),
        implies(shown, hand == touched_banks(rows.address[:bits], step, config)),
        implies(full, (second == after) & (skid == touched_banks(after, step, config))),
        Assert((counted == group) & (group < config.tile_load_cycles)),
        Assert(whitebox.register(name="last") == (group == config.tile_load_cycles - 1)),
    ]


def loader_proofs(units: list) -> list[Proof]:
    """Return a proof for each weight loader among a chip's units."""
    return [
        Proof(
            kind="addresses",
            unit="Loader",
            statement="the rows of an instruction's weights are read in order, each once, none "
            "before the previous tile is released nor after the last tile, and reach the array at "
            "their index in the tile, with the number format of their instruction",
            build=lambda unit=unit: loader(unit),
            depth=SPAD_READ_LATENCY + 3,
            cover_depth=30,
        )
        for unit in units
        if isinstance(unit, Loader)
    ]
