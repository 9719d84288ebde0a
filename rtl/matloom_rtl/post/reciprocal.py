"""Sum of a row's exponentials, and its reciprocal by Newton and Raphson."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.softmax import (
    EXPONENTIAL_BITS,
    FIRST_ESTIMATE,
    FIRST_SLOPE,
    NEWTON_STEPS,
    ONE,
    RESULT_BITS,
    SUM_BITS,
)
from matloom_rtl.post.lane import Lane

__all__ = ["Reciprocal"]

#: Products that a reciprocal takes: the first estimate, then two for each improvement.
_PRODUCTS = 1 + 2 * NEWTON_STEPS

#: The shift of results where the sum needs none: by the bits of its integers and of a fraction.
_SHIFT = RESULT_BITS - EXPONENTIAL_BITS - SUM_BITS


class Reciprocal(wiring.Component):
    """Add exponentials; compute the reciprocal of the sum as `arch.softmax.reciprocal`, by a lane.

    Latency: `CYCLES` from the last exponential to `done`. Throughput: an exponential per cycle; one
    reciprocal at a time, during which nothing may be added. Never stalls. Reset gives up.

    Members
    -------
    exponential, adds, first, last: in
        An exponential; whether it counts, is the first of its sum, the last (counted or not). The
        first counts.
    done: out
        In the next cycle `scale` and `shift` are those of results.
    busy, operand: out
        The lane is to multiply `operand` by `multiplier`, with a shift of 0.
    product: in
        The lane's result, `Lane.LATENCY` cycles after its operand.
    multiplier: out
        For the operand, or the scale of results; unchanged for more cycles than a lane needs.
    shift: out
        Of results: the exponent of the reciprocal, and the bits of a fraction.
    vanishes: out
        All results are zero: their shift is too large for a lane.
    """

    #: Cycles from the last exponential to `done`: to the sum, to shift and multiply it, to finish.
    CYCLES = 2 + SUM_BITS + _PRODUCTS * (Lane.LATENCY + 1)

    def __init__(self):
        super().__init__(
            {
                "exponential": In(EXPONENTIAL_BITS),
                "adds": In(1),
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

    def elaborate(self, platform):
        m = Module()
        total = Signal(32, reset_less=True)
        estimate = Signal(EXPONENTIAL_BITS, reset_less=True)
        zeros = Signal(range(SUM_BITS + 1), reset_less=True)
        count = Signal(range(max(SUM_BITS, Lane.LATENCY + 1)), reset_less=True)
        step = Signal(range(_PRODUCTS), reset_less=True)
        by_half = Signal()
        self._add(m, total)
        m.d.comb += [
            self.multiplier.eq(Mux(by_half, total[1:], estimate)),
            self.shift.eq(zeros + _SHIFT),
            self.vanishes.eq(zeros < -31 - _SHIFT),
        ]
        with m.FSM() as states:
            with m.State("Sum"):
                m.d.sync += [count.eq(0), step.eq(0), by_half.eq(0)]
                with m.If(self.last):
                    m.d.sync += zeros.eq(0)
                    m.next = "Add"
            with m.State("Add"):
                m.next = "Normalise"
            with m.State("Normalise"):
                m.d.sync += [count.eq(count + 1), self.operand.eq(FIRST_SLOPE)]
                with m.If(~total[-1]):
                    m.d.sync += [total.eq(total << 1), zeros.eq(zeros + 1)]
                with m.If(count == SUM_BITS - 1):
                    m.d.sync += [count.eq(0), by_half.eq(1)]
                    m.next = "Multiply"
            with m.State("Multiply"):
                m.d.sync += count.eq(count + 1)
                with m.If(count == Lane.LATENCY):
                    self._take_product(m, step, by_half, estimate)
                    m.d.sync += [count.eq(0), step.eq(step + 1)]
                    with m.If(step == _PRODUCTS - 1):
                        m.next = "Finish"
            with m.State("Finish"):
                # From Q2.29 to Q0.31, which has no two.
                m.d.sync += estimate.eq(Mux(estimate[-1], -1, estimate << 1))
                m.d.comb += self.done.eq(1)
                m.next = "Sum"
        m.d.comb += self.busy.eq(states.ongoing("Multiply"))
        return m

    def _add(self, m: Module, total):
        """Add the term of an exponential, two cycles later."""
        term = Signal(EXPONENTIAL_BITS - SUM_BITS + 1, reset_less=True)
        adds = Signal()
        first = Signal(reset_less=True)
        m.d.sync += [
            term.eq((self.exponential + (1 << SUM_BITS - 1)) >> SUM_BITS),
            adds.eq(self.adds),
            first.eq(self.first),
        ]
        with m.If(adds):
            m.d.sync += total.eq(Mux(first, 0, total) + term)

    def _take_product(self, m: Module, step, by_half, estimate):
        """Use the lane's result: the first estimate, then its error and its improvement in turn."""
        product = self.product
        improved = Signal.like(estimate)
        base = Mux(step == 0, FIRST_ESTIMATE, estimate)
        m.d.comb += improved.eq(base + Mux(step == 0, product, product << 2))
        with m.If(step[0]):
            m.d.sync += [self.operand.eq(ONE - product), by_half.eq(0)]
        with m.Else():
            m.d.sync += [estimate.eq(improved), self.operand.eq(improved), by_half.eq(1)]
        with m.If(step == _PRODUCTS - 1):
            m.d.sync += by_half.eq(0)
