"""Decides whether buffers in different banks are worth another plan."""

from matloom.schedule import tuning
from matloom.schedule.scheduled import Scheduled

__all__ = ["waits_for_banks"]


def waits_for_banks(found: Scheduled) -> bool:
    """Return whether a schedule gave up different banks, and POST and STORE often wait for one."""
    policy, prediction = found.plan.policy, found.prediction
    if policy.avoid_conflicts or policy.keeps_weights:
        return False
    return prediction.bank_waits >= tuning.BANK_WAITS * prediction.cycles
