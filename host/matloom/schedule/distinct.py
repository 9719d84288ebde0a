"""Leaves out choices that lead to the same tiles as earlier ones."""

from collections.abc import Iterable, Iterator

from matloom.schedule.cache import Cache
from matloom.schedule.cut import cut_stages
from matloom.schedule.plan import ScheduleParams
from matloom.schedule.segment import Segment
from matloom.schedule.tiling.stages import Tiling


def skip_repeated_tilings(
    segment: Segment, space: Iterable[ScheduleParams], cache: Cache
) -> Iterator[ScheduleParams]:
    """Yield those choices that cut stages into other tiles than all earlier ones in `space`.

    The choices may differ only in their bounds on tile sizes.
    """
    known: set[tuple[Tiling, ...]] = set()
    for params in space:
        cuts = tuple(cut_stages(segment, params, cache))
        if cuts not in known:
            known.add(cuts)
            yield params
