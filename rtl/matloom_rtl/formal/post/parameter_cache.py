"""Proof of POST's parameter cache: lanes see the words that were read for their block."""

from amaranth.hdl import Assume, Cover, Module, Mux, Signal

from matloom_rtl.formal.parts.arbitrary import Arbitrary
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.post.parameter_cache_lemmas import lemmas
from matloom_rtl.formal.post.parameters import Reads, reads_lemmas
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.ports import SPAD_READ_LATENCY
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.parameters import Parameters

__all__ = ["parameter_cache", "parameter_cache_proofs"]

#: Index of the first read of biases, of multipliers and of shifts in a block: a block has four
#: reads of biases, four of multipliers and one of shifts, in this order.
_FIRST_BIAS, _FIRST_MULTIPLIER, _SHIFTS = 0, 4, 8


class Column(Arbitrary):
    """One arbitrary column of a block, and the position of its parameters in reads.

    Members
    -------
    beat:
        Index of the beat at which the column enters its lane.
    read, word, byte:
        Index of the read of biases, or multipliers, that has the column's word; in data that
        arrive, the column's word, and its byte of shifts.
    """

    def __init__(self, m: Module, unit: Parameters):
        super().__init__(m, unit._columns)
        columns, words = unit._columns, unit._words
        data = unit.read.data
        self.beat = self.choose([n // unit._lanes for n in range(columns)])
        self.read = self.choose([n // words for n in range(columns)])
        self.word = self.choose([data.word_select(n % words, 32) for n in range(columns)])
        self.byte = self.choose([data.word_select(n, 8) for n in range(columns)])

    def of_lane(self, unit: Parameters, values):
        """Return the item of `values`, one per lane, that belongs to the column's lane."""
        lanes = (values[n % unit._lanes] for n in range(unit._columns))
        return self.choose([lane.as_unsigned() for lane in lanes])


class Values:
    """The column's parameters in a block."""

    def __init__(self, unit: Parameters, name: str):
        o = unit.o
        self.bias, self.multiplier, self.shift = (
            Signal(len(shown[0]), name=f"{kind}_{name}", reset_less=True)
            for kind, shown in (
                ("bias", o.biases),
                ("multiplier", o.multipliers),
                ("shift", o.shifts),
            )
        )


class Blocks:
    """Reference for blocks, which are read, and shown to the lanes, in the order of instructions.

    Members
    -------
    task:
        The current instruction.
    pending:
        Number of blocks of instructions taken so far that are not shown yet.
    old:
        Whether the oldest pending block belongs to the previous instruction.
    came, place:
        Number of reads of the oldest pending block that have arrived; index of the next one, if
        reads of biases are numbered from 0 and those of multipliers from 4 on.
    rises, present, shown:
        Whether a block is shown from the next cycle on, is shown in this cycle, or was ever shown.
    since:
        Cycles since the block shown last was first shown, saturating.
    following, here:
        The column's parameters in the oldest pending block, and in the block shown last.
    hits:
        Whether data with the column's bias, multiplier, or shift arrive in this cycle.
    """

    def __init__(self, m: Module, unit: Parameters, column: Column, reads: Reads):
        self.task, i = reads.task, unit.i.payload
        self.pending = Signal(len(i.blocks) + 2)
        self.old = Signal()
        self.came = Signal(4)
        self.place = Signal(5)
        self.present = Signal(name="present_before")
        self.shown = Signal()
        self.since = Signal(range(2 * unit._columns))
        self.following, self.here = Values(unit, "following"), Values(unit, "here")
        takes, o = unit.i.valid & unit.i.ready, unit.o
        self.rises = o.ready & ~self.present
        left = self.pending - self.rises
        m.d.comb += self.place.eq(
            Mux(self.task.channel_bias, _FIRST_BIAS, _FIRST_MULTIPLIER) + self.came
        )
        m.d.sync += [
            self.present.eq(o.ready),
            self.pending.eq(left + Mux(takes, i.blocks, 0)),
            self.old.eq(Mux(takes, left != 0, self.old & ~self.rises)),
            self.came.eq(Mux(takes | self.rises, 0, self.came + unit.arriving)),
            self.since.eq(Mux(self.rises, 0, self.since + ~self.since.all())),
            self.shown.eq(self.shown | self.rises),
        ]
        self._follow(m, unit, column, takes & (left == 0))
        m.d.comb += [
            # A block is released while it is there, and its first vector's beats come in order.
            Assume(~o.release | self.present),
            *(Assume(~self.present | (beat <= self.since)) for beat in o.beats),
            *(Assume(beat < unit._columns // unit._lanes) for beat in o.beats),
        ]

    def _follow(self, m: Module, unit: Parameters, column: Column, first) -> None:
        """Record the column's parameters, read or from the instruction, of the pending block."""
        # The first block of an instruction is the oldest.
        begins, source = first | (self.rises & self.old), unit.i.payload
        self.hits, following = [], self.following
        wanted = (
            (_FIRST_BIAS + column.read, column.word),
            (_FIRST_MULTIPLIER + column.read, column.word),
            (_SHIFTS, column.byte),
        )
        for (kind, value), (place, found) in zip(vars(following).items(), wanted, strict=True):
            of_channel = "channel_bias" if kind == "bias" else "channel_scale"
            own = Mux(first, source[of_channel], self.task[of_channel])
            hit = Signal(name=f"hit_{kind}")
            m.d.sync += hit.eq(unit.arriving & (self.place == place))
            with m.If(begins & ~own):
                m.d.sync += value.eq(Mux(first, source[kind], self.task[kind]))
            with m.If(hit):
                m.d.sync += value.eq(found)
            with m.If(self.rises):
                m.d.sync += getattr(self.here, kind).eq(value)
            self.hits.append(hit)


class Entered:
    """State of a lane a fixed number of cycles ago: whether a beat entered, and with which values.

    Members
    -------
    there, multiplier, block:
        Whether a beat of the claim's column entered then, the multiplier it had, and the index of
        its block of channels.
    """

    def __init__(self, m: Module, there, multiplier, block):
        self.there, self.multiplier, self.block = there, multiplier, block
        self._m = m

    def later(self, cycle: int) -> "Entered":
        """Return the same beat one cycle later; `cycle` names its signals."""
        after = []
        for name in ("there", "multiplier", "block"):
            before = getattr(self, name)
            after.append(Signal(len(before), name=f"{name}_{cycle}"))
            self._m.d.sync += after[-1].eq(before)
        return Entered(self._m, *after)


def _assume_latency(m: Module, unit: Parameters, reads: Reads) -> list:
    """Assume a minimum memory latency; return whether reads were granted in recent cycles.

    The list begins with the previous cycle. The data of these reads cannot have arrived.
    """
    grants, before = [], reads.granted
    for cycle in range(1, SPAD_READ_LATENCY - 1):
        grant = Signal(name=f"granted_{cycle}")
        m.d.sync += grant.eq(before)
        grants.append(grant)
        before = grant
    m.d.comb += Assume(~unit.arriving | (reads.asked > sum(grants)))
    return grants


def parameter_cache(unit: Parameters) -> Claim:
    """Claim that a lane sees its column's parameters, or those that the instruction gives for all.

    Bias and shift appear in the cycle of the column's beat, the multiplier
    `Lane.MULTIPLIER_DELAY` cycles later, even if the block is released meanwhile. Assumes that data
    come in the order of reads with a minimum latency, that a block is released only while it is
    shown, and that the beats of a block's first vector are in order.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    reads, column = Reads(m, unit), Column(m, unit)
    reads_lemmas(m, whitebox, reads)
    blocks, grants = Blocks(m, unit, column, reads), _assume_latency(m, unit, reads)
    o, here = unit.o, blocks.here
    enters = blocks.present & (column.of_lane(unit, o.beats) == column.beat)
    entered = [Entered(m, enters, here.multiplier, whitebox.register(name="block_0"))]
    for cycle in range(1, Lane.MULTIPLIER_DELAY + 1):
        entered.append(entered[-1].later(cycle))
    last, task = entered[-1], blocks.task
    m.d.comb += [
        implies(blocks.rises, blocks.pending != 0),
        implies(enters, column.of_lane(unit, o.biases) == here.bias),
        implies(enters, column.of_lane(unit, o.shifts) == here.shift),
        implies(last.there, column.of_lane(unit, o.multipliers) == last.multiplier),
        # The column that is read last; of an instruction's own values a beat of a block released.
        Cover(last.there & task.channel_bias & task.channel_scale & column.number.all()),
        Cover(last.there & ~task.channel_bias & ~task.channel_scale & (blocks.since == 2)),
    ]
    lemmas(m, whitebox, (column, blocks, reads), (entered, grants))
    return Claim(module=m, ports=(column.number, *inputs_of(unit)))


def parameter_cache_proofs(units: list) -> list[Proof]:
    """Return a proof for each parameter cache of a chip."""
    return [
        Proof(
            kind="places",
            unit="Parameters, contents",
            statement="blocks are shown in the order of instructions; at the beat of a column its "
            "lane sees the bias and the shift read for it, or the instruction's own, and later "
            "its multiplier when due",
            build=lambda unit=unit: parameter_cache(unit),
            depth=2,
            cover_depth=40,
        )
        for unit in units
        if isinstance(unit, Parameters)
    ]
