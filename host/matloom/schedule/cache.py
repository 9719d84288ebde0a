"""Cache of intermediate results that candidates of one search share.

Results do not depend on the cache, only the time to find them does. A cache stays in its process;
a new process starts with an empty one.
"""

from collections.abc import Hashable
from typing import Any

from matloom.schedule.plan import OutOfScratchpad, Plan
from matloom.schedule.scheduled import Scheduled
from matloom.schedule.tiling.stages import Tilings

__all__ = ["Cache"]

#: Plans that are remembered, and choices of which it is known why there is no plan.
_PLANS, _FAILURES = 8, 200


class Cache:
    """Tilings, plans, addresses and instructions of the candidates of one search.

    Members
    -------
    tilings:
        How stages were cut.
    placements:
        Where groups of buffers lie in the last plan (`memory.placing`).
    """

    def __init__(self) -> None:
        self.tilings = Tilings()
        self.placements: dict[Hashable, Any] = {}
        self._plans: dict[Hashable, tuple[Plan, Scheduled | None]] = {}
        self._failures: dict[Hashable, tuple[OutOfScratchpad, ...]] = {}

    def __reduce__(self) -> tuple[type["Cache"], tuple[()]]:
        """Pickle as an empty cache."""
        return Cache, ()

    def plan(self, key: Hashable) -> Plan | tuple[OutOfScratchpad, ...] | None:
        """Return the plan for some choices, or why there is none; None if it is not known."""
        found = self._plans.get(key)
        return self._failures.get(key) if found is None else found[0]

    def keep(self, key: Hashable, found: Plan | tuple[OutOfScratchpad, ...]) -> None:
        """Remember a plan, or why there is none."""
        if isinstance(found, Plan):
            _remember(self._plans, key, (found, None), _PLANS)
        else:
            _remember(self._failures, key, found, _FAILURES)

    def scheduled(self, plan: Plan) -> Scheduled | None:
        """Return the schedule emitted from a remembered plan."""
        return next((made for known, made in self._plans.values() if known is plan), None)

    def keep_scheduled(self, made: Scheduled) -> None:
        """Remember what was emitted with its plan, where that is remembered."""
        for key, (plan, _before) in self._plans.items():
            if plan is made.plan:
                self._plans[key] = plan, made
                return


def _remember(known: dict[Hashable, Any], key: Hashable, found: object, most: int) -> None:
    """Add to what is known, and forget the oldest of too many."""
    while len(known) >= most:
        del known[next(iter(known))]
    known[key] = found
