"""Mutants of the port of an SDRAM, which no proof passes."""

import pytest

from matloom.arch.config import load_config
from matloom_rtl.formal.engine import FAILED
from matloom_rtl.formal.memory import chunks, memory_units, older_beats, read_room
from matloom_rtl.sdram.chunks import Chunks
from matloom_rtl.sdram.merge import BURSTS
from matloom_rtl.sdram.port import Port
from matloom_rtl.sdram.unanswered import Unanswered


@pytest.fixture(scope="module")
def plan():
    units = memory_units(load_config("nano"))
    return next(unit._plan for unit in units if isinstance(unit, Port))


@pytest.mark.slow
def test_a_chunk_beyond_its_burst_is_not_proven(prove, mutated, plan):
    mutant = mutated(Chunks, ("left.eq(left - room - 1)", "left.eq(left - room)"))
    result = prove(lambda: chunks(mutant(plan, write=False)), depth=9, cover_depth=1)
    assert (result.verdict, result.detail[:6]) == (FAILED, "prove:")


@pytest.mark.slow
def test_room_that_is_promised_twice_is_not_proven(prove, mutated, plan):
    mutant = mutated(Port, ("taken.eq(~self.chunks.valid & ~recent &", "taken.eq(1 &"))
    result = prove(lambda: read_room(mutant(plan)), depth=12, cover_depth=1)
    assert (result.verdict, result.detail[:6]) == (FAILED, "prove:")


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [("(past <= length)", "(past < length)"), ("self.answered & oldest[index]", "self.answered")],
)
def test_an_older_burst_that_is_overlooked_is_not_proven(prove, mutated, change):
    mutant = mutated(Unanswered, change)
    result = prove(lambda: older_beats(mutant(BURSTS)), depth=6, cover_depth=1)
    assert (result.verdict, result.detail[:6]) == (FAILED, "prove:")
