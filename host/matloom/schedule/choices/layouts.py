"""Layouts of tensors on chip that a search tries instead of dense ones."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from matloom.arch.config import Config
from matloom.schedule.segment import Segment
from matloom.select.layout.row_bands import in_bands
from matloom.select.layout.space_to_depth import in_blocks
from matloom.select.stage import Stage

__all__ = ["LAYOUTS", "Layout"]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Another layout of some tensors.

    Members
    -------
    name, without:
        What it is called, and what stays without it.
    rewrite:
        Returns stages of which some make and read tensors in this layout, and the sizes of these
        tensors, given those that only one stage makes and only one reads.
    """

    name: str
    without: str
    rewrite: Callable[
        [Sequence[Stage], Collection[str], Config], tuple[list[Stage], dict[str, int]]
    ]

    def make(self, segment: Segment) -> Segment | None:
        """Return the segment with this layout wherever it can be; None if it cannot."""
        stages, sizes = self.rewrite(segment.stages, _private(segment), segment.config)
        if not sizes:
            return None
        return replace(
            segment,
            stages=tuple(stages),
            sizes={**segment.sizes, **sizes},
            on_chip=segment.on_chip | sizes.keys(),
        )


def _private(segment: Segment) -> frozenset[str]:
    """Return the tensors that one stage makes and one reads, and that do not leave the segment."""
    made = Counter(stage.output for stage in segment.stages)
    read = Counter(name for stage in segment.stages for name in stage.inputs)
    outer = segment.sources.keys() | segment.results.keys()
    return frozenset(name for name in made if made[name] == read[name] == 1 and name not in outer)


#: Each is tried on the best so far: what reads bands may make blocks.
LAYOUTS = (
    Layout(name="2 x 2 blocks", without="rows", rewrite=in_blocks),
    Layout(name="bands of rows", without="whole images", rewrite=in_bands),
)
