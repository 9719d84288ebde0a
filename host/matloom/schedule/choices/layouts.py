"""Alternative layouts of tensors on chip that a search tries."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from matloom.arch.config import Config
from matloom.schedule.choices.channel_groups import group_channels, tensors_to_group
from matloom.schedule.choices.fused_layers import fuse_layers, maps_to_fuse
from matloom.schedule.scheduled import Scheduled
from matloom.schedule.segment import Segment
from matloom.select.layout.band_chains import chain_bands
from matloom.select.layout.banded_layers import band_depthwise_layers
from matloom.select.layout.space_to_depth import use_space_to_depth
from matloom.select.stage import Stage

#: Returns a segment with another layout of some tensors, and the tensors that have it. Its second
#: argument is the tensors that may have it: each has one producer and one consumer in the segment.
_Rewrite = Callable[[Segment, Collection[str]], tuple[Segment, Collection[str]]]
#: Returns stages with another layout of some tensors, and the sizes of these tensors in bytes. Its
#: second argument is the tensors that may have it.
_StageRewrite = Callable[
    [Sequence[Stage], Collection[str], Config], tuple[list[Stage], dict[str, int]]
]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """An alternative layout on chip of some tensors, and the rewrite of stages that makes it.

    Members
    -------
    name, without:
        Its name, and the name of the layout that it replaces.
    rewrite:
        Returns a segment with this layout, and the tensors that have it.
    choose:
        Returns the tensors of a schedule for which this layout is worth a try; by default, all.
    """

    name: str
    without: str
    rewrite: _Rewrite
    choose: Callable[[Scheduled, Collection[str]], frozenset[str]] | None = None

    def make(self, segment: Segment, only: frozenset[str] | None = None) -> Segment | None:
        """Return the segment with this layout for tensors in `only`; None if it applies to none.

        `only` names the tensors that may have it.
        """
        private = _internal_tensors(segment)
        found, tensors = self.rewrite(segment, private if only is None else private & only)
        if not tensors:
            return None
        return replace(found, layouts=(*segment.layouts, (self.name, frozenset(tensors))))

    def choice(self, scheduled: Scheduled) -> frozenset[str] | None:
        """Return the tensors of a schedule that should have this layout.

        None stands for all tensors that can have it.
        """
        return self.choose and self.choose(scheduled, _internal_tensors(scheduled.segment))


def _internal_tensors(segment: Segment) -> frozenset[str]:
    """Return the tensors that one stage of the segment makes and one other stage reads."""
    producers = Counter(stage.output for stage in segment.stages)
    read = Counter(name for stage in segment.stages for name in stage.inputs)
    outer = segment.sources.keys() | segment.results.keys()
    return frozenset(
        name for name in producers if producers[name] == read[name] == 1 and name not in outer
    )


def _keep_on_chip(rewrite: _StageRewrite) -> _Rewrite:
    """Turn a rewrite of stages into one of segments, whose changed tensors must stay on chip."""

    def rewrite_segment(
        segment: Segment, allowed: Collection[str]
    ) -> tuple[Segment, Collection[str]]:
        """Return the segment with rewritten stages, and the names of the changed tensors."""
        stages, sizes = rewrite(segment.stages, allowed, segment.config)
        found = replace(
            segment,
            stages=tuple(stages),
            sizes={**segment.sizes, **sizes},
            on_chip=segment.on_chip | sizes.keys(),
        )
        return found, sizes.keys()

    return rewrite_segment


def _chain_bands(segment: Segment, allowed: Collection[str]) -> tuple[Segment, Collection[str]]:
    """Return the segment with chains of narrow layers on bands of rows, and the tensors in bands.

    Such a tensor has the upper and lower half of its rows side by side, as channels. `allowed`, the
    tensors with one consumer, is ignored: tensors in bands may have several.
    """
    outer = segment.sources.keys() | segment.results.keys() | segment.views.keys()
    inner = {stage.output for stage in segment.stages} - outer - segment.on_chip
    return _keep_on_chip(chain_bands)(segment, inner)


#: Each layout is tried on top of the best so far: a stage that reads bands may write blocks.
LAYOUTS: tuple[Layout, ...] = (
    Layout(name="fused layers", without="whole maps", rewrite=fuse_layers, choose=maps_to_fuse),
    Layout(
        name="channels in turn",
        without="all channels",
        rewrite=group_channels,
        choose=tensors_to_group,
    ),
    Layout(name="2 x 2 blocks", without="rows", rewrite=_keep_on_chip(use_space_to_depth)),
    Layout(
        name="bands of rows", without="whole images", rewrite=_keep_on_chip(band_depthwise_layers)
    ),
    Layout(name="chains of bands", without="whole images", rewrite=_chain_bands),
)
