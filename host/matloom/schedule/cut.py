"""Cuts all stages of a segment into tiles, alike where one stage reads another's tiles."""

from dataclasses import replace
from typing import cast

from matloom.schedule.cache import Cache
from matloom.schedule.choices.turns import saved_cycles, turn_taking_limits
from matloom.schedule.params import FirstTiles, LastTiles, TilingParams
from matloom.schedule.plan import ScheduleParams
from matloom.schedule.segment import Segment
from matloom.schedule.tiling.stages import Tiling
from matloom.select.stage import ArrayStage


def cut_stages(segment: Segment, params: ScheduleParams, cache: Cache) -> list[Tiling]:
    """Return how each stage is cut into tiles, and its weights into LOADs, in order."""
    found: list[Tiling] = []
    handed = params.spilled & segment.followed_tensors
    turned = params.spilled & segment.alternating_tensors if params.turns else frozenset()

    def cut(index: int, limits: TilingParams) -> Tiling:
        """Return the tiles of stage `index` within `limits`, changed as its neighbours require."""
        stage, seed = segment.stages[index], None if params.seed is None else params.seed + index
        if not handed.isdisjoint(stage.inputs):
            limits = replace(limits, cuts=found[index - 1].flat_ends)
        if stage.output in handed:
            # Each tile has all channels.
            limits = replace(limits, first=FirstTiles.WHOLE, last=LastTiles.EVEN)
        if stage.shares_sums:
            limits = _whole_maps(limits)
        return cache.tilings.tiling_of(stage, limits, segment.config, seed)

    for index, limits in enumerate(params.limits):
        if index < len(found):
            continue
        found.append(cut(index, limits))
        if segment.stages[index].output in turned:
            both = params.limits[index : index + 2]
            apart = found[index], cut(index + 1, both[1])
            # Tensors of turns are made by the array.
            first, second = turn_taking_limits(cast(ArrayStage, segment.stages[index]), *both)
            turns = cut(index, first), cut(index + 1, second)
            found[index:] = turns if saved_cycles(segment, params, turns, apart) > 0 else apart
    return found


def _whole_maps(limits: TilingParams) -> TilingParams:
    """Return bounds on tile sizes with which each tile of a stage covers all output positions."""
    return TilingParams(
        weights=limits.weights,
        chunk_bytes=limits.chunk_bytes,
        tiles=1,
        params_apart=limits.params_apart,
    )
