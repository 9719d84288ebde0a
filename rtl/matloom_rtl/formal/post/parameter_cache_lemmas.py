"""Lemmas about the registers and memories of POST's parameter cache, for its proof."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data

from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox
from matloom_rtl.post.parameters import Parameters

__all__ = ["lemmas"]

#: Minimum cycles from the first cycle of a block to state `Fetch`, to register `full`, to register
#: `swap`, and until lanes see the block; also from when the previous block was shown.
_FETCH, _FULL, _TURN, _SEEN = 1, 2, 3, 4


class _Writes:
    """Writes of the unit to its memories in this cycle.

    Members
    -------
    held:
        The unit's register that describes the write.
    repeated, read:
        Whether the instruction's word, or words of a read, are written; each for biases and for
        multipliers.
    row:
        Row of the column's word in its memory.
    mine:
        Whether the write includes the column's word.
    """

    def __init__(self, m: Module, whitebox: Whitebox, column):
        unit = whitebox.unit
        rows, memories, words = unit._rows, unit._memory_count, unit._words
        layout = data.StructLayout(
            {
                **dict.fromkeys(("repeats", "biases", "multipliers", "shifts"), 1),
                **{"row": range(max(2, rows)), "groups": memories // words, "block": 2},
            }
        )
        self.held = held = layout(whitebox.register(name="writes"))
        kinds = (held.biases, held.multipliers)
        self.repeated = [kind & held.repeats for kind in kinds]
        self.read = [kind & ~held.repeats for kind in kinds]
        columns = range(unit._columns)
        self.row = Signal.like(held.row, name="row_of_column")
        m.d.comb += self.row.eq(column.choose([n // memories for n in columns]))
        group = column.choose([held.groups[n % memories // words] for n in columns])
        self.mine = (held.row == self.row) & group


class _State:
    """Registers of the unit by name, and values derived from them."""

    def __init__(self, m: Module, whitebox: Whitebox, column):
        names = ("full", "swap", "repeating", "step", "missing")
        self.full, self.swap, self.repeating, self.step, self.missing = (
            whitebox.register(name=name) for name in names
        )
        self.arrived, self.present, self.place = (
            whitebox.register(name=name) for name in ("arrived", "present", "place")
        )
        self.in_, self.block = whitebox.in_states, whitebox.register(name="block_0")
        self.fetching, self.idle = self.in_("Load", "Fetch"), self.in_("Idle")
        #: A block is being fetched, or has been fetched and not yet shown.
        self.unshown = self.fetching | self.full
        self.writes = _Writes(m, whitebox, column)
        self.repeats = self.repeating | Cat(self.writes.repeated).any()


def lemmas(m: Module, whitebox: Whitebox, followed, beats) -> None:
    """Assert all invariants for the induction: when and where parameters are stored."""
    column, blocks, reads = followed
    state = _State(m, whitebox, column)
    _claim_stages(m, whitebox, state, blocks)
    _claim_repeats(m, whitebox.unit, state, blocks)
    _claim_arrivals(m, whitebox.unit, state, (blocks, reads), beats[1])
    due = _missing_words(whitebox.unit, state, column, blocks)
    _claim_common_values(m, whitebox, state, blocks)
    _claim_contents(m, whitebox, state, (column, blocks), due)
    _claim_multiplier_place(m, whitebox, state, (column, blocks), beats[0])


def _claim_stages(m: Module, whitebox: Whitebox, state: _State, blocks) -> None:
    """Assert invariants for the induction: the unit's state, by the number of pending blocks."""
    kept = blocks.task.shape()(whitebox.register(name="task"))
    unfetched = state.in_("Wait", "Load", "Fetch")
    left = Mux(unfetched, kept.blocks, 0) + (state.in_("Fetch") | state.full)
    since, shown = blocks.since, blocks.shown
    m.d.comb += [
        *(
            Assert(whitebox.register(name=f"block_{lane}") == state.block)
            for lane in range(whitebox.unit._lanes)
        ),
        Assert(state.writes.held.block == (state.block + state.unshown)[:2]),
        Assert(state.present == blocks.present),
        Assert(blocks.pending == left),
        implies(state.in_("Wait", "Load"), kept.blocks != 0),
        implies(blocks.old, state.full & ~state.repeats & state.in_("Wait")),
        implies(state.full, ~state.fetching & (blocks.pending != 0)),
        implies(state.swap, state.full & ~blocks.present),
        implies(blocks.present, blocks.shown),
        implies(shown & state.in_("Load"), since >= _FETCH),
        implies(shown & state.in_("Fetch"), since >= _FULL),
        implies(shown & state.full, since >= _TURN),
        implies(shown & state.swap, since >= _SEEN),
    ]


