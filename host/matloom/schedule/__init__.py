"""From stages to instructions: tiles, homes in the scratchpad, order, waits, predicted cycles."""

from contextlib import suppress
from dataclasses import dataclass, replace

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Region
from matloom.arch.machine import Machine
from matloom.schedule.allocator import Allocator
from matloom.schedule.constants import Image
from matloom.schedule.cost import Prediction, predict
from matloom.schedule.emit import emit
from matloom.schedule.fit import Candidate, candidates, fit, repeat_policies, resident_policies
from matloom.schedule.options import CompileOptions
from matloom.schedule.pairing import in_blocks
from matloom.schedule.params import TilingParams, Weights
from matloom.schedule.plan import PARAMS, TABLE, Plan, ScheduleParams
from matloom.schedule.planner import make_plan
from matloom.schedule.segment import Place, Segment
from matloom.schedule.tiles import Chunk
from matloom.select.errors import CompileError
from matloom.select.stage import ArrayStage

__all__ = [
    "CompileError",
    "CompileOptions",
    "Image",
    "Place",
    "Repetition",
    "Scheduled",
    "Segment",
    "schedule_segment",
]

_ARENA_LIMIT = 2**31

#: By how much weights that stay may slow the first call down, and must speed later ones up.
_SLOWER, _FASTER = 1.005, 0.98

#: The same of an estimate, which does not know of tiles that fit a call without weights better.
_GAINING = 0.99

#: Stages by whose predicted cycles the start is chosen.
_STAGES_TRIED = 3


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """A segment's instructions where weights are in the scratchpad already.

    Members
    -------
    kept:
        The bytes of the scratchpad (half open) that hold them.
    """

    instructions: list[Instruction]
    prediction: Prediction
    kept: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    """A segment's instructions, how they came about, and what they need.

    Members
    -------
    arena_end:
        First byte of the ARENA window that the segment does not use.
    repeat:
        How to do it again without the transfers of weights; None where they do not stay.
    """

    instructions: list[Instruction]
    plan: Plan
    prediction: Prediction
    arena_end: int
    repeat: Repetition | None = None


def _slots_of(segment: Segment, plan: Plan) -> dict[str, tuple[int, int]]:
    """Return the first and the last slot of the schedule that uses each tensor."""
    uses: dict[str, tuple[int, int]] = {}
    for stage, (begin, end) in zip(segment.stages, plan.order.spans, strict=True):
        for name in (*stage.inputs, stage.output):
            first, last = uses.get(name, (begin, end))
            uses[name] = (min(first, begin), max(last, end))
    return uses


def _arena_places(
    segment: Segment, plan: Plan, config: Config, arena_start: int
) -> tuple[dict[str, Place], int]:
    """Give the tensors that the plan keeps in external memory a place in the arena.

    A tensor lives from the first slot of the schedule that stores a tile of it to the last that
    loads one: slots of different stages are interleaved.
    """
    space = Allocator(_ARENA_LIMIT, config, avoid_conflicts=False)
    places = dict(segment.sources)
    uses = _slots_of(segment, plan)
    for name in sorted(plan.policy.spilled, key=lambda item: (-segment.sizes[item], item)):
        if name in segment.sources or name in segment.results:
            continue
        first, last = uses[name]
        offset = space.place(segment.sizes[name], first, last, high=False)
        assert offset is not None
        places[name] = Place(region=Region.ARENA, offset=arena_start + offset)
    return {**places, **segment.results}, arena_start + space.peak


def _chunk_data(stage: ArrayStage, chunk: Chunk, limits: TilingParams, config: Config) -> bytes:
    """Return weights, block by block, and the parameters where they belong to the last steps."""
    blocks, last = slice(chunk.first_block, chunk.end_block), chunk.end_block
    if stage.loop_nest.weights_fixed:
        last = chunk.first_block + 1
    size = config.tile_bytes
    steps = slice(chunk.first_step * size, chunk.end_step * size)
    weights = stage.weights[chunk.first_block : last, steps].tobytes()
    if limits.params_apart or chunk.end_step < stage.loop_nest.steps:
        return weights
    return weights + stage.params[blocks].tobytes()


