"""Alternative layouts of tensors on chip that a search tries."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from matloom.arch.config import Config
from matloom.schedule.choices.fused_layers import fuse_layers, maps_to_fuse
from matloom.schedule.scheduled import Scheduled
from matloom.schedule.segment import Segment
from matloom.select.layout.row_bands import in_bands
from matloom.select.layout.space_to_depth import in_blocks
from matloom.select.stage import Stage


@dataclass(frozen=True, kw_only=True)
class Layout:
    """An alternative layout of some tensors.

    Members
    -------
    name, without:
        Its name, and the name of the layout that it replaces.
    rewrite:
        Returns the stages rewritten to use this layout, and the new sizes of tensors. It takes the
        tensors that have a single producer and a single consumer.
    """

    name: str
    without: str
    rewrite: Callable[
        [Sequence[Stage], Collection[str], Config], tuple[list[Stage], dict[str, int]]
    ]

    def make(self, segment: Segment, only: frozenset[str] | None = None) -> Segment | None:
        """Return the segment with this layout wherever it applies; None if it applies nowhere.

        `only` names the tensors that may have it.
        """
        private = _private(segment)
        allowed = private if only is None else private & only
        stages, sizes = self.rewrite(segment.stages, allowed, segment.config)
        if not sizes:
            return None
        return replace(
            segment,
            stages=tuple(stages),
            sizes={**segment.sizes, **sizes},
            on_chip=segment.on_chip | sizes.keys(),
            layouts=(*segment.layouts, (self.name, frozenset(sizes))),
        )


def _private(segment: Segment) -> frozenset[str]:
    """Return the tensors with one producer and one consumer that stay within the segment."""
    producers = Counter(stage.output for stage in segment.stages)
    read = Counter(name for stage in segment.stages for name in stage.inputs)
    outer = segment.sources.keys() | segment.results.keys()
    return frozenset(
        name for name in producers if producers[name] == read[name] == 1 and name not in outer
    )


class FusedLayers:
    """Fused layers around large maps, with the interface of a `Layout`."""

    name, without = "fused layers", "whole maps"

    def make(self, segment: Segment, only: frozenset[str] | None = None) -> Segment | None:
        """Return the segment with fused layers around maps, all or some; None if none may be."""
        private = _private(segment)
        found = fuse_layers(segment, private if only is None else private & only)
        if found is None:
            return None
        tensors = frozenset(segment.sizes.keys() - found.sizes.keys())
        return replace(found, layouts=(*segment.layouts, (self.name, tensors)))

    def faster_maps(self, scheduled: Scheduled) -> frozenset[str]:
        """Return the maps of a schedule around which fused layers are estimated to be faster."""
        return maps_to_fuse(scheduled.segment, _private(scheduled.segment), scheduled)


#: Each layout is tried on top of the best so far: a stage that reads bands may write blocks.
LAYOUTS: tuple[Layout | FusedLayers, ...] = (
    FusedLayers(),
    Layout(name="2 x 2 blocks", without="rows", rewrite=in_blocks),
    Layout(name="bands of rows", without="whole images", rewrite=in_bands),
)
