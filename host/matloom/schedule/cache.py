"""Cache of intermediate results shared by the candidates of one search.

The cache affects how long a search takes, never its result. It is not shared between processes; a
new process starts with an empty one.
"""

from collections.abc import Hashable
from typing import Any

from matloom.schedule.plan import OutOfScratchpad, Plan
from matloom.schedule.scheduled import Scheduled
from matloom.schedule.tiling.stages import TilingCache

#: Maximum number of cached plans, and of choices known to have no plan.
_PLANS, _FAILURES = 8, 200


class Cache:
    """Cached tilings, plans, addresses and instructions of the candidates of one search.

    Members
    -------
    tilings:
        Tilings (how each stage is cut into tiles), by the bounds on tile sizes that led to them.
    placements:
        Addresses of groups of buffers in the last plan (`memory.placing`).
    """

    def __init__(self, tilings: TilingCache | None = None) -> None:
        self.tilings = TilingCache() if tilings is None else tilings
        self.placements: dict[Hashable, Any] = {}
        self._plans: dict[Hashable, tuple[Plan, Scheduled | None]] = {}
        self._failures: dict[Hashable, tuple[OutOfScratchpad, ...]] = {}

    def __reduce__(self) -> tuple[type["Cache"], tuple[()]]:
        """Pickle as an empty cache."""
        return Cache, ()

    def plan(self, key: Hashable) -> Plan | tuple[OutOfScratchpad, ...] | None:
        """Return the cached plan for these choices, or why there is none; None if not cached."""
        found = self._plans.get(key)
        return self._failures.get(key) if found is None else found[0]

    def add(self, key: Hashable, entry: Plan | tuple[OutOfScratchpad, ...]) -> None:
        """Cache the plan for these choices, or the reasons why there is none."""
        if isinstance(entry, Plan):
            _remember(self._plans, key, (entry, None), _PLANS)
        else:
            _remember(self._failures, key, entry, _FAILURES)

    def schedule_of(self, plan: Plan) -> Scheduled | None:
        """Return the schedule emitted from a plan; None if either of them is not cached."""
        return next((schedule for known, schedule in self._plans.values() if known is plan), None)

    def add_scheduled(self, scheduled: Scheduled) -> None:
        """Cache a schedule next to its plan, if the plan is cached."""
        for key, (plan, _before) in self._plans.items():
            if plan is scheduled.plan:
                self._plans[key] = plan, scheduled
                return


def _remember(entries: dict[Hashable, Any], key: Hashable, value: object, limit: int) -> None:
    """Add an entry to a cache of at most `limit` entries; evict the oldest if necessary."""
    while len(entries) >= limit:
        del entries[next(iter(entries))]
    entries[key] = value