def _chunk_offsets(
    segment: Segment, plan: Plan, image: Image, config: Config
) -> dict[tuple[int, int], int]:
    offsets = {}
    for index, stage in enumerate(segment.stages):
        if stage.table is not None:
            offsets[index, TABLE] = image.add(stage.table.tobytes())
        if not isinstance(stage, ArrayStage):
            continue
        for number, chunk in enumerate(plan.tilings[index].chunks):
            limits = plan.policy.limits[index]
            offsets[index, number] = image.add(_chunk_data(stage, chunk, limits, config))
        if index in plan.params:
            offsets[index, PARAMS] = image.add(stage.params.tobytes())
    return offsets


def schedule_segment(
    segment: Segment,
    config: Config,
    options: CompileOptions,
    image: Image,
    *,
    arena_start: int,
    output_bytes: int,
    may_pin: bool = True,
) -> Scheduled:
    """Return the instructions of a segment; its constants go into `image`.

    What paired windows read lies in blocks where that is possible and predicted to be faster.
    With `may_stay` nothing else uses the scratchpad between two times that it runs.

    Raises
    ------
    CompileError
        Where the scratchpad is too small for the smallest tiles.
    """
    candidate, known = _best_candidate(segment, config, options, image, arena_start, output_bytes)
    arguments = (config, options, candidate, arena_start, output_bytes, may_pin)
    plain = image.fork()
    scheduled = _scheduled(segment, plain, *arguments, known=known)
    blocks = None if options.plain or not options.effort else in_blocks(segment, config)
    if blocks is not None:
        with suppress(CompileError):
            paired = image.fork()
            other = _scheduled(blocks, paired, *arguments)
            # At random it is blocks wherever they are possible.
            if options.tiling_seed is not None or _calls(other) < _calls(scheduled):
                image.take(paired)
                return other
    image.take(plain)
    return scheduled


def _calls(scheduled: Scheduled) -> int:
    """Return the cycles of a first call and a later one."""
    later = scheduled if scheduled.repeat is None else scheduled.repeat
    return scheduled.prediction.cycles + later.prediction.cycles


def _best_candidate(
    segment: Segment,
    config: Config,
    options: CompileOptions,
    image: Image,
    arena_start: int,
    output_bytes: int,
) -> tuple[Candidate, tuple[Scheduled, Image] | None]:
    """Return the choice with the fewest predicted cycles; where known, all that it leads to."""
    if options.tiling_seed is not None or options.plain or not options.effort:
        return Candidate(), None
    tried = candidates(segment, config)
    whole = options.effort > 1 or any(item.streamed for item in tried)
    start = segment if whole else _start(segment)
    made = max(output_bytes, *(segment.sizes[name] for name in start.results))
    best: tuple[Candidate, Scheduled, Image] | None = None
    plans: list[Plan] = []
    for candidate in tried:
        plan = fit(start, config, options, candidate)
        if any(plan is other for other in plans):
            continue
        plans.append(plan)
        grown = image.fork() if start is segment else Image()
        found = _emitted(start, config, plan, grown, arena_start, made)
        if best is None or found.prediction.cycles < best[1].prediction.cycles:
            best = candidate, found, grown
    assert best is not None
    candidate, scheduled, grown = best
    return candidate, (scheduled, grown) if start is segment else None


def _scheduled(
    segment: Segment,
    image: Image,
    config: Config,
    options: CompileOptions,
    candidate: Candidate,
    arena_start: int,
    output_bytes: int,
    may_pin: bool,
    known: tuple[Scheduled, Image] | None = None,
) -> Scheduled:
    """Return the instructions of a segment, with its weights on chip where that is better.

    Without residency they are `known`, with the image that goes with them, or found now.
    """
    if known is None:
        first = image.fork()
        scheduled = _schedule(segment, config, options, candidate, first, arena_start, output_bytes)
    else:
        scheduled, first = known
    may_pin = may_pin and options.resident is not False and _weights_fit(scheduled.plan, config)
    if may_pin and _may_gain(scheduled, segment.machine, options):
        for policy in resident_policies(segment, scheduled.plan.policy, config):
            second = image.fork()
            pinned = _pinned(segment, config, policy, second, arena_start, output_bytes)
            if pinned is not None and (options.resident or _worth(scheduled, pinned)):
                image.take(second)
                return pinned
    image.take(first)
    return scheduled


