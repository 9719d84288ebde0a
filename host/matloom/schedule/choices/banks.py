"""Decides whether buffers in different banks are worth another plan.

A plan that did not fit gave up different banks first, before its tiles became smaller.
"""

from dataclasses import replace

from matloom.schedule import tuning
from matloom.schedule.cache import Cache
from matloom.schedule.pipeline import make_plan
from matloom.schedule.plan import Plan
from matloom.schedule.scheduled import Scheduled
from matloom.schedule.segment import Segment

__all__ = ["long_apart", "waits_for_banks"]


def long_apart(segment: Segment, plan: Plan, cache: Cache) -> Plan:
    """Return a long plan with buffers in different banks again if it fits; others unchanged.

    To emit both and compare them would take too long.
    """
    policy, short = plan.policy, len(plan.slots) < tuning.LONG_SLOTS
    if short or policy.avoid_conflicts or policy.keeps_weights or policy.plain:
        return plan
    apart = make_plan(segment, replace(policy, avoid_conflicts=True), cache)
    return apart if isinstance(apart, Plan) else plan


def waits_for_banks(found: Scheduled) -> bool:
    """Return whether a schedule gave up different banks, and POST and STORE often wait for one."""
    policy, prediction = found.plan.policy, found.prediction
    if policy.avoid_conflicts or policy.keeps_weights:
        return False
    return prediction.bank_waits >= tuning.BANK_WAITS * prediction.cycles
