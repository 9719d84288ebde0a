"""Chooses when LOADs are issued: before which tile."""

import itertools
from bisect import bisect_left, bisect_right

from matloom.arch.config import Config
from matloom.arch.machine import Machine
from matloom.schedule.plan import Load, Plan
from matloom.schedule.segment import Segment

__all__ = ["time_loads"]


def time_loads(segment: Segment, plan: Plan, config: Config) -> None:
    """Choose the tick before which each LOAD is issued: early enough, no earlier than needed.

    A LOAD in a full queue blocks everything after it, so none is issued before the one a queue
    ahead of it has begun. A LOAD of a tensor must follow the STORE of its bytes.
    """
    machine = segment.machine
    cycles = [plan.tilings[slot.stage].cycles[slot.number] for slot in plan.slots]
    times = [0, *itertools.accumulate(cycles)]
    begin = float(times[-1])
    for load in reversed(plan.loads):
        begin = min(times[load.use] - machine.margin, begin) - _load_cycles(load, machine)
        load.slot = min(max(0, bisect_right(times, begin) - 1), load.use)
    _follow_stores(segment, plan)
    ready = [0.0] * len(plan.slots)
    begun: list[float] = []
    free, now, loads = 0.0, 0.0, plan.loads
    for number in range(len(plan.slots)):
        now = max(now, ready[number])
        while len(begun) < len(loads):
            load = loads[len(begun)]
            ahead = begun[-config.queue_depth] if len(begun) >= config.queue_depth else 0.0
            if load.use > number and (load.slot > number or ahead > now):
                break
            begun.append(max(now, free))
            free = begun[-1] + machine.transfer_cycles(load.rows * load.size)
            load.slot = number
            ready[load.use] = free + machine.issue_latency
            now = max(now, ready[number])
        now += cycles[number]


def _load_cycles(load: Load, machine: Machine) -> float:
    return machine.transfer_cycles(load.rows * load.size) + machine.issue_latency


def _follow_stores(segment: Segment, plan: Plan) -> None:
    """Move LOADs after the ticks that make their bytes, and keep them in order."""
    written: dict[str, list[int]] = {}
    for number, slot in enumerate(plan.slots):
        written.setdefault(segment.stages[slot.stage].output, []).append(number)
    earliest = 0
    for load in plan.loads:
        if load.what[0] == "tensor" and load.what[1] in written:
            producers = written[str(load.what[1])]
            last = bisect_left(producers, load.use) - 1
            earliest = max(earliest, producers[last] + 1) if last >= 0 else earliest
        load.slot = earliest = min(max(load.slot, earliest), load.use)
