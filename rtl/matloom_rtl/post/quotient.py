"""Quotients of products by powers of two, under each rounding rule of a lane."""

from amaranth.hdl import Module, Mux, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.numerics import Rounding
from matloom_rtl.arith.stages import register

__all__ = ["Quotient"]


class Quotient(wiring.Component):
    """Divide a 63-bit product by ``2**(31 + right)``: the floor, and what rounds it up.

    The product is never rounded before it is shifted. The lowest bit that the floor lacks
    (`first`), and whether any or all of those below it are ones (`some`, `every`), tell what is
    added to the floor:

    - SINGLE: `first`, halves up; so does DOUBLE where `right` is 0.
    - DOUBLE: halves away from zero, of a product that was rounded at 2**30 before. That rounding
      carries as far as the bits are ones: a half is reached if `first` is a one or all below it
      are; it is exceeded if `first` is a one and any below it.
    - AVERAGE: towards zero: one for negative products, if any bit is lost.

    Two registered stages, a product in every cycle; `floor` and `up` are logic after them.
    Nothing holds, and a reset clears nothing.

    Members
    -------
    rounding: in
        DOUBLE, SINGLE or AVERAGE; constant while products are inside.
    product: in
        Bits 16 and up of it.
    below: in
        Whether any of its lowest 16 bits is a one.
    right: in
    floor, up: out
        The quotient is their sum.
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
        m = Module()
        single, double, average = (
            self.rounding == rule for rule in (Rounding.SINGLE, Rounding.DOUBLE, Rounding.AVERAGE)
        )
        right, divides = self.right, self.right.any()
        # Bit 14 is that of 2**30: it becomes `first` where nothing is shifted.
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
