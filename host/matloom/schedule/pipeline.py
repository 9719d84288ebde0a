"""Turns the choices of a candidate into instructions: runs `STEPS` one after another.

`evaluate` is a pure function, and segment, choices and result can be pickled, so a search may
evaluate candidates in other processes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from matloom.arch.isa import Region
from matloom.cost.predict import predict
from matloom.schedule import tuning
from matloom.schedule.cache import Cache
from matloom.schedule.choices.tighten import store_one_by_one, tighten_failed, widest_choices
from matloom.schedule.commands.emit import emit_instructions
from matloom.schedule.cut import cut_stages
from matloom.schedule.memory.allocator import Allocator
from matloom.schedule.memory.buffers import Builder, tensor_buffers_of
from matloom.schedule.memory.external import arena_places, chunk_offsets
from matloom.schedule.memory.load_times import time_loads
from matloom.schedule.memory.placement_checks import oversized_stages
from matloom.schedule.memory.placing import place_others, place_pinned, place_tensors, reserve
from matloom.schedule.params import ORDINARY_START
from matloom.schedule.plan import DoesNotFit, OutOfScratchpad, Plan, ScheduleParams
from matloom.schedule.scheduled import Scheduled
from matloom.schedule.segment import Segment
from matloom.schedule.tiling.sequence import order_tiles
from matloom.schedule.tiling.stages import Tiling

#: Buffers for which a step found no room; empty if all have room.
Failures = tuple[OutOfScratchpad, ...]


@dataclass(kw_only=True)
class Draft:
    """A candidate schedule under construction, in which each of `STEPS` sets more members.

    Members
    -------
    tilings:
        After `tile`: how each stage is cut.
    plan, allocator:
        After `order`: the plan (slots, later also buffers, LOADs and addresses), and the allocator
        of the scratchpad.
    builder:
        After `assign_buffers`: the builder that found the buffers of tiles and weights.
    scheduled:
        After `emit`: the result.
    """

    segment: Segment
    params: ScheduleParams
    cache: Cache
    tilings: list[Tiling] = field(default_factory=list)
    plan: Plan | None = None
    allocator: Allocator | None = None
    builder: Builder | None = None
    scheduled: Scheduled | None = None

    @property
    def current_plan(self) -> Plan:
        """The plan, which an earlier step must have set."""
        assert self.plan is not None
        return self.plan

    @property
    def space(self) -> Allocator:
        """The allocator of the scratchpad, which must exist already."""
        assert self.allocator is not None
        return self.allocator

    @property
    def key(self) -> tuple[object, ...]:
        """Cache key of the plan: the tilings, and all choices that do not concern tiles."""
        other_choices = replace(self.params, limits=(), pinned_at=None, start=ORDINARY_START)
        return tuple(self.tilings), other_choices


def tile(draft: Draft) -> Failures:
    """Cut the output of each stage into tiles, as one EXEC or POST makes them."""
    draft.tilings = cut_stages(draft.segment, draft.params, draft.cache)
    return ()


def order(draft: Draft) -> Failures:
    """Put the tiles of all stages into program order, and find the buffers of whole tensors."""
    segment, params = draft.segment, draft.params
    slots = order_tiles(segment, draft.tilings, params.spilled, interleaved=not params.plain)
    buffers, offsets = tensor_buffers_of(segment, params, slots, draft.tilings)
    draft.plan = Plan(params, slots, buffers, draft.tilings, offsets)
    draft.allocator = _empty_scratchpad(segment, params)
    return ()


def _empty_scratchpad(segment: Segment, params: ScheduleParams) -> Allocator:
    """Return an allocator for a plan of a segment, in which no buffer has been placed."""
    return Allocator(
        segment.config.spad_bytes,
        segment.config,
        avoid_conflicts=params.avoid_conflicts,
        seed=params.seed if params.avoid_conflicts else None,
    )


def assign_buffers(draft: Draft) -> Failures:
    """Find the buffers of all tiles, and the LOADs that fill them.

    As a quick check, the tensors alone are given addresses first. If they do not fit, no plan does.
    """
    segment, plan = draft.segment, draft.current_plan
    if plan.params.pinned_at is None:
        failures = place_tensors(plan, _empty_scratchpad(segment, plan.params))
        for buffer in plan.tensor_buffers.values():
            buffer.address = -1
        if not failures and len(plan.slots) > tuning.MANY_SLOTS:
            failures = oversized_stages(segment, plan)
        if failures:
            return tuple(failures)
    draft.builder = Builder(segment, plan, segment.config)
    for number, slot in enumerate(plan.slots):
        draft.builder.add(number, slot)
    draft.builder.close()
    return ()


def prefetch(draft: Draft) -> Failures:
    """Choose the tile before which each LOAD is issued; this never fails, so return ()."""
    time_loads(draft.segment, draft.current_plan, draft.segment.config)
    for load in draft.current_plan.loads:
        load.buffer.first = min(load.buffer.first, load.slot)
    return ()


def allocate(draft: Draft) -> Failures:
    """Give each buffer an address in the scratchpad."""
    plan, space, builder = draft.current_plan, draft.space, draft.builder
    assert builder is not None
    if plan.params.pinned_at is not None:
        reserve(plan, builder.transient, space)
    failures = place_tensors(plan, space)
    if failures:
        return tuple(failures)
    full = place_pinned(plan, builder.transient, space)
    if full is not None:
        return (full,)
    placements = draft.cache.placements
    failures = place_others(draft.segment, plan, builder.transient, space, placements)
    plan.loads.sort(key=lambda load: load.slot)
    return tuple(replace(each, joint=plan.joint_at(each.slot)) for each in failures)


def emit(draft: Draft) -> Failures:
    """Emit the instructions, and predict their cycles."""
    segment, plan = draft.segment, draft.current_plan
    image = segment.image.fork()
    places, arena_end = arena_places(segment, plan, segment.config, segment.arena_start)
    ends = [
        place.offset + segment.sizes[name]
        for name, place in segment.results.items()
        if place.region is Region.OUTPUT
    ]
    dram_bytes = {Region.OUTPUT: max([1, *ends]), Region.ARENA: max(1, arena_end)}
    offsets = chunk_offsets(segment, plan, image)
    instructions, costs = emit_instructions(segment, plan, places, offsets, dram_bytes)
    draft.scheduled = Scheduled(
        segment=segment,
        instructions=instructions,
        plan=plan,
        prediction=predict(instructions, segment.machine, costs=costs),
        arena_end=arena_end,
        image=image,
    )
    return ()


#: All steps of a candidate, in order, by the names that `--stop-after` has for them.
STEPS: tuple[Callable[[Draft], Failures], ...] = (
    tile,
    order,
    assign_buffers,
    prefetch,
    allocate,
    emit,
)


def evaluate(
    segment: Segment, params: ScheduleParams, cache: Cache | None = None
) -> Scheduled | DoesNotFit:
    """Return the schedule of a segment with these choices, or the reason why there is none.

    Choices that do not fit the scratchpad are tightened until they do, unless weights stay on chip
    between calls.
    """
    cache = Cache() if cache is None else cache
    found = fitting_plan(segment, params, cache)
    return emit_plan(segment, found, cache) if isinstance(found, Plan) else found


def emit_with_separate_banks(
    segment: Segment, plan: Plan, cache: Cache, long_slots: int
) -> Scheduled:
    """Return the schedule of a plan: its instructions and their predicted cycles.

    Buffers of a plan with `long_slots` slots or more are first moved to separate banks, if they
    fit, since emitting instructions for both plans to compare them would take too long.
    """
    params, short = plan.params, len(plan.slots) < long_slots
    if not (short or params.avoid_conflicts or params.keeps_weights or params.plain):
        apart = make_plan(segment, replace(params, avoid_conflicts=True), cache)
        plan = apart if isinstance(apart, Plan) else plan
    return emit_plan(segment, plan, cache)


def fitting_plan(segment: Segment, params: ScheduleParams, cache: Cache) -> Plan | DoesNotFit:
    """Return a plan that fits the scratchpad, or the reason why there is none.

    Choices that do not fit are tightened until they do.
    """
    failures: Failures = ()
    wide = widest_choices(segment, params)
    for _ in range(tuning.ATTEMPTS):
        found: Plan | Failures = _failures_at_start(segment, params, cache, failures)
        found = found or make_plan(segment, params, cache)
        if isinstance(found, Plan):
            return found
        tighter = None if params.keeps_weights else tighten_failed(segment, params, found, wide)
        tighter = tighter or store_one_by_one(params, found)
        if tighter is None:
            return _reason_not_to_fit(segment, found[0])
        params, failures = tighter, found
    return DoesNotFit(
        reason=f"no plan in {tuning.ATTEMPTS} attempts fits {segment.config.spad_bytes} bytes"
    )


def _failures_at_start(
    segment: Segment, params: ScheduleParams, cache: Cache, before: Failures
) -> Failures:
    """Plan only the first stages, to find quickly whether they fail again; return their failures.

    `before` are the failures of the previous plan; planning ends one stage after the first of them.
    Return an empty tuple if these stages fit. Return it without planning if that would save little
    time, as after the failure of a tensor, because tensors are placed before all other buffers.
    """
    if not before or before[0].kind == "tensor":
        return ()
    count = before[0].stage + 2
    tiles = [len(tiling.tiles) for tiling in cut_stages(segment, params, cache)]
    if sum(tiles) <= tuning.MANY_SLOTS or 2 * sum(tiles[:count]) > sum(tiles):
        return ()
    start = replace(params, limits=params.limits[:count])
    # A cache of its own keeps the previous plan's addresses, which hardly differ in the next one.
    found = make_plan(segment.first_stages(count), start, Cache(cache.tilings))
    return () if isinstance(found, Plan) else found


def make_plan(segment: Segment, params: ScheduleParams, cache: Cache) -> Plan | Failures:
    """Return the plan of a segment under these choices, or one failure per stage that does not fit.

    Choices that lead to the same tiles share a plan; a search often tries such choices when memory
    is short.
    """
    draft = Draft(segment=segment, params=params, cache=cache)
    tile(draft)
    # Addresses of weights are long lists, and used once.
    key = draft.key if params.pinned_at is None else None
    known = None if key is None else cache.plan(key)
    if known is not None:
        return known
    found: Plan | Failures = ()
    for step in STEPS[1:-1]:
        found = step(draft)
        if found:
            break
    found = found or draft.current_plan
    if key is not None:
        cache.add(key, found)
    return found


def emit_plan(segment: Segment, plan: Plan, cache: Cache) -> Scheduled:
    """Return the schedule of a plan with its instructions, from the cache if it is there."""
    known = cache.schedule_of(plan)
    if known is not None:
        return known
    draft = Draft(segment=segment, params=plan.params, cache=cache, plan=plan)
    STEPS[-1](draft)
    assert draft.scheduled is not None
    cache.add_scheduled(draft.scheduled)
    return draft.scheduled


def _reason_not_to_fit(segment: Segment, failure: OutOfScratchpad) -> DoesNotFit:
    """Return why a segment does not fit: a stage's buffer for which there is no room."""
    return DoesNotFit(
        reason=f"stage {segment.stages[failure.stage].name} needs {failure.size} bytes of "
        f"scratchpad for {failure.kind} next to its other buffers, more than the "
        f"{segment.config.spad_bytes} bytes there are leave free"
    )
