"""Emits long plans once: buffers lie in different banks wherever that fits, without a comparison.

A plan that did not fit gave up different banks first, before its tiles became smaller.
"""

from dataclasses import replace

from matloom.schedule import tuning
from matloom.schedule.cache import Cache
from matloom.schedule.pipeline import emitted, make_plan
from matloom.schedule.plan import Plan
from matloom.schedule.scheduled import Scheduled
from matloom.schedule.segment import Segment

__all__ = ["emitted_apart"]


def emitted_apart(segment: Segment, plan: Plan, cache: Cache) -> Scheduled:
    """Return the instructions of a plan; of a long one, with different banks again if that fits.

    To emit both and compare them would take too long.
    """
    policy, short = plan.policy, len(plan.slots) < tuning.LONG_SLOTS
    if not (short or policy.avoid_conflicts or policy.keeps_weights or policy.plain):
        apart = make_plan(segment, replace(policy, avoid_conflicts=True), cache)
        plan = apart if isinstance(apart, Plan) else plan
    return emitted(segment, plan, cache)
