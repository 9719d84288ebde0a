"""Segments: stages that the engine runs without the host, and their inputs and outputs."""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from matloom.arch.config import Config
from matloom.arch.isa import Region
from matloom.arch.machine import Machine
from matloom.schedule import tuning
from matloom.schedule.image import ProgramImage
from matloom.select.stage import Stage


@dataclass(frozen=True, kw_only=True)
class Place:
    """Address of a tensor in external memory."""

    region: Region
    offset: int


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Stages of one command buffer, with sizes and external addresses of their tensors.

    Members
    -------
    machine:
        The engine and its external memory.
    sources:
        Tensors that are in external memory before the segment starts.
    results:
        Tensors that must be in external memory when it ends.
    timestamps:
        The slot of each stage in the completion-time table, 0 for none.
    on_chip:
        Tensors that must stay on chip.
    views:
        Results of which only a range of bytes (half open) is stored; they lie whole on chip.
    image:
        The constants of earlier segments; a schedule appends its own to a copy.
    arena_start:
        First byte of region ARENA that is free for tensors.
    layouts:
        Alternative layouts in use (`choices.layouts`): the name of each, and its tensors.
    """

    stages: tuple[Stage, ...]
    machine: Machine
    sizes: dict[str, int] = field(repr=False)
    sources: dict[str, Place]
    results: dict[str, Place]
    timestamps: tuple[int, ...]
    on_chip: frozenset[str] = frozenset()
    views: dict[str, tuple[int, int]] = field(default_factory=dict)
    image: ProgramImage = field(default_factory=ProgramImage, repr=False, compare=False)
    arena_start: int = 0
    layouts: tuple[tuple[str, frozenset[str]], ...] = ()

    @property
    def config(self) -> Config:
        """The engine's configuration."""
        return self.machine.config

    @cached_property
    def followed_tensors(self) -> frozenset[str]:
        """Large results of layers with weights, read only by the next stage, an element-wise one.

        Their tiles can be interleaved with those of that stage.
        """
        reads = Counter(name for stage in self.stages for name in stage.inputs)
        kept = self.results.keys() | self.on_chip | self.views.keys()
        least = tuning.SHARED_PART * self.config.spad_bytes
        return frozenset(
            producer.output
            for producer, reader in pairwise(self.stages)
            if reader.is_elementwise
            and producer.loads_weights
            and not producer.output_layout.shared
            and self.sizes[producer.output] >= least
            and reads[producer.output] == 1
            and producer.output in set(reader.inputs) - reader.uneven_inputs - kept
        )

    @cached_property
    def alternating_tensors(self) -> frozenset[str]:
        """Results of depthwise layers whose only reader is the next stage, one row for each row.

        Both stages can alternate, some rows at a time.
        """
        reads = Counter(name for stage in self.stages for name in stage.inputs)
        kept = self.results.keys() | self.on_chip | self.views.keys()
        return frozenset(
            producer.output
            for producer, reader in pairwise(self.stages)
            if producer.is_depthwise
            and producer.makes_dense_bytes
            and producer.output_layout.row_stride == 1
            and reads[producer.output] == 1
            and reader.reads_rows_of(producer)
            and reader.reads_row_by_row
            and producer.grid.images == reader.grid.images
            and producer.output not in kept
        )

    def first_stages(self, count: int) -> "Segment":
        """Return a segment of the first `count` stages, to compare choices for the start.

        The last result goes to region OUTPUT. Return the segment itself if it has no more stages.
        """
        stages = self.stages[:count]
        if len(stages) == len(self.stages):
            return self
        results = {stages[-1].output: Place(region=Region.OUTPUT, offset=0)}
        return replace(self, stages=stages, results=results, image=ProgramImage())
