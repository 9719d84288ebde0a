"""Assigns external addresses to the tensors and weights of a plan."""

from matloom.arch.config import Config
from matloom.arch.isa import Region
from matloom.schedule.image import ProgramImage
from matloom.schedule.memory.allocator import Allocator
from matloom.schedule.plan import PARAMS, TABLE, Plan
from matloom.schedule.segment import Place, Segment

_ARENA_LIMIT = 2**31


def arena_places(
    segment: Segment, plan: Plan, config: Config, arena_start: int
) -> tuple[dict[str, Place], int]:
    """Return the external addresses of tensors, and the end of the bytes in use in region ARENA.

    Sources and results have addresses already. Other spilled tensors get addresses in ARENA from
    `arena_start` on, except for those that are handed over on chip. A tensor is live from the first
    slot of a stage that makes or reads it to the last; slots of different stages may be
    interleaved.
    """
    space = Allocator(_ARENA_LIMIT, config, avoid_conflicts=False)
    places = dict(segment.sources)
    uses = _slots_of(segment, plan)
    for name in sorted(plan.params.spilled, key=lambda item: (-segment.sizes[item], item)):
        if name in segment.sources or name in segment.results or name in plan.order.handed_tensors:
            continue
        first, last = uses[name]
        offset = space.place(segment.sizes[name], first, last, high=False)
        assert offset is not None
        places[name] = Place(region=Region.ARENA, offset=arena_start + offset)
    return {**places, **segment.results}, arena_start + space.peak


def _slots_of(segment: Segment, plan: Plan) -> dict[str, tuple[int, int]]:
    """Return the first and last slot (place in the order) of stages that use each tensor."""
    uses: dict[str, tuple[int, int]] = {}
    for stage, (begin, end) in zip(segment.stages, plan.order.spans, strict=True):
        for name in (*stage.inputs, stage.output):
            first, last = uses.get(name, (begin, end))
            uses[name] = (min(first, begin), max(last, end))
    return uses


def chunk_offsets(segment: Segment, plan: Plan, image: ProgramImage) -> dict[tuple[int, int], int]:
    """Append weights, parameters and tables to an image; return each chunk's offset there.

    A chunk is the part of a stage's weights that one LOAD brings. The key is the index of the stage
    and the number of its chunk.
    """
    offsets = {}
    for index, stage in enumerate(segment.stages):
        if stage.table is not None:
            offsets[index, TABLE] = image.add(stage.table.tobytes() + stage.missing)
        tiling = plan.tilings[index]
        for number in range(len(tiling.chunks)):
            offsets[index, number] = image.add(tiling.chunk_data(number))
        if index in plan.param_buffers:
            offsets[index, PARAMS] = image.add(tiling.params_data())
    return offsets
