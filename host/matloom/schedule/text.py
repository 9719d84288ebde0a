"""Prints the steps of a schedule for people: search, tiles, order, addresses."""

from collections.abc import Iterator

from matloom.schedule.check import buffers_of
from matloom.schedule.plan import Load
from matloom.schedule.scheduled import Scheduled, TriedCandidate
from matloom.schedule.tiling.tiles import Tile


def search_lines(scheduled: Scheduled) -> Iterator[str]:
    """Yield a line of text for each candidate schedule: its cycles, and why it was dropped."""
    for each in scheduled.tried:
        yield _candidate_line(each)
    if not scheduled.tried:
        yield "one candidate: nothing to choose"


def _candidate_line(candidate: TriedCandidate) -> str:
    """Return the line of text on one candidate: decision, name, cycles and outcome."""
    cycles = "" if candidate.cycles is None else f" ({candidate.cycles:,} cycles predicted)"
    return f"{candidate.decision}: {candidate.candidate}{cycles}: {candidate.outcome}"


def tile_lines(scheduled: Scheduled) -> Iterator[str]:
    """Yield lines of text: each stage with the lifetime of its weights, then its tiles."""
    plan = scheduled.plan
    for tiling, params in zip(plan.tilings, plan.params.limits, strict=True):
        count = f"{len(tiling.tiles)} tiles, {len(tiling.chunks)} chunks of weights"
        yield f"{tiling.stage.name}: {count}, {params.weights.name}"
        tiles: list[Tile] = [*tiling.tiles]
        for number, tile in enumerate(tiles):
            yield f"  {number}: {tile.text}; {tiling.cycles[number]} cycles"


def order_lines(scheduled: Scheduled) -> Iterator[str]:
    """Yield a line of text for each slot (place in the order): the stage and tile there."""
    stages = scheduled.segment.stages
    for number, slot in enumerate(scheduled.plan.slots):
        last = ", its last" if slot.last else ""
        yield f"{number}: {stages[slot.stage].name} tile {slot.number}{last}"


def buffer_lines(scheduled: Scheduled) -> Iterator[str]:
    """Yield tensors in external memory, then buffers with sizes and live ranges (in tiles)."""
    plan, stages = scheduled.plan, scheduled.segment.stages
    for name in sorted(plan.params.spilled):
        yield f"tensor {name}: in external memory"
    for kind, buffer in sorted(buffers_of(plan), key=lambda item: (item[1].first, item[1].address)):
        live = f"slots {buffer.first}..{buffer.last}"
        yield f"{kind} of {stages[buffer.stage].name}: {buffer.size} bytes, {live}"


def load_lines(scheduled: Scheduled) -> Iterator[str]:
    """Yield a line of text for each LOAD: when it is issued, what it copies, when that is used."""
    for load in scheduled.plan.loads:
        yield f"before slot {load.slot}: LOAD {_load_text(load)}, used in slot {load.use}"


def allocation_lines(scheduled: Scheduled) -> Iterator[str]:
    """Yield buffers with addresses and live ranges (slots are tiles in order), then LOADs."""
    plan, stages = scheduled.plan, scheduled.segment.stages
    for name in sorted(plan.params.spilled):
        yield f"tensor {name}: in external memory"
    for kind, buffer in sorted(buffers_of(plan), key=lambda item: (item[1].first, item[1].address)):
        end = buffer.address + buffer.size
        live = f"slots {buffer.first}..{buffer.last}"
        yield f"{buffer.address}..{end}: {kind} of {stages[buffer.stage].name}, {live}"
    yield from load_lines(scheduled)


def _load_text(load: Load) -> str:
    """Return what a LOAD copies, and to which address, as text."""
    kind, of, at = load.what
    source = f"bytes of {of} from {at}" if kind == "tensor" else f"chunk {at} of stage {of}"
    return f"{load.rows * load.size} bytes, {source}, to {load.buffer.address + load.offset}"
