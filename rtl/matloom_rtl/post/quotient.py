"""Quotients of products by powers of two, under each rounding rule of a lane."""

from amaranth.hdl import Module, Mux, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.numerics import Rounding
from matloom_rtl.arith.stages import register

__all__ = ["Quotient"]


class Quotient(wiring.Component):
    """Divide a 63-bit product by ``2**(31 + right)`` into a floor and a rounding increment.

    The product is not rounded before it is shifted. The increment depends on the highest bit below
    the floor (`first`), and on whether any (`some`) or all (`every`) bits below that are ones:

    - SINGLE rounds halves up: the increment is `first`. DOUBLE with `right` = 0 does the same.
    - DOUBLE rounds halves away from zero, after a first rounding at 2**30, whose carry passes
      through ones only. The rounded fraction is at least one half if `first` or all bits below it
      are ones, and more than one half if `first` and any bit below it are ones.
    - AVERAGE truncates towards zero: the increment is one for negative products that lose any bit.

    Latency: two cycles; `floor` and `up` are combinational after the last register. Throughput: one
    product per cycle. Never stalls; reset clears nothing.

    Members
    -------
    rounding: in
        DOUBLE, SINGLE or AVERAGE; constant while products are inside.
    product: in
        The product without its lowest 16 bits.
    below: in
        Any of those 16 bits is set.
    right: in
        Additional right shift.
    floor, up: out
        Floor and increment; the quotient is their sum.
    """

    #: Cycles from a product to its quotient.
    LATENCY = 2

    def __init__(self):
        super().__init__(
            {
                "rounding": In(3),
                "product": In(signed(47)),
                "below": In(1),
                "right": In(5),
                "floor": Out(signed(32)),
                "up": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: a shift in two registered steps, which also records the bits lost."""
        m = Module()
        single, double, average = (
            self.rounding == rule for rule in (Rounding.SINGLE, Rounding.DOUBLE, Rounding.AVERAGE)
        )
        right, divides = self.right, self.right.any()
        # Bit 14 is 2**30: it becomes `first` if nothing is shifted.
        value, lowest = self.product[14:].as_signed(), self.product[:14]
        some = single | (double & ~divides) | (average & (self.below | lowest.any()))
        every = double & divides
        for bit, stage in ((0, ""), (1, ""), (2, "fine"), (3, ""), (4, "coarse")):
            places = 1 << bit
            lost = value[:places]
            some |= right[bit] & lost.any()
            every &= ~right[bit] | lost.all()
            value = Mux(right[bit], value >> places, value).as_signed()
            if stage:
                some, every = (
                    register(m, some, f"some_{stage}"),
                    register(m, every, f"every_{stage}"),
                )
                value, right = (
                    register(m, value, f"value_{stage}"),
                    register(m, right, f"right_{stage}"),
                )
        first, negative = value[0], value[-1]
        m.d.comb += [
            self.floor.eq(value[1:].as_signed()),
            self.up.eq(
                Mux(
                    negative,
                    Mux(average, first | some, first & some),
                    ~average & (first | every),
                )
            ),
        ]
        return m