def _claim_repeats(m: Module, unit: Parameters, state: _State, blocks) -> None:
    """Assert invariants for the induction: how often a word of the instruction was written."""
    rows, step, writes = unit._rows, state.step, state.writes
    bias, scale = blocks.task.channel_bias, blocks.task.channel_scale
    first, last = Mux(bias, rows, 0), Mux(scale, rows, 2 * rows) - 1
    load = state.in_("Load")
    # A block that lanes already see may still lack its last rows, which are used last.
    least = Mux(state.fetching, _FETCH, Mux(state.swap, _TURN, _FULL))
    m.d.comb += [
        implies(state.repeating, ~state.idle & (step >= first) & (step <= last)),
        implies(state.repeats, ~state.idle & ~(bias & scale)),
        implies(load, (state.repeating == ~(bias & scale)) & (step == first)),
        implies(load, ~Cat(*writes.repeated, *writes.read).any()),
        implies(load, writes.held.repeats & (writes.held.shifts == ~scale)),
        implies(writes.held.shifts & writes.held.repeats, load),
        implies(state.repeats & state.unshown & ~load, step >= least),
        implies(state.repeats & ~state.unshown, step >= _SEEN + blocks.since),
    ]
    for kind, (written, own) in enumerate(zip(writes.repeated, (bias, scale), strict=True)):
        row = step - 1 - kind * rows
        m.d.comb += [
            implies(written, ~own & (row >= 0) & (row < rows)),
            implies(written, (writes.held.row == row[: len(writes.held.row)])),
            implies(written, writes.held.groups.all()),
        ]


def _claim_arrivals(m: Module, unit: Parameters, state: _State, followed, grants) -> None:
    """Assert invariants for the induction: which read arrives next; none during repeats."""
    blocks, reads = followed
    task, writes, step = blocks.task, state.writes, state.step
    fetch, first = state.in_("Fetch"), Mux(task.channel_bias, unit._rows, 0)
    m.d.comb += [
        implies(state.in_("Load") | (state.in_("Wait") & ~state.full), blocks.came == 0),
        implies(fetch, blocks.came + state.missing == reads.wanted + state.arrived),
        implies(state.fetching, state.place == blocks.place[:4]),
        Assert(reads.asked >= sum(grants)),
        implies(~fetch, reads.asked == 0),
        implies(fetch & state.repeating, (reads.asked == sum(grants)) & (step > first)),
        *(
            implies(grant & state.repeating, step >= first + _FETCH + cycle)
            for cycle, grant in enumerate(grants, start=1)
        ),
    ]
    # Data is written one cycle after it arrived.
    shifts = writes.held.shifts & ~writes.held.repeats
    own = (task.channel_bias, task.channel_scale, task.channel_scale)
    for written, hit, of_channel in zip(
        (*(each & writes.mine for each in writes.read), shifts), blocks.hits, own, strict=True
    ):
        m.d.comb += [
            implies(written, fetch & state.arrived & of_channel),
            implies(hit, fetch & state.arrived),
            Assert(written == (hit & of_channel)),
        ]
    m.d.comb += [implies(Cat(writes.read).any(), fetch & state.arrived)]


def _missing_words(unit: Parameters, state: _State, column, blocks) -> list:
    """Return a pair for bias and one for multiplier: the column's word is not in memory yet.

    The first flag of a pair is for the block shown last, for which only words that the instruction
    gives for all channels may be missing. The second is for the block that is being fetched, whose
    word may not have arrived yet.
    """
    found = []
    own = (blocks.task.channel_bias, blocks.task.channel_scale)
    for kind in (0, 1):
        writes = state.writes
        place = kind * unit._rows + writes.row
        repeated = (state.repeating & (state.step <= place)) | (writes.repeated[kind] & writes.mine)
        read = state.fetching & (blocks.place <= 4 * kind + column.read)
        read = read | (writes.read[kind] & writes.mine)
        found.append((repeated, Mux(own[kind], read, repeated)))
    return found


