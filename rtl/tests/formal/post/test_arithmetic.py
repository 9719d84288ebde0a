"""Proofs of requantising and conversions, and mutants for which they fail."""

import pytest

from matloom_rtl.arith.narrow import Narrow
from matloom_rtl.arith.widen import Widen
from matloom_rtl.formal.engine import FAILED, PROVEN
from matloom_rtl.formal.post.floats import narrows, widens
from matloom_rtl.formal.post.requantise import products, quotient
from matloom_rtl.post.quotient import Quotient


@pytest.mark.slow
def test_sums_of_products_are_proven(prove):
    assert prove(products, depth=4).verdict == PROVEN


@pytest.mark.slow
def test_a_quotient_that_rounds_negative_halves_up_is_not_proven(prove, mutated):
    """The rule DOUBLE rounds them away from zero."""
    mutant = mutated(Quotient, ("first | some, first & some)", "first | some, first)"))
    assert prove(lambda: quotient(mutant()), depth=5).verdict == FAILED


@pytest.mark.slow
def test_rounding_to_odd_is_not_proven(prove, mutated):
    mutant = mutated(Narrow, ("(shifted[0] | kept[0])", "(shifted[0] | ~kept[0])"))
    assert prove(lambda: narrows(("bf16",), mutant(("bf16",))), depth=7).verdict == FAILED


@pytest.mark.slow
def test_a_subnormal_number_taken_for_zero_is_not_proven(prove, mutated):
    mutant = mutated(Widen, ("Mux(o.exponent < 1, subnormal, finite)", "finite"))
    assert prove(lambda: widens(("bf16",), mutant(("bf16",))), depth=6).verdict == FAILED
