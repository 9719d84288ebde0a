"""Caches tilings: the ways in which stages are cut into tiles."""

import itertools
from collections.abc import Callable
from typing import Any

from matloom.arch.config import Config
from matloom.schedule.params import TilingParams, WeightsLifetime
from matloom.schedule.tiling.array import ArrayTiling
from matloom.schedule.tiling.vector import VectorTiling
from matloom.select.stage import ArrayStage, Stage, VectorStage

#: Maximum number of cached tilings of a stage: enough for a search, which changes few limits at a
#: time.
_MAX_CACHED_TILINGS = 32

Tiling = ArrayTiling | VectorTiling

_Key = tuple[TilingParams, Config, int | None]

#: Tiling class of each kind of stage.
_KINDS: dict[type[Stage], Callable[[Any, TilingParams, Config, int | None], Tiling]] = {
    ArrayStage: ArrayTiling.from_limits,
    VectorStage: VectorTiling.from_limits,
}


class TilingCache:
    """Cache of the most recent tilings of each stage."""

    def __init__(self) -> None:
        self._known: dict[Stage, dict[_Key, Tiling]] = {}

    def tiling_of(
        self, stage: Stage, limits: TilingParams, config: Config, seed: int | None
    ) -> Tiling:
        """Return the tiling of a stage within `limits`, at random if there is a seed.

        Limits that lead to the same tiles share one tiling.
        """
        known = self._known.setdefault(stage, {})
        key = (limits, config, seed)
        found = known.pop(key, None)
        if found is None:
            tiling = _KINDS[type(stage)](stage, limits, config, seed)
            found = next(
                (other for other in known.values() if _are_interchangeable(tiling, other)), tiling
            )
        known[key] = found
        while len(known) > _MAX_CACHED_TILINGS:
            del known[next(iter(known))]
        return found


def _are_interchangeable(first: Tiling, second: Tiling) -> bool:
    """Return whether two tilings of a stage lead to the same plan."""
    left, right = first.limits, second.limits
    return (
        left.params_apart == right.params_apart
        and first.config == second.config
        and first.chunks == second.chunks
        and first.tiles == second.tiles
        and (left.weights is right.weights or _loads_once(first, second))
        and (left.tile_bytes == right.tile_bytes or not first.splits_reductions)
    )


def _loads_once(first: Tiling, second: Tiling) -> bool:
    """Return whether two tilings with the same tiles both load all weights just once.

    False for resident weights, because plans must keep that choice (`search`).
    """
    if WeightsLifetime.RESIDENT in (first.limits.weights, second.limits.weights):
        return False
    used = first.used_chunks
    return len([chunk for chunk, _same_chunk in itertools.groupby(used)]) == len(set(used))
