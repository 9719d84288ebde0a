"""Proof of SOFTMAX's reciprocals: the products of an arbitrary row, in the arithmetic's order."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal, signed

from matloom.arch.softmax import (
    BATCH,
    EXPONENTIAL_BITS,
    FIRST_ESTIMATE,
    FIRST_SLOPE,
    NEWTON_STEPS,
    ONE,
    SUM_BITS,
)
from matloom_rtl.arith.stages import reduction_latency
from matloom_rtl.formal.parts.arbitrary import Arbitrary
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.reciprocals import Reciprocals

__all__ = ["reciprocals", "reciprocals_proofs"]

_ROUNDS = 2 + 2 * NEWTON_STEPS
_ALL = _ROUNDS * BATCH

#: Cycles from the last sum of a batch to `done`, for a batch of one row.
_ENDS = _ALL - 2 * Lane.MULTIPLIER_DELAY

#: Right shift of results for a sum without leading zeros; it is less by the number of these.
_RIGHT = 31 - 8 + SUM_BITS


class _Row:
    """Reference for an arbitrary row: its sum and reciprocal, as a program would compute them.

    Members
    -------
    word:
        The row's sum; from the end of the first round on, half of its normalised sum.
    zeros:
        Leading zeros of the sum, twelve at most.
    made, estimate:
        Value computed from the last product, and last estimate of the reciprocal.
    age, since:
        Cycles since the sums of the batch were complete, saturating, and since the row's first
        round began, negative before.
    enters, phase, number:
        Whether the row is in its rounds, the cycle within the round, and the index of the round.
    ready:
        The reciprocal is complete.
    """

    def __init__(self, m: Module, unit: Reciprocals, row, last_row, sums):
        (adds, of_row, total, ends) = sums
        self.word = Signal(32, reset_less=True)
        self.zeros = Signal(range(SUM_BITS + 1), reset_less=True)
        self.made = Signal(signed(32), reset_less=True)
        self.product = Signal(signed(32), reset_less=True)
        self.estimate = Signal(EXPONENTIAL_BITS, reset_less=True)
        self.age = Signal(8, init=255)
        self.ready = Signal()
        since = Signal(signed(9))
        m.d.comb += since.eq(self.age - row)
        self.since = since
        runs = (since >= 0) & (since < _ALL)
        self.enters = runs & (row <= last_row)
        self.phase, self.number = since[:4], since[4:7]
        with m.If(~self.age.all()):
            m.d.sync += self.age.eq(self.age + 1)
        with m.If(adds & of_row):
            m.d.sync += self.word.eq(total)
        # Rows beyond the last have rounds, too, of which nothing comes.
        with m.If(runs):
            self._round(m, unit)
        with m.If(adds & ends):
            m.d.sync += [self.age.eq(0), self.ready.eq(0)]

    def _round(self, m: Module, unit: Reciprocals) -> None:
        """Take the product of a round, and compute the sum, error or estimate that it is for."""
        product, odd = self.product, self.number[0]
        base = Mux(self.number == 1, FIRST_ESTIMATE, self.estimate)
        change = Mux(self.number == 1, product, product << 2)
        improved = (base + change)[:EXPONENTIAL_BITS]
        with m.Switch(self.phase):
            with m.Case(0), m.If(self.number == 0):
                m.d.sync += self.zeros.eq(_zeros(self.word))
            with m.Case(Lane.LATENCY):
                m.d.sync += product.eq(unit.product)
            with m.Case(Lane.LATENCY + 1):
                m.d.sync += self.made.eq(Mux(odd, improved, ONE - product))
                with m.If(self.number == 0):
                    m.d.sync += self.word.eq(product[:EXPONENTIAL_BITS])
            with m.Case(Lane.LATENCY + 2):
                with m.If(odd):
                    m.d.sync += self.estimate.eq(self.made[:EXPONENTIAL_BITS])
                m.d.sync += self.ready.eq(self.enters & (self.number == _ROUNDS - 1))

    def operand(self):
        """Return the operand of the lane in the current round."""
        # An even number of 32 bits, whose half is exact.
        even = Mux(self.word[31], self.word & ~1, self.word)
        return Mux(self.number == 0, even, Mux(self.number == 1, FIRST_SLOPE, self.made))

    def multiplier(self):
        """Return the multiplier of the lane in the current round."""
        by_estimate = self.number[0] & (self.number != 1)
        half = self.word[:EXPONENTIAL_BITS]
        return Mux(self.number == 0, 1 << 30, Mux(by_estimate, self.estimate, half))


def reciprocals(unit: Reciprocals) -> Claim:
    """Claim the operands of an arbitrary row's products, their cycles, and the row's reciprocal.

    The results of products are arbitrary. Assumes that nothing is added to sums before the last
    reciprocal of a batch is complete.
    """
    m = Module()
    whitebox = Whitebox(unit)
    chosen = Arbitrary(m, BATCH)
    n = chosen.number
    (adds, of_row, total, ends, row), before = _sums(m, unit, n)
    last_row = Signal(range(BATCH))
    with m.If(adds & ends):
        m.d.sync += last_row.eq(row)
    ref = _Row(m, unit, n, last_row, (adds, of_row, total, ends))
    peeks = {name: whitebox.peek(name, n) for name in ("sums", "zeros", "estimates")}
    m.submodules.unit = whitebox.fragment
    busy = (ref.age != 255) & (ref.age <= _ENDS + last_row)
    m.d.comb += [
        Assume(~adds | (ref.age >= _ALL - 1 + last_row)),
        Assert(unit.busy == busy),
        Assert(unit.done == (ref.age == _ENDS + last_row)),
        implies(ref.enters & (ref.phase == 0), unit.operand == ref.operand()[:32].as_signed()),
        implies(
            ref.enters & (ref.phase == 0), unit.shift == Mux(ref.number == 0, _zeros(ref.word), 0)
        ),
        implies(
            ref.enters & (ref.phase == Lane.MULTIPLIER_DELAY), unit.multiplier == ref.multiplier()
        ),
    ]
    _results(m, unit, ref, n)
    _lemmas(m, whitebox, ref, peeks, (last_row, before))
    m.d.comb += Cover(ref.enters & (ref.number == 1) & (n == 1) & (ref.zeros == 11))
    return Claim(module=m, ports=(n, *inputs_of(unit)))


def _zeros(word):
    """Return the number of leading zeros of a 32-bit sum, at most `SUM_BITS`."""
    found = SUM_BITS
    for zeros in reversed(range(SUM_BITS)):
        found = Mux(word[31 - zeros], zeros, found)
    return found


def _sums(m: Module, unit: Reciprocals, n):
    """Return what is written to the memory of sums in this cycle, and the total written before.

    What is written is a tuple: whether a sum is written, whether it is that of row `n`, the sum of
    the row's terms so far, whether the sums of the batch are complete, and the row's index.
    """
    cycles = 1 + reduction_latency(unit._ways)
    part = 0
    for way in range(unit._ways):
        rounded = (unit.exponentials[way] + (1 << SUM_BITS - 1)) >> SUM_BITS
        part = part + Mux(unit.adds[way], rounded, 0)
    adds, first, ends, row = unit.sums, unit.first, unit.last, unit.row
    for cycle in range(cycles):
        before = part, first, ends, row
        part, first, ends, row = (
            Signal.like(each, name=f"{name}_{cycle}", reset_less=True)
            for name, each in zip(("part", "first", "ends", "row"), before, strict=True)
        )
        valid = Signal()
        m.d.sync += valid.eq(adds)
        m.d.sync += [
            now.eq(then) for now, then in zip((part, first, ends, row), before, strict=True)
        ]
        adds = valid
    sum_before = Signal(32, reset_less=True)
    total = Signal(32)
    m.d.comb += total.eq(Mux(first, 0, sum_before) + part)
    with m.If(adds):
        m.d.sync += sum_before.eq(total)
    return (adds, row == n, total, ends, row), sum_before


def _results(m: Module, unit: Reciprocals, ref: _Row, n) -> None:
    """Claim shift and multiplier of the row's results, once its reciprocal is complete."""
    mine, later = [unit.row == n], [~unit.busy]
    for _cycle in range(Lane.MULTIPLIER_DELAY):
        for chain in (mine, later):
            following = Signal(reset_less=True)
            m.d.sync += following.eq(chain[-1])
            chain.append(following)
    estimate = ref.estimate
    reciprocal = Mux(estimate[-1], (1 << EXPONENTIAL_BITS) - 1, estimate << 1)
    right = _RIGHT - ref.zeros
    m.d.comb += [
        implies(ref.ready & mine[-1] & later[-1], unit.multiplier == reciprocal),
        implies(ref.ready & mine[0] & ~unit.busy, unit.vanishes == (right > 31)),
        implies(ref.ready & mine[0] & ~unit.busy & (right <= 31), unit.shift == -right),
    ]


