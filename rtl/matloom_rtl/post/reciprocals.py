"""Sums of the exponentials of rows, and their reciprocals by the Newton-Raphson method."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.softmax import (
    BATCH,
    EXPONENTIAL_BITS,
    FIRST_ESTIMATE,
    FIRST_SLOPE,
    NEWTON_STEPS,
    ONE,
    RESULT_BITS,
    SUM_BITS,
)
from matloom_rtl.arith.stages import (
    delay,
    leading_zeros,
    reduce_in_pairs,
    reduction_latency,
    register,
)
from matloom_rtl.post.lane import Lane

__all__ = ["Reciprocals"]

#: Rounds of a batch: one normalises the sums, one makes a first estimate of their reciprocals, and
#: each Newton-Raphson step takes two.
_ROUNDS = 2 + 2 * NEWTON_STEPS

#: Bits of the index of a row. The count of cycles is the index of a round, followed by that of a
#: row in the low bits.
_ROW_BITS = BATCH.bit_length() - 1

#: Cycles from an operand to its registered product, and to the operand computed from that product.
_TO_PRODUCT = Lane.LATENCY + 1
_TO_OPERAND = _TO_PRODUCT + 1

#: Value at which the count of cycles stops, with all bits set: nothing is in progress.
_IDLE = 2 * _ROUNDS * BATCH - 1

#: Shift of the results of a row whose sum has no leading zeros; each leading zero adds one.
_SHIFT = RESULT_BITS - EXPONENTIAL_BITS - SUM_BITS


class Reciprocals(wiring.Component):
    """Sum the exponentials of each row, and compute the reciprocals of the sums.

    The reciprocals are those of `arch.softmax.reciprocal`. A requantising lane outside this
    component computes their products. Each product of a row depends on the previous one, so the
    rows of a batch are interleaved: in each of eight rounds of `BATCH` cycles, the operand of row n
    enters the lane in cycle n. In the first round, the lane normalises each sum: it shifts the sum
    left and halves it.

    Latency: `cycles` from the last exponential of a batch to `done`. Throughput: `ways`
    exponentials per cycle; one batch at a time: nothing may be added while its reciprocals are
    computed. Never stalls. Reset aborts a batch; sums and reciprocals survive it.

    Parameters
    ----------
    ways: int
        Exponentials per cycle.

    Members
    -------
    exponentials: in
        Exponentials of `row`.
    row: in
        Row of `exponentials`; while not `busy`, also the row to which `shift`, `vanishes` and
        `multiplier` apply.
    sums: in
        Add the exponentials to the sum of their row.
    adds: in
        Mask of the exponentials that count.
    first: in
        The exponentials are the first of their row.
    last: in
        The exponentials are the last of the batch.
    done: out
        The reciprocals are nearly complete: exponentials may enter the lane `READY` cycles later.
    busy, operand: out
        While `busy`, the lane must multiply `operand`.
    shift: out
        While `busy`, the shift of `operand`; otherwise, the shift that scales the exponentials of
        `row` to results.
    vanishes: out
        The results of `row` are zero, because their shift exceeds the range of a lane.
    multiplier: out
        Multiplier of the value that entered the lane `Lane.MULTIPLIER_DELAY` cycles earlier.
    product: in
        Product of the lane, `Lane.LATENCY` cycles after its operand.
    """

    #: Cycles from `done` until the first exponential may enter the lane, to be scaled to a result.
    READY = 4

    def __init__(self, ways: int = 1):
        self._ways = ways
        super().__init__(
            {
                "exponentials": In(data.ArrayLayout(EXPONENTIAL_BITS, ways)),
                "row": In(_ROW_BITS),
                "sums": In(1),
                "adds": In(ways),
                "first": In(1),
                "last": In(1),
                "done": Out(1),
                "busy": Out(1),
                "operand": Out(signed(32)),
                "product": In(signed(32)),
                "multiplier": Out(EXPONENTIAL_BITS),
                "shift": Out(signed(6)),
                "vanishes": Out(1),
            }
        )

    @staticmethod
    def cycles(rows: int, ways: int) -> int:
        """Return the cycles from the last exponential of a batch of `rows` rows to `done`."""
        # The last reciprocal must be there with the multiplier of the earliest result.
        early = Reciprocals.READY + Lane.MULTIPLIER_DELAY - 1
        last = (_ROUNDS - 1) * BATCH + rows - 1 + _TO_OPERAND - early
        return 2 + reduction_latency(ways) + last

    def elaborate(self, platform):
        """Return the module: the adder of sums, and the rounds that refine their reciprocals."""
        m = Module()
        #: Cycles since the first operand of a batch entered the lane.
        count = Signal(range(_IDLE + 1), init=_IDLE)
        last_row = Signal(_ROW_BITS, reset_less=True)
        ended = (_ROUNDS - 1) * BATCH + _TO_OPERAND - self.READY - Lane.MULTIPLIER_DELAY + 1
        m.d.comb += self.done.eq(self.busy & (count == last_row + ended))
        adds, row, total, last = self._add(m)
        with m.If(~count.all()):
            m.d.sync += count.eq(count + 1)
        with m.If(self.done):
            m.d.sync += self.busy.eq(0)
        with m.If(adds & last):
            m.d.sync += [count.eq(0), last_row.eq(row), self.busy.eq(1)]

        sums = self._memory(m, "sums", 32)
        product = register(m, self.product, "registered_product")
        of_product = self._earlier(m, count, _TO_PRODUCT)
        of_multiplier = self._earlier(m, count, Lane.MULTIPLIER_DELAY)
        begins = count[_ROW_BITS:] == 0
        m.d.comb += [
            sums.write.en.eq(adds | (of_product.round == 0)),
            sums.write.addr.eq(Mux(adds, row, of_product.row)),
            sums.write.data.eq(Mux(adds, total, product[:EXPONENTIAL_BITS])),
            sums.read.addr.eq(Mux(begins, count, of_multiplier.row)),
        ]
        self._normalise(m, sums.read.data, begins, count)
        following, estimates = self._improve(m, product, of_product, count)
        with m.If(begins):
            # An odd sum of 32 bits is made even: half of it is rounded down.
            odd = sums.read.data[0] & ~sums.read.data[-1]
            m.d.comb += self.operand.eq(Cat(odd, sums.read.data[1:]))
        with m.Elif(count[_ROW_BITS:] == 1):
            m.d.comb += self.operand.eq(FIRST_SLOPE)
        with m.Else():
            m.d.comb += self.operand.eq(following)
        self._choose_multiplier(m, of_multiplier, sums.read.data, estimates)
        return m

    def _add(self, m: Module):
        """Add exponentials; return whether to write a sum, its row, the sum, and `last`.

        A sum is written after each addition. `last` comes with the complete sum of the last row.
        """
        terms = []
        for way in range(self._ways):
            term = Signal(EXPONENTIAL_BITS - SUM_BITS + 1, name=f"term_{way}", reset_less=True)
            rounded = (self.exponentials[way] + (1 << SUM_BITS - 1)) >> SUM_BITS
            m.d.sync += term.eq(Mux(self.adds[way], rounded, 0))
            terms.append(term)
        part = reduce_in_pairs(m, terms, lambda a, b: a + b, "term")
        cycles = 1 + reduction_latency(self._ways)
        first, last, row = (
            delay(m, getattr(self, name), cycles, name) for name in ("first", "last", "row")
        )
        adds = self.sums
        for cycle in range(cycles):
            later = Signal(name=f"adds_{cycle}")
            m.d.sync += later.eq(adds)
            adds = later
        total = Signal(32, reset_less=True)
        following = Signal.like(total)
        m.d.comb += following.eq(Mux(first, 0, total) + part)
        with m.If(adds):
            m.d.sync += total.eq(following)
        return adds, row, following, last

    def _earlier(self, m: Module, count, cycles: int):
        """Return the round and the row whose operand entered the lane `cycles` cycles ago."""
        earlier = Signal(data.StructLayout({"row": _ROW_BITS, "round": len(count) - _ROW_BITS}))
        m.d.comb += earlier.eq(count - cycles)
        return earlier

    def _memory(self, m: Module, name: str, bits: int):
        """Add a memory with a word of `bits` bits for each row; return its ports."""
        memory = Memory(shape=bits, depth=BATCH, init=[])
        m.submodules[name] = memory
        return _Ports(memory)

    def _normalise(self, m: Module, total, begins, count):
        """Store the leading zeros of each sum; drive `shift` and `vanishes`.

        `begins` is set in the first round, in which `total` is the sum of row `count`.
        """
        zeros = self._memory(m, "zeros", range(SUM_BITS + 1))
        found = leading_zeros(Cat(Const(1, 1), total[-SUM_BITS:]))
        m.d.comb += [
            zeros.write.en.eq(begins),
            zeros.write.addr.eq(count),
            zeros.write.data.eq(found),
            zeros.read.addr.eq(self.row),
            self.vanishes.eq(zeros.read.data < -31 - _SHIFT),
            self.shift.eq(Mux(self.busy, Mux(begins, found, 0), zeros.read.data + _SHIFT)),
        ]

    def _improve(self, m: Module, product, of_product, count):
        """Return the next operand of a row, and the ports of the memory of estimates.

        After odd rounds the operand is the improved estimate, which is also stored; after even
        rounds it is the error of the estimate.
        """
        estimates = self._memory(m, "estimates", EXPONENTIAL_BITS)
        before = estimates.memory.read_port(domain="comb")
        following = Signal(signed(32), reset_less=True)
        first = of_product.round == 1
        base = Mux(first, FIRST_ESTIMATE, before.data)
        estimate = (base + Mux(first, product, product << 2))[:EXPONENTIAL_BITS]
        m.d.sync += following.eq(Mux(of_product.round[0], estimate, ONE - product))
        of_following = self._earlier(m, count, _TO_OPERAND)
        m.d.comb += [
            before.addr.eq(of_product.row),
            estimates.write.en.eq(of_following.round[0] & ~of_following.round[-1]),
            estimates.write.addr.eq(of_following.row),
            estimates.write.data.eq(following),
        ]
        return delay(m, following, BATCH - _TO_OPERAND, "operand"), estimates

    def _choose_multiplier(self, m: Module, of_multiplier, half, estimates):
        """Drive `multiplier` by round: one half, half the sum, the estimate, or the reciprocal.

        The first is for the first round, the last for results. The sum is normalised.
        """
        busy = delay(m, self.busy, Lane.MULTIPLIER_DELAY, "busy")
        row = delay(m, self.row, Lane.MULTIPLIER_DELAY, "row_of_multiplier")
        estimate = estimates.read.data
        number = of_multiplier.round
        m.d.comb += estimates.read.addr.eq(Mux(busy, of_multiplier.row, row))
        with m.If(~busy):
            # From Q2.29 to Q0.31, which has no two.
            m.d.comb += self.multiplier.eq(Mux(estimate[-1], -1, estimate << 1))
        with m.Elif(number == 0):
            m.d.comb += self.multiplier.eq(1 << EXPONENTIAL_BITS - 1)
        with m.Elif(number[0] & (number != 1)):
            m.d.comb += self.multiplier.eq(estimate)
        with m.Else():
            m.d.comb += self.multiplier.eq(half)


class _Ports:
    """A memory, with a write port and a combinational read port."""

    def __init__(self, memory: Memory):
        self.memory = memory
        self.write, self.read = memory.write_port(), memory.read_port(domain="comb")
