"""Chooses the tile before which each LOAD is issued."""

import itertools
import math
from bisect import bisect_left, bisect_right

from matloom.arch.config import Config
from matloom.schedule import tuning
from matloom.schedule.plan import Plan
from matloom.schedule.segment import Segment

__all__ = ["time_loads"]


def time_loads(segment: Segment, plan: Plan, config: Config) -> None:
    """Choose the slot before which each LOAD is issued: early enough, but no earlier than needed.

    A LOAD blocks everything after it if its queue is full, so it is issued only when the LOAD one
    queue length ahead has begun. A LOAD of a tensor must follow the STORE of its bytes.
    """
    machine = segment.machine
    cycles = [plan.tilings[slot.stage].cycles[slot.number] for slot in plan.slots]
    times = [0, *itertools.accumulate(cycles)]
    moved = [machine.transfer_cycles(load.rows * load.size) for load in plan.loads]
    margin, latency, begin = machine.margin, machine.issue_latency, float(times[-1])
    for load, transfer in zip(reversed(plan.loads), reversed(moved), strict=True):
        use = load.use
        begin = min(times[use] - margin, begin) - (transfer + latency)
        # No later than its use.
        load.slot = max(load.earliest, bisect_right(times, begin, 0, use + 1) - 1)
    _follow_stores(segment, plan)
    ready = [0.0] * len(plan.slots)
    load_starts: list[float] = []
    free, now, loads = 0.0, 0.0, plan.loads
    for number in range(len(plan.slots)):
        now = max(now, ready[number])
        while len(load_starts) < len(loads):
            load = loads[len(load_starts)]
            ahead = (
                load_starts[-config.queue_depth] if len(load_starts) >= config.queue_depth else 0.0
            )
            if load.use > number and (load.slot > number or ahead > now):
                break
            load_starts.append(max(now, free))
            free = load_starts[-1] + moved[len(load_starts) - 1]
            load.slot = number
            ready[load.use] = free + latency
            now = max(now, ready[number])
        now += cycles[number]


def _follow_stores(segment: Segment, plan: Plan) -> None:
    """Move LOADs after the slots that make their bytes, and keep them in order."""
    written: dict[str, list[int]] = {}
    complete: dict[str, list[int]] = {}
    for number, slot in enumerate(plan.slots):
        name = segment.stages[slot.stage].output
        written.setdefault(name, []).append(number)
        ends = complete.setdefault(name, [])
        ends.append(max(plan.tilings[slot.stage].finished[slot.number], ends[-1] if ends else 0))
    earliest = 0
    for load in plan.loads:
        if load.what[0] == "tensor" and load.what[1] in written:
            name = str(load.what[1])
            producers = written[name]
            # Leading bytes are complete before the others: those of some tiles may be enough.
            end = load.source_end if plan.policy.strips else math.inf
            # Further tiles run while their STORE does: a LOAD that waits keeps others waiting.
            enough = bisect_left(complete[name], end) + tuning.STORED_TILES
            last = min(bisect_left(producers, load.use) - 1, enough)
            earliest = max(earliest, producers[last] + 1) if last >= 0 else earliest
        load.slot = earliest = min(max(load.slot, earliest), load.use)