def _lemmas(m: Module, whitebox: Whitebox, ref: _Row, peeks: dict, numbers) -> None:
    """Assert invariants: registers and memories, by the state of the reference."""
    last_row, before = numbers
    phase, turn, made = ref.phase, ref.enters, ref.made
    m.d.comb += [
        Assert(whitebox.register(name="count") == ref.age),
        implies(ref.age != 255, whitebox.register(name="last_row") == last_row),
        Assert(whitebox.register(name="total") == before),
        Assert(peeks["sums"] == ref.word),
        implies(turn & (ref.since > 0), peeks["zeros"] == ref.zeros),
        implies(turn & (ref.since >= 2 * BATCH), peeks["estimates"] == ref.estimate),
        implies(ref.ready, (peeks["estimates"] == ref.estimate) & (peeks["zeros"] == ref.zeros)),
        implies(ref.ready, ref.since >= _ALL),
        implies(
            turn & (phase == Lane.LATENCY + 1),
            whitebox.register(name="registered_product") == ref.product,
        ),
        implies(turn & (phase == Lane.LATENCY + 2), whitebox.register(name="following") == made),
        implies(
            turn & (phase == 0) & (ref.number > 1), whitebox.register(name="operand_0") == made
        ),
    ]


def reciprocals_proofs(units: list) -> list[Proof]:
    """Return the proof of SOFTMAX's reciprocals among a chip's units."""
    return [
        Proof(
            kind="softmax",
            unit="Reciprocals",
            statement="for each row of a batch, the lane gets the operands, shifts and multipliers "
            "of its sum's reciprocal in their order, whatever it makes of them; afterwards the "
            "row's results get its reciprocal and its shift",
            build=lambda unit=unit: reciprocals(unit),
            depth=Lane.MULTIPLIER_DELAY + 2 + reduction_latency(unit._ways),
            cover_depth=30,
        )
        for unit in units
        if isinstance(unit, Reciprocals)
    ]
