"""Chooses the tile before which each LOAD is issued."""

import itertools
from bisect import bisect_left, bisect_right

from matloom.arch.config import Config
from matloom.schedule import tuning
from matloom.schedule.plan import Plan
from matloom.schedule.segment import Segment


def time_loads(segment: Segment, plan: Plan, config: Config) -> None:
    """Choose the tile (slot) before which to issue each LOAD: early enough, but not too early.

    A LOAD blocks everything after it if its queue is full, so it is issued only when the LOAD one
    queue length ahead has begun. A LOAD of a tensor must follow the STORE of its bytes.

    LOADs that convert a layout take longer than their bytes on the bus. That delays the LOADs
    behind them, but does not move any LOAD to an earlier slot, because the tiles of a first layer
    have to wait for one after another anyway.
    """
    machine = segment.machine
    cycles = [plan.tilings[slot.stage].cycles[slot.number] for slot in plan.slots]
    times = [0, *itertools.accumulate(cycles)]
    moved = [machine.transfer_cycles(load.rows * load.size) for load in plan.loads]
    margin, latency, begin = machine.margin, machine.issue_latency, float(times[-1])
    for load, transfer in zip(reversed(plan.loads), reversed(moved), strict=True):
        use = load.use
        begin = min(times[use] - margin, begin) - (transfer + latency)
        # A LOAD is issued no later than its use.
        load.slot = max(load.earliest, bisect_right(times, begin, 0, use + 1) - 1)
    _move_after_stores(segment, plan)
    moved = _durations(segment, plan, moved)
    ready = [0.0] * len(plan.slots)
    load_starts: list[float] = []
    free, now, depth = 0.0, 0.0, config.queue_depth
    place, loads, end = 0, plan.loads, len(plan.loads)
    for number, work in enumerate(cycles):
        now = max(now, ready[number])
        while place < end:
            load = loads[place]
            ahead = load_starts[-depth] if place >= depth else 0.0
            if load.use > number and (load.slot > number or ahead > now):
                break
            start = now if now > free else free
            load_starts.append(start)
            free = start + moved[place]
            place += 1
            load.slot = number
            ready[load.use] = free + latency
            now = max(now, ready[number])
        now += work


def _durations(segment: Segment, plan: Plan, moved: list[float]) -> list[float]:
    """Return the cycles of each LOAD: those in `moved`, or more if it changes a data layout."""
    machine, found = segment.machine, list(moved)
    converting = {
        stage.inputs[0]: stage.input_layout
        for stage in segment.stages
        if stage.input_layout.source is not None
    }
    for number, load in enumerate(plan.loads):
        layout = converting.get(str(load.what[1]))
        if layout is not None:
            loads = layout.loads(load.transfer(start=load.what[2], address=0))
            found[number] = sum(machine.load_cycles(fields)[1] for fields in loads)
    return found


def _move_after_stores(segment: Segment, plan: Plan) -> None:
    """Issue LOADs of a tensor only after the tiles whose STOREs write these bytes.

    LOADs stay in order.
    """
    written: dict[str, list[int]] = {}
    complete: dict[str, list[int]] = {}
    names = [stage.output for stage in segment.stages]
    finished = [tiling.finished for tiling in plan.tilings]
    for number, slot in enumerate(plan.slots):
        name, end = names[slot.stage], finished[slot.stage][slot.number]
        if name not in written:
            written[name], complete[name] = [number], [end]
            continue
        written[name].append(number)
        ends = complete[name]
        before = ends[-1]
        ends.append(end if end > before else before)
    earliest = 0
    for load in plan.loads:
        if load.what[0] == "tensor" and load.what[1] in written:
            name = str(load.what[1])
            producers = written[name]
            # Leading bytes are complete first, so the first tiles may be enough. More tiles run
            # during their STORE: a waiting LOAD would block the LOADs behind it.
            last = bisect_left(producers, load.use) - 1
            last = min(last, bisect_left(complete[name], load.source_end) + tuning.STORED_TILES)
            earliest = max(earliest, producers[last] + 1) if last >= 0 else earliest
        load.slot = earliest = min(max(load.slot, earliest), load.use)
