"""Mutants of the units that delay instructions until they may start; every proof fails."""

import pytest

from matloom.arch.config import load_config
from matloom.arch.isa import Opcode
from matloom_rtl.control.bounds import Bounds
from matloom_rtl.control.control import Control
from matloom_rtl.control.dispatch import Dispatch
from matloom_rtl.control.instructions import InstructionMemory
from matloom_rtl.control.legality import Legality
from matloom_rtl.control.queue import UnitQueue
from matloom_rtl.formal.control.answers import answer_timing, answers
from matloom_rtl.formal.control.dispatch import dispatches
from matloom_rtl.formal.control.gate import gate
from matloom_rtl.formal.control.instructions import instruction_memory
from matloom_rtl.formal.control.legality import legality
from matloom_rtl.formal.control.scoreboard import scoreboard, words_are_stored
from matloom_rtl.formal.engine import PROVEN

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
    "a bad field is overlooked": (
        *(Dispatch, ("with m.If(legality.illegal_field):", "with m.If(0):")),
        *(lambda unit: answers(unit(NANO)), 14),
    ),
    "a field may exceed its largest value": (
        *(Legality, ("faults.append(value > high)", "pass")),
        *(lambda unit: legality(unit(NANO)), 4),
    ),
    "a reserved bit is overlooked": (
        *(Legality, ("range(0, len(reserved), _BITS)", "range(_BITS, len(reserved), _BITS)")),
        *(lambda unit: legality(unit(NANO)), 4),
    ),
    "a STORE may write the program": (
        *(Legality, ("(self.opcode == Opcode.STORE) & ~writable", "0")),
        *(lambda unit: legality(unit(NANO)), 4),
    ),
    "the verdict on fields is looked at a cycle early": (
        *(Dispatch, ('m.next = "Look-Again"', 'm.next = "Judge"')),
        *(lambda unit: answers(unit(NANO)), 12),
    ),
    "only the scratchpad's end counts": (
        *(Dispatch, ("m.If(bounds.fault != 0)", "m.If(bounds.fault == Fault.SPAD_RANGE)")),
        *(lambda unit: answers(unit(NANO)), 14),
    ),
    "what is refused is named by no opcode": (
        *(Dispatch, ("self.fault_opcode.eq(opcode)", "self.fault_opcode.eq(0)")),
        *(lambda unit: answers(unit(NANO)), 12),
    ),
    "what is refused has the index of another": (
        *(Dispatch, ("self.index.eq(self.index + 1)", "self.index.eq(self.index + 2)")),
        *(lambda unit: answers(unit(NANO)), 14),
    ),
    "an instruction waits that its queue has": (
        *(Dispatch, ("with m.If(given & ~self.halt)", "with m.If(given & self.exhausted)")),
        *(lambda unit: answers(unit(NANO)), 14),
    ),
    "a check is done with its first extent": (
        *(Bounds, ("judge.valid & judge.final", "judge.valid & judge.last")),
        *(lambda unit: answer_timing(unit(NANO)), 25),
    ),
    "the dispatcher does not heed `halt`": (
        *(Dispatch, ("with m.If(given & ~self.halt)", "with m.If(given)")),
        *(lambda unit: dispatches(unit(NANO)), 14),
    ),
    "a word is stored that the dispatcher does not take": (
        *(
            Control,
            ("queues.i.valid.eq(words.valid & dispatch.i.ready)", "queues.i.valid.eq(words.valid)"),
        ),
        *(lambda unit: words_are_stored(unit(NANO)), 3),
    ),
    "a place is free before its word is read": (
        *(
            InstructionMemory,
            ("~occupied.bit_select(place, 1)", "~occupied.bit_select(place ^ 1, 1)"),
        ),
        *(lambda unit: instruction_memory(unit(NANO)), 25),
    ),
    "an instruction is issued without its last word": (
        *(
            Dispatch,
            (
                "last.eq(place[layout.instruction_words - 1])",
                "last.eq(place[layout.instruction_words - 2])",
            ),
        ),
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
