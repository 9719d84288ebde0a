"""Mutants of address generators, which no proof passes."""

import pytest

from matloom.arch.config import load_config
from matloom.arch.isa import Opcode
from matloom_rtl.dma.rows import Rows
from matloom_rtl.formal.engine import FAILED, PROVEN
from matloom_rtl.formal.positions import positions
from matloom_rtl.formal.rows import rows
from matloom_rtl.post.positions import Positions


def load_rows(component=Rows):
    return rows(component(Opcode.LOAD, load_config("nano")))


def pair_positions(component=Positions):
    return positions(component(load_config("small+i8xi4")))


#: A unit, the replaced text, its claim, and the cycles within which a run breaks it.
MUTANTS = {
    "planes go on from the row before": (
        *(Rows, ('Mux(plane_end, ~last_plane, ~kind["goes_on"])', '~kind["goes_on"]')),
        *(load_rows, 12),
    ),
    "blocks begin where the row began": (
        *(Positions, ("base.eq(block_start)", "base.eq(row_start)")),
        *(pair_positions, 8),
    ),
    "the second of a pair goes on after the first": (
        *(Positions, ("entry.eq(first_entry)", "entry.eq(entry + 1)")),
        *(pair_positions, 8),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_not_proven(prove, mutated, name):
    component, change, claim, cycles = MUTANTS[name]
    mutant = mutated(component, change)
    result = prove(lambda: claim(mutant), depth=cycles, cover_depth=1)
    assert (result.verdict, result.detail[:6]) == (FAILED, "prove:")


@pytest.mark.slow
@pytest.mark.parametrize("claim", [load_rows, pair_positions])
def test_loops_are_those_of_the_page(prove, claim):
    assert prove(claim, depth=2, cover_depth=30).verdict == PROVEN
