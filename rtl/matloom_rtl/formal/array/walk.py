"""Proof of EXEC's walk, compared vector by vector with the six loops of the instruction set."""

from amaranth.hdl import Assert, Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import data

from matloom_rtl.array.cells import decode_flags
from matloom_rtl.array.walk import Walk, vector_layout
from matloom_rtl.formal.array.walk_lemmas import ROW_BITS, is_at, lemmas
from matloom_rtl.formal.array.walk_nest import STAGES, WalkNest
from matloom_rtl.formal.parts.channel import assume_stays, implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.ports import access_bits

__all__ = ["walk", "walk_proofs"]


def walk(unit: Walk) -> Claim:
    """Claim that vectors follow the six loops, each once, with their addresses and flags.

    Assumes that the sender keeps instructions until they are taken, and that they have no empty
    loop and no row longer than the scratchpad. `Outputs` is removed: its results are arbitrary, and
    its inputs are claimed.
    """
    m = Module()
    whitebox = Whitebox(unit)
    outputs = whitebox.child("outputs").unit
    free = whitebox.free("outputs")
    m.submodules.unit = whitebox.fragment
    assume_stays(m, unit.i)
    nest = WalkNest(m, unit, whitebox)
    product = _product(m, whitebox)
    m.d.comb += [
        Assert(unit.start == (nest.there[0] | nest.paused[0])),
        Assert(unit.valid == nest.there[STAGES]),
        Assert(unit.paused == nest.paused[STAGES]),
        implies(Cat(nest.running, nest.there[1:]).any(), unit.active),
    ]
    vector, last = unit.vector, nest.vector[STAGES]
    claim_flags(m, vector, last, unit.valid, unit._config)
    claim_elements(m, vector, last, unit.valid, unit._config)
    address = (last.fields.input_addr + product + last.byte)[: access_bits(unit._config)]
    m.d.comb += [
        implies(unit.valid, vector.row_valid == row_valid(last, unit._config)),
        implies(_needs_read(unit), vector.address.as_unsigned() == address),
        Cover(_needs_read(unit) & last.last & last.tap & (last.row == 2) & (vector.low == 1)),
    ]
    _outputs(m, unit, outputs, nest)
    _stages(m, whitebox, nest)
    lemmas(m, whitebox, nest)
    return Claim(module=m, ports=(*free, *inputs_of(unit)))


def _needs_read(unit: Walk):
    """Return whether any part of the arriving vector is read from memory."""
    vector, some = unit.vector, unit.vector.low < unit.vector.high
    if unit._config.has_paired_windows:
        some = some | vector.paired
    return unit.valid & vector.row_valid & some


def claim_flags(m: Module, actual, expected, valid, config) -> None:
    """Claim that `actual`, a vector within the unit, has the flags of `expected`."""
    fields = expected.fields
    m.d.comb += [
        *(
            implies(valid, actual[name] == expected[name])
            for name in ("first", "switch", "last_tile", "add", "last")
        ),
        implies(valid, actual.pad == fields.pad_value.as_unsigned()),
    ]
    for name in ("maximum", "window"):
        if name in actual.shape().members:
            m.d.comb += implies(valid, actual[name] == fields[name])
    if config.zero_points:
        m.d.comb += implies(valid, actual.zero_points == (fields.zero_points & ~fields.window))
    if config.has_paired_windows:
        m.d.comb += implies(valid, actual.paired == _is_paired(expected, config))
    if config.has_wide_windows:
        shape = Mux(_is_paired(expected, config), 0, fields.window_shape)
        m.d.comb += implies(valid, actual.window_shape == shape)
    for name, flag in decode_flags(fields.mode, config).items():
        m.d.comb += implies(valid, actual.flags[name] == flag)


def claim_elements(m: Module, actual, expected, valid, config) -> None:
    """Claim which elements of a vector come from memory: those within their row.

    None does if the vector is a block of 2 x 2 positions, which is read otherwise.
    """
    byte, size = expected.byte, expected.fields.input_row_bytes
    for index in range(config.rows):
        in_row = (byte + index >= 0) & (byte + index < size) & ~_is_paired(expected, config)
        taken = (index >= actual.low) & (index < actual.high)
        m.d.comb += implies(valid, taken == in_row)


def _is_row_in_input(vector):
    """Return whether the row of a reference vector lies in the input."""
    return (vector.row >= 0) & (vector.row < vector.fields.input_rows)


def row_valid(vector, config):
    """Return whether the vector's row lies in the input.

    A block of 2 x 2 positions must also have all of its bytes in its row.
    """
    byte, fields, there = vector.byte, vector.fields, _is_row_in_input(vector)
    if config.has_paired_windows:
        whole = (byte >= 0) & (byte + config.paired_bytes <= fields.input_row_bytes)
        there = there & (~_is_paired(vector, config) | whole)
    return there