def _claim_common_values(m: Module, whitebox: Whitebox, state: _State, blocks) -> None:
    """Assert invariants for the induction: values of blocks without their own parameters."""
    task, kept = blocks.task, blocks.task.shape()(whitebox.register(name="task"))
    names = ("bias", "multiplier", "shift")
    for name in names:
        own = task.channel_bias if name == "bias" else task.channel_scale
        following, here = getattr(blocks.following, name), getattr(blocks.here, name)
        value = task[name].as_unsigned()
        m.d.comb += [
            implies(~state.idle, kept[name] == task[name]),
            implies((blocks.pending != 0) & ~blocks.old & ~own, following == value),
            implies(state.repeats & ~state.unshown & ~own, here == value),
        ]


def _claim_contents(m: Module, whitebox: Whitebox, state: _State, followed, due) -> None:
    """Assert invariants for the induction: the column's parameters as stored for two blocks.

    These are the block shown to the lanes last, and the next one.
    """
    column, blocks = followed
    following, here = blocks.following, blocks.here
    after = (state.block + 1)[:2]
    names = (("bias", "biases"), ("multiplier", "multipliers"))
    for (name, place), (old, new) in zip(names, due, strict=True):
        held = _peek(whitebox, state, column, place, state.block)
        coming = _peek(whitebox, state, column, place, after)
        m.d.comb += [
            implies(blocks.shown & (state.unshown | ~old), held == getattr(here, name)),
            implies(state.unshown & ~new, coming == getattr(following, name)),
        ]
    shifts = state.writes.held.shifts
    due_shift = blocks.task.channel_scale & state.fetching & (blocks.place <= 8)
    coming, held = (_shift(whitebox, column, name) for name in ("following", "here"))
    m.d.comb += [
        implies(state.unshown & ~due_shift & ~shifts, coming == following.shift),
        implies(blocks.shown, held == here.shift),
    ]


def _shift(whitebox: Whitebox, column, name: str):
    """Return the column's shift from the register `name` of all shifts."""
    unit, shifts = whitebox.unit, whitebox.register(name=name)
    bits = len(unit.o.shifts[0])
    return column.choose([shifts.word_select(n, bits) for n in range(unit._columns)])


def _peek(whitebox: Whitebox, state: _State, column, name: str, block):
    """Return the column's word in the memories called `name`, for a block by the unit's index."""
    unit = whitebox.unit
    place = Cat(state.writes.row, block)
    count = unit._memory_count
    words = [whitebox.peek(f"{name}_{index}", place) for index in range(count)]
    return column.choose([words[n % count] for n in range(unit._columns)])


def _claim_multiplier_place(
    m: Module, whitebox: Whitebox, state: _State, followed, entered
) -> None:
    """Assert invariants for the induction: where the multiplier of each recent beat is stored."""
    column, blocks = followed
    unit, before = whitebox.unit, (state.block - 1)[:2]
    old = _peek(whitebox, state, column, "multipliers", before)
    memories = unit._memory_count // unit._lanes
    part = column.choose([n // unit._lanes % memories for n in range(unit._columns)])
    lanes = range(unit._lanes)
    for cycle, beat in enumerate(entered[1:]):
        rows = [whitebox.register(name=f"multipliers_row_{lane}_{cycle}") for lane in lanes]
        parts = [whitebox.register(name=f"multipliers_part_{lane}_{cycle}") for lane in lanes]
        same = beat.block == state.block
        m.d.comb += [
            implies(beat.there, blocks.shown & (column.of_lane(unit, parts) == part)),
            implies(beat.there, column.of_lane(unit, rows) == Cat(state.writes.row, beat.block)),
            implies(beat.there & same, beat.multiplier == blocks.here.multiplier),
            implies(beat.there & same, blocks.since >= column.beat + cycle + 1),
            implies(beat.there & ~same, (beat.block == before) & (beat.multiplier == old)),
            implies(beat.there & ~same, blocks.since + 2 <= cycle + 1),
        ]
