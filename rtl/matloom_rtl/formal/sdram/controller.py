"""Proofs of the SDRAM controller: its pins obey the rules, and each beat is accessed once."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from amaranth.hdl import Assert, Module, Mux, Signal

from matloom.arch.config import load_config
from matloom.arch.sdram import SdramPart, load_sdram
from matloom_rtl.board.definition import board_names, load_board
from matloom_rtl.formal.parts.channel import assume_stays, implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.formal.sdram.controller_lemmas import Parts, lemmas
from matloom_rtl.formal.sdram.pin_rules import Rules
from matloom_rtl.sdram.controller import SdramController
from matloom_rtl.sdram.pins import ControllerPlan

__all__ = ["sdram", "sdram_proofs", "short_wait_controller"]

#: SDRAM and clock of the controller with short waits.
_PART, _CLOCK_HZ = "IS42S16160", 54_000_000

_STATEMENT = (
    "tRCD, tRP, tRAS, tRC, tRFC, tWR, tRRD and tMRD are kept, rows are open or closed as commands "
    "need it, power-up, mode and refreshes come in order, each refresh before the next is due; the "
    "beats of a chunk go to its row, in order, each once; words are driven with WRITE alone"
)


def sdram(unit: SdramController, *, with_covers: bool = True) -> Claim:
    """Claim the rules of the pins, and a READ or WRITE for each beat of a chunk (part of a burst).

    The port is removed; it is assumed to keep a chunk that it shows until the chunk is taken. With
    `with_covers`, covers are added, which need an SDRAM that is initialised within a few cycles.
    """
    m = Module()
    whitebox = Whitebox(unit)
    port = whitebox.child("port").unit
    free = whitebox.free("port")
    parts = Parts(whitebox)
    m.submodules.unit = whitebox.fragment
    rules = Rules(m, unit)
    assume_stays(m, port.chunks)
    _chunks(m, port, parts, rules)
    lemmas(m, parts, rules)
    if with_covers:
        m.d.comb += rules.reach()
    return Claim(module=m, ports=(rules.which, *free, *inputs_of(unit)))


def _chunks(m: Module, port, parts: Parts, rules: Rules) -> None:
    """Claim that each beat of a chunk has one command at the pins, with its bank and column.

    Chunks pass in order and unchanged.
    """
    plan, given, pins, columns = rules.plan, rules.given, rules.pins, parts.columns
    layout = plan.chunk_layout
    taken = port.chunks.valid & port.chunks.ready
    held = Signal(layout)
    full = Signal()
    passed = columns.i.valid & columns.i.ready
    with m.If(taken):
        m.d.sync += [held.eq(port.chunks.payload), full.eq(1)]
    with m.Elif(passed):
        m.d.sync += full.eq(0)
    m.d.comb += [
        implies(taken, ~full),
        implies(passed, full & (columns.i.payload == held)),
        Assert(full == ~parts.opener_in("Idle")),
        implies(full, parts.next == held),
    ]
    # The pins are a cycle later than the commands.
    late = Signal()
    now = Signal(layout)
    place = Signal(plan.beat_bits)
    left = Signal(plan.count_bits + 1)
    coming = Signal(layout)
    m.d.sync += [late.eq(passed), coming.eq(held)]
    rest = left - given.column
    with m.If(given.column):
        m.d.sync += [place.eq(place + 1), left.eq(rest)]
    with m.If(late):
        m.d.sync += [now.eq(coming), place.eq(coming.place.beat), left.eq(coming.count + 1)]
    column, row = place << (plan.columns - 1).bit_length(), now.place.row
    beat, chunk = Mux(late, coming.place.beat, place + given.column), layout(Mux(late, coming, now))
    inner = parts.chunk
    m.d.comb += [
        implies(given.column, (left != 0) & (given.write == now.write)),
        implies(given.column, (pins.ba == now.place.bank) & (pins.a == column[: len(pins.a)])),
        implies(given.column & rules.mine, rules.row == row),
        implies(late, rest == 0),
        # The port provides and records a beat for each of them, one cycle earlier.
        Assert(port.take == columns.write),
        # Lemmas: the unit processes the same chunk.
        Assert(left <= plan.chunk_beats),
        Assert(parts.active == (late | (rest != 0))),
        implies(parts.active, inner.count + 1 == Mux(late, coming.count + 1, rest)),
        implies(parts.active, inner.place.beat == beat[: plan.beat_bits]),
        *(
            implies(parts.active, getattr(inner, name) == getattr(chunk, name))
            for name in ("write", "id", "last")
        ),
        implies(parts.active, inner.place.bank == chunk.place.bank),
        implies(parts.active, inner.place.row == chunk.place.row),
    ]


def short_wait_controller(
    part: SdramPart, *, clock_hz: int, bus_bits: int, gear: int = 1
) -> SdramController:
    """Return a controller with short chunks and waits, so that covers are soon reached.

    Chunks are parts of bursts, cut at multiples of some number of beats.
    """
    timing = part.timing_of_gear(clock_hz, gear)
    plan = ControllerPlan(part=part, timing=timing, bus_bits=bus_bits, chunk_beats=2, gear=gear)
    due = gear * (plan.longest_wait + 1)
    timing = replace(plan.timing, power_up=4, refresh_due=due, refresh=due + 1, initial_refreshes=2)
    return SdramController(
        part,
        clock_hz=clock_hz,
        bus_bits=bus_bits,
        burst_beats=plan.chunk_beats,
        timing=timing,
        gear=gear,
    )


def _boards() -> dict[str, Callable[[], SdramController]]:
    """Return functions that build the controllers of boards with an SDRAM, by description."""
    found = {}
    for board in map(load_board, board_names()):
        memory, config = board.memory, load_config(board.config)
        if memory.part:
            name = f"{memory.part}, {board.clock_hz / 10**6:.4g} MHz, {config.bus_bits} bits"
            name += ", two of its cycles in one" if memory.gear == 2 else ""
            found[name] = partial(
                SdramController,
                load_sdram(memory.part),
                clock_hz=board.clock_hz,
                bus_bits=config.bus_bits,
                burst_beats=config.burst_beats,
                gear=memory.gear,
            )
    return found


def sdram_proofs(units: list) -> list[Proof]:
    """Return the proofs of SDRAM controllers: those of boards, and one with short waits.

    Returns an empty list if `units` has no controller. On a board, covers would take too many
    cycles from power-up; those of `short_wait_controller`, which has the same claim, show that the
    claim is not vacuous.
    """
    if not any(isinstance(unit, SdramController) for unit in units):
        return []
    return [
        *(
            Proof(
                kind="memory",
                unit=f"SdramController, {name}",
                statement=_STATEMENT,
                build=lambda make=make: sdram(make(), with_covers=False),
                depth=2,
                cover_depth=1,
            )
            for name, make in _boards().items()
        ),
        Proof(
            kind="memory",
            unit="SdramController, short waits for power and refreshes",
            statement=_STATEMENT,
            build=lambda: sdram(
                short_wait_controller(load_sdram(_PART), clock_hz=_CLOCK_HZ, bus_bits=32)
            ),
            depth=2,
            cover_depth=80,
        ),
    ]