def _is_paired(vector, config):
    """Return whether a reference vector belongs to a polyphase stride-2 window (field `paired`)."""
    return vector.fields.window & vector.fields.paired if config.has_paired_windows else Const(0, 1)


def _product(m: Module, whitebox: Whitebox) -> Signal:
    """Claim the product of row and pitch; return it two cycles after both were available."""
    row, pitch = whitebox.register(name="row_bits"), whitebox.register(name="pitch2")
    product = whitebox.register(name="product3")
    expected, arrived = (
        Signal(len(product), name=f"product_{stage}", reset_less=True) for stage in (3, 4)
    )
    m.d.sync += [expected.eq(row * pitch), arrived.eq(expected)]
    m.d.comb += Assert(product == expected)
    return arrived


def _stages(m: Module, whitebox: Whitebox, nest: WalkNest) -> None:
    """Assert invariants: the registers of the pipeline's stages, by the vectors in them."""
    config, (first, second, third) = nest.config, nest.vector[1:4]
    fields, there = second.fields, nest.there
    known = whitebox.register(name="known")
    marks = ("switch", "last_tile", "add", "last", "first", "start")
    s2, s3 = (
        data.View(vector_layout(config), whitebox.register(name=name)) for name in ("s2", "s3")
    )
    beyond = second.byte >= 1 << config.spad_addr_bits
    names = ("base2", "room2", "under2", "beyond2", "base3")
    base, room, under, past, base3 = (whitebox.register(name=name) for name in names)
    row, pitch = whitebox.register(name="row_bits"), whitebox.register(name="pitch2")
    m.d.comb += [
        *(Assert(whitebox.register(name=f"paused{n}") == nest.paused[n]) for n in (1, 2, 3)),
        *(Assert(vector.fields.input_row_bytes <= config.spad_bytes) for vector in nest.vector),
        implies(there[1], is_at(whitebox.register(name="s1_byte"), first.byte, len(base) - 1)),
        implies(there[1], is_at(whitebox.register(name="s1_row"), first.row, ROW_BITS)),
        implies(there[1], known == Cat(first[name] for name in marks)),
        implies(there[1], whitebox.register(name="resume") == first.resume),
        implies(there[2], s2.entry == fields.acc_addr),
        implies(there[3], s3.entry == third.fields.acc_addr),
        implies(there[2], (past == beyond) & (pitch == fields.input_pitch)),
        implies(there[2] & ~beyond, base == (fields.input_addr + second.byte)[: len(base)]),
        implies(there[2] & ~beyond, room == fields.input_row_bytes - second.byte),
        implies(there[2] & ~beyond, under == -second.byte),
        implies(there[2], s2.row_valid == _is_row_in_input(second)),
        implies(there[2] & s2.row_valid, row == second.row[:12]),
        implies(there[3], s3.row_valid == row_valid(third, config)),
        implies(
            there[3] & (third.byte < 1 << config.spad_addr_bits),
            base3 == (third.fields.input_addr + third.byte)[: len(base)],
        ),
    ]
    for stage, found in ((2, s2), (3, s3)):
        claim_flags(m, found, nest.vector[stage], there[stage], config)
    claim_elements(m, s3, third, there[3], config)


def _outputs(m: Module, unit: Walk, outputs, nest: WalkNest) -> None:
    """Claim that `Outputs` gets the right inputs, and that its results arrive."""
    vector, third, grid = nest.vector[1], nest.vector[3], outputs.grid
    entry, output = (
        Signal.like(each, name=f"told_{name}", reset_less=True)
        for each, name in ((outputs.entry, "entry"), (outputs.output, "output"))
    )
    later = Signal.like(output, name="told_output_later", reset_less=True)
    m.d.sync += [entry.eq(outputs.entry), output.eq(outputs.output), later.eq(output)]
    line = Mux(vector.fields.line < 3, 3, vector.fields.line)
    m.d.comb += [
        Assert(outputs.valid == Cat(nest.there[1:4])),
        *(implies(nest.there[1], grid[n] == vector[n]) for n in ("first", "start", "resume")),
        implies(nest.there[1], grid.penultimate + 2 == line),
        *(
            implies(nest.there[1], grid[name] == vector.fields[name])
            for name in grid.shape().members
            if name in vector.fields.shape().members
        ),
        implies(nest.there[3], outputs.acc_addr == third.fields.acc_addr),
        implies(unit.valid, unit.vector.entry == entry),
        implies(unit.valid, unit.vector.output == later),
    ]


def walk_proofs(units: list) -> list[Proof]:
    """Return a proof for each walk among a chip's units."""
    return [
        Proof(
            kind="addresses",
            unit="Walk",
            statement="the vectors of EXEC follow the instruction set's six loops, each once and "
            "in order, with address, padding and flags; a step takes at least the latency "
            "of an accumulator update, as does the gap before an accumulating instruction",
            build=lambda unit=unit: walk(unit),
            depth=2,
            cover_depth=30,
        )
        for unit in units
        if isinstance(unit, Walk)
    ]
