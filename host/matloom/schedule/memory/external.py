"""Addresses of a plan's tensors and weights in external memory."""

from matloom.arch.config import Config
from matloom.arch.isa import Region
from matloom.schedule.image import Image
from matloom.schedule.memory.allocator import Allocator
from matloom.schedule.plan import PARAMS, TABLE, Plan
from matloom.schedule.segment import Place, Segment

__all__ = ["arena_places", "chunk_offsets"]

_ARENA_LIMIT = 2**31


def arena_places(
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


def _slots_of(segment: Segment, plan: Plan) -> dict[str, tuple[int, int]]:
    """Return the first and the last slot of the schedule that uses each tensor."""
    uses: dict[str, tuple[int, int]] = {}
    for stage, (begin, end) in zip(segment.stages, plan.order.spans, strict=True):
        for name in (*stage.inputs, stage.output):
            first, last = uses.get(name, (begin, end))
            uses[name] = (min(first, begin), max(last, end))
    return uses


def chunk_offsets(segment: Segment, plan: Plan, image: Image) -> dict[tuple[int, int], int]:
    """Put weights, parameters and tables into an image; return the offset of each chunk there."""
    offsets = {}
    for index, stage in enumerate(segment.stages):
        if stage.table is not None:
            offsets[index, TABLE] = image.add(stage.table.tobytes())
        tiling = plan.tilings[index]
        for number in range(len(tiling.chunks)):
            offsets[index, number] = image.add(tiling.chunk_data(number))
        if index in plan.params:
            offsets[index, PARAMS] = image.add(tiling.params_data())
    return offsets
