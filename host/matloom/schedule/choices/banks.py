"""Decides whether buffers in different banks are worth another plan."""

from matloom.arch.isa import Opcode
from matloom.cost.timing import timings_of
from matloom.schedule import tuning
from matloom.schedule.scheduled import Scheduled

__all__ = ["waits_for_banks"]


def waits_for_banks(found: Scheduled) -> bool:
    """Return whether a schedule gave up different banks, and POST and STORE often wait for one."""
    policy, prediction = found.plan.policy, found.prediction
    if policy.avoid_conflicts or policy.keeps_weights:
        return False
    timings = timings_of(found.segment.machine)
    alone = sum(
        timings.of(each).durations[1][0]
        for each in found.instructions
        if each.opcode not in (Opcode.LOAD, Opcode.END)
    )
    busy = sum(cycles for unit, cycles in prediction.busy.items() if unit != "load")
    return busy - alone >= tuning.BANK_WAITS * prediction.cycles
