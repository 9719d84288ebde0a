"""Plans a segment: its order, the buffers of its tiles, when LOADs bring them, where they lie."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from matloom.arch.config import Config
from matloom.schedule.allocator import Allocator
from matloom.schedule.buffers import Builder, tensor_buffers_of
from matloom.schedule.load_times import time_loads
from matloom.schedule.placing import place_others
from matloom.schedule.plan import OutOfScratchpad, Plan, ScheduleParams
from matloom.schedule.segment import Segment
from matloom.schedule.sequence import sequence
from matloom.schedule.tiling import Tiling
from matloom.select.stage import ArrayStage

__all__ = ["different_plans", "make_plan"]

#: Ticks from which on a plan takes so long that it is first checked whether each tile fits alone.
_MANY = 8000

#: Plans that are remembered of a segment, and policies of which it is known why there is none.
_REMEMBERED, _REMEMBERED_FAILURES = 8, 200


def _place_tensors(plan: Plan, space: Allocator) -> list[OutOfScratchpad]:
    """Give tensors addresses, the largest first; return the first that there is no room for."""
    distinct = {id(tensor_buffer): tensor_buffer for tensor_buffer in plan.tensor_buffers.values()}
    for buffer in sorted(distinct.values(), key=lambda item: (-item.size, item.first)):
        address = space.place(
            buffer.size,
            buffer.first,
            buffer.last,
            high=False,
            reads=buffer.reads,
            boundary=buffer.boundary,
        )
        if address is None:
            return [OutOfScratchpad.of(buffer, buffer.first, "tensor")]
        buffer.address = address
    return []


def _place_pinned(plan: Plan, builder: Builder, space: Allocator) -> OutOfScratchpad | None:
    """Give weights that stay an address of their own, or leave them where they are already."""
    last = len(plan.slots) - 1
    for _kind, buffer in builder.transient:
        if buffer.pinned and plan.policy.pinned_at is None:
            address = space.place(
                buffer.size, 0, last, high=True, reads=buffer.reads, boundary=buffer.boundary
            )
            if address is None:
                return OutOfScratchpad.of(buffer, buffer.first, "weights")
            buffer.address = address
    return None


def _reserve(plan: Plan, builder: Builder, space: Allocator) -> None:
    """Leave weights that are on chip already where they are."""
    last = len(plan.slots) - 1
    for _kind, buffer in builder.transient:
        if buffer.pinned:
            space.reserve(buffer.address, buffer.size, 0, last, high=True, reads=buffer.reads)


def _early(segment: Segment, plan: Plan) -> bool:
    """Return whether tensors can be placed before it is known when LOADs bring them."""
    brought = [
        tensor_buffer
        for name, tensor_buffer in plan.tensor_buffers.items()
        if name in segment.sources
    ]
    return plan.policy.pinned_at is None and all(
        tensor_buffer.first == 0 for tensor_buffer in brought
    )


def _too_large(segment: Segment, plan: Plan, config: Config) -> list[OutOfScratchpad]:
    """Return the stages with a tile whose buffers alone do not fit with the tensors on chip."""
    spans, kinds = plan.order.spans, ("weights", "input tile", "output tile")
    tensor_buffers = list({id(item): item for item in plan.tensor_buffers.values()}.values())
    failures = []
    for index, (stage, (begin, end)) in enumerate(zip(segment.stages, spans, strict=True)):
        repeated = {stage.inputs[at] for at in getattr(stage, "repeated", ())}
        # What an array stage adds to its sums is as large as its results, which count anyway.
        streamed = stage.inputs[:1] if isinstance(stage, ArrayStage) else stage.inputs
        apart = len(set(streamed) - plan.tensor_buffers.keys() - repeated)
        staged = stage.output in plan.policy.spilled
        others = sum(
            tensor_buffer.size
            for tensor_buffer in tensor_buffers
            if tensor_buffer.first <= begin and end <= tensor_buffer.last
        )
        needs = plan.tilings[index].most_bytes(apart, staged=staged)
        for kind, size in zip(kinds, needs, strict=True):
            if others + size > config.spad_bytes:
                failures.append(OutOfScratchpad(slot=begin, stage=index, kind=kind, size=size))
                break
    return failures


def make_plan(
    segment: Segment, policy: ScheduleParams, config: Config
) -> Plan | tuple[OutOfScratchpad, ...]:
    """Return the plan of a segment under a policy, or why there is none: one reason a stage.

    Choices that make no difference, which a search often tries where memory is short, have the
    same plan.
    """
    cuts = _cuts(segment, policy, config)
    # What a policy says of tiles is in the tilings; addresses of weights are large, and used once.
    key = (tuple(cuts), replace(policy, limits=(), pinned_at=None))
    if policy.pinned_at is not None:
        return _planned(segment, policy, config, cuts)
    found = segment.plans.get(key) or segment.failures.get(key)
    if found is None:
        found = _planned(segment, policy, config, cuts)
        if isinstance(found, Plan):
            _remember(segment.plans, key, found, _REMEMBERED)
        else:
            _remember(segment.failures, key, found, _REMEMBERED_FAILURES)
    assert isinstance(found, Plan | tuple)
    return found


def different_plans(
    segment: Segment, policies: Iterable[ScheduleParams], config: Config
) -> Iterator[Plan]:
    """Yield the plans of policies that differ in limits alone, as they are asked for; none twice.

    Limits that make no difference have the same tilings.
    """
    known: set[tuple[Tiling, ...]] = set()
    for policy in policies:
        cuts = _cuts(segment, policy, config)
        if tuple(cuts) not in known:
            known.add(tuple(cuts))
            found = _planned(segment, policy, config, cuts)
            if isinstance(found, Plan):
                yield found


def _cuts(segment: Segment, policy: ScheduleParams, config: Config) -> list[Tiling]:
    """Return the tiling of each stage."""
    return [
        segment.tilings.of(
            stage, limits, config, None if policy.seed is None else policy.seed + index
        )
        for index, (stage, limits) in enumerate(zip(segment.stages, policy.limits, strict=True))
    ]


def _remember(known: dict[object, object], key: object, found: object, most: int) -> None:
    """Add to what is known, and forget the oldest of too many."""
    while len(known) >= most:
        del known[next(iter(known))]
    known[key] = found


def _planned(
    segment: Segment, policy: ScheduleParams, config: Config, cuts: list[Tiling]
) -> Plan | tuple[OutOfScratchpad, ...]:
    """Return the plan of tilings."""
    order = sequence(segment, cuts, policy.spilled, interleaved=not policy.plain)
    plan = Plan(policy, order, tensor_buffers_of(segment, policy, order, config), cuts)
    seed = policy.seed if policy.avoid_conflicts else None
    space = Allocator(config.spad_bytes, config, avoid_conflicts=policy.avoid_conflicts, seed=seed)
    early = _early(segment, plan)
    if early:
        failures = _place_tensors(plan, space)
        if not failures and len(order.slots) > _MANY:
            failures = _too_large(segment, plan, config)
        if failures:
            return tuple(failures)
    builder = Builder(segment, plan, config)
    for number, slot in enumerate(order.slots):
        builder.add(number, slot)
    builder.close()
    time_loads(segment, plan, config)
    for load in plan.loads:
        load.buffer.first = min(load.buffer.first, load.slot)
    if not early:
        if policy.pinned_at is not None:
            _reserve(plan, builder, space)
        failures = _place_tensors(plan, space)
        if failures:
            return tuple(failures)
    full = _place_pinned(plan, builder, space)
    if full is not None:
        return (full,)
    failures = place_others(segment, plan, builder.transient, space)
    plan.loads.sort(key=lambda load: load.slot)
    return tuple(failures) or plan
