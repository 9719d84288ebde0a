"""Mutants of the bounds check and of its table; every proof fails."""

from dataclasses import replace

import pytest

from matloom.arch import isa
from matloom.arch.config import load_config
from matloom.arch.isa import Opcode
from matloom_rtl.control import bounds as unit
from matloom_rtl.control.bounds import Bounds
from matloom_rtl.formal.control.extents import bounds
from matloom_rtl.formal.engine import FAILED
from matloom_rtl.formal.proof import Proof

NANO = load_config("nano")


def proof(opcode, component):
    return Proof(
        kind="",
        unit="",
        statement="",
        build=lambda: bounds(opcode, component(NANO)),
        depth=32,
        cover_depth=1,
        bounded=True,
    )


@pytest.mark.slow
def test_a_sum_that_forgets_a_carry_is_not_proven(prove, mutated):
    mutant = mutated(Bounds, ("| result[_SUM_BITS]),", "),"))
    result = prove(proof(Opcode.STORE, mutant))
    assert (result.verdict, result.detail[:6]) == (FAILED, "prove:")


@pytest.mark.slow
def test_a_wrong_extent_in_the_shared_table_is_not_proven(prove, monkeypatch):
    """Without one term, hardware, model and compiler would all agree on the wrong extent."""

    def shortened(opcode, config):
        extents = isa.extents_of(opcode, config)
        return tuple(replace(each, terms=each.terms[1:]) for each in extents)

    monkeypatch.setattr(unit, "extents_of", shortened)
    result = prove(proof(Opcode.STORE, Bounds))
    assert (result.verdict, result.detail[:6]) == (FAILED, "prove:")