def _weights_fit(plan: Plan, config: Config) -> bool:
    """Return whether all weights fit the scratchpad at once, whatever lies beside them."""
    if any(limits.weights is Weights.STREAMED for limits in plan.policy.limits):
        return False
    sizes = (
        sum(tiling.chunk_bytes) for tiling in plan.tilings if isinstance(tiling.stage, ArrayStage)
    )
    return sum(sizes) <= config.spad_bytes


def _may_gain(scheduled: Scheduled, machine: Machine, options: CompileOptions) -> bool:
    """Return whether later calls may become shorter if weights stay: estimated without them."""
    if options.resident or options.effort > 1:
        return True
    without = predict(scheduled.instructions, machine, resident=True)
    return without.cycles <= _GAINING * scheduled.prediction.cycles


def _worth(scheduled: Scheduled, pinned: Scheduled) -> bool:
    """Return whether weights that stay cost the first call little, and save later ones more."""
    assert pinned.repeat is not None
    before, again = scheduled.prediction.cycles, pinned.repeat.prediction.cycles
    return pinned.prediction.cycles <= _SLOWER * before and again <= _FASTER * before


def _pinned(
    segment: Segment,
    config: Config,
    policy: ScheduleParams,
    image: Image,
    arena_start: int,
    output_bytes: int,
) -> Scheduled | None:
    """Return a schedule with weights that stay on chip for the next time; None for no room."""
    plan = make_plan(segment, policy, config)
    if not isinstance(plan, Plan):
        return None
    first = _emitted(segment, config, plan, image, arena_start, output_bytes)
    again = _again(segment, config, plan, image, arena_start, output_bytes)
    if again is None:
        return None
    return replace(
        first,
        arena_end=max(first.arena_end, again.arena_end),
        repeat=Repetition(
            instructions=again.instructions,
            prediction=again.prediction,
            kept=plan.resident_bytes,
        ),
    )


def _again(
    segment: Segment,
    config: Config,
    first: Plan,
    image: Image,
    arena_start: int,
    output_bytes: int,
) -> Scheduled | None:
    """Return the fastest way to run a plan again with its weights where they are."""
    made = []
    for policy in repeat_policies(segment, first, config):
        plan = make_plan(segment, policy, config)
        if isinstance(plan, Plan):
            made.append(_emitted(segment, config, plan, image, arena_start, output_bytes))
    return min(made, key=lambda item: item.prediction.cycles, default=None)


def _start(segment: Segment) -> Segment:
    """Return the first stages, for choices that concern the start."""
    stages = segment.stages[:_STAGES_TRIED]
    if len(stages) == len(segment.stages):
        return segment
    made = stages[-1].output
    return replace(segment, stages=stages, results={made: Place(region=Region.OUTPUT, offset=0)})


def _schedule(
    segment: Segment,
    config: Config,
    options: CompileOptions,
    candidate: Candidate,
    image: Image,
    arena_start: int,
    output_bytes: int,
) -> Scheduled:
    plan = fit(segment, config, options, candidate)
    return _emitted(segment, config, plan, image, arena_start, output_bytes)


def _emitted(
    segment: Segment,
    config: Config,
    plan: Plan,
    image: Image,
    arena_start: int,
    output_bytes: int,
) -> Scheduled:
    """Return the instructions of a plan."""
    places, arena_end = _arena_places(segment, plan, config, arena_start)
    dram_bytes = {Region.OUTPUT: max(1, output_bytes), Region.ARENA: max(1, arena_end)}
    offsets = _chunk_offsets(segment, plan, image, config)
    instructions = emit(segment, plan, config, places, offsets, dram_bytes)
    return Scheduled(
        instructions=instructions,
        plan=plan,
        prediction=predict(instructions, segment.machine),
        arena_end=arena_end,
    )
