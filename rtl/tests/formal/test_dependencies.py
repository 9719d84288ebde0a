"""Mutants of what holds instructions back until they may start, which no proof passes."""

import pytest

from matloom.arch.config import load_config
from matloom.arch.isa import Opcode
from matloom_rtl.control.control import Control
from matloom_rtl.control.dispatch import Dispatch
from matloom_rtl.control.instructions import InstructionMemory
from matloom_rtl.control.queue import UnitQueue
from matloom_rtl.formal.engine import PROVEN
from matloom_rtl.formal.gate import gate
from matloom_rtl.formal.instructions import dispatches, instruction_memory
from matloom_rtl.formal.scoreboard import scoreboard

NANO = load_config("nano")


def post_gate(component=UnitQueue):
    return gate(component(NANO, Opcode.POST))


#: A unit, the replaced text, its claim, and the cycles within which a run breaks it.
MUTANTS = {
    "a queue starts one completion too early": (
        *(UnitQueue, ("(target - self.completed[index])", "(target - 1 - self.completed[index])")),
        *(post_gate, 12),
    ),
    "a queue starts what is not yet found good": (
        *(UnitQueue, ("stays & (checked | fifo.r_rdy)", "stays")),
        *(post_gate, 12),
    ),
    "what is noted lies with the next instruction": (
        *(InstructionMemory, ("note.addr.eq(self.last)", "note.addr.eq(following)")),
        *(lambda unit: instruction_memory(unit(NANO)), 5),
    ),
    "a wait is on one instruction too few": (
        *(Dispatch, ("~enough & targets[number][-1]", "enough & targets[number][-1]")),
        *(lambda unit: dispatches(unit(NANO)), 12),
    ),
    "a completion is counted for another unit": (
        *(Control, ("completed[number].eq(completed[number] + 1)", "completed[0].eq(1)")),
        *(lambda unit: scoreboard(unit(NANO)), 5),
    ),
    "a completion is counted twice": (
        *(Control, ("completed[number].eq(completed[number] + 1)", "completed[number].eq(2)")),
        *(lambda unit: scoreboard(unit(NANO)), 5),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_not_proven(refuted, mutated, name):
    component, change, claim, cycles = MUTANTS[name]
    mutant = mutated(component, change)
    refuted(lambda: claim(mutant), depth=cycles)


@pytest.mark.slow
def test_a_gate_is_proven(prove):
    assert prove(post_gate, depth=3).verdict == PROVEN
