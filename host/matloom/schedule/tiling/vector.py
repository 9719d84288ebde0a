"""Tiling of an element-wise stage: ranges of bytes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from matloom.arch.config import Config
from matloom.arch.softmax_cycles import rows_cycles
from matloom.cost import vector_cycles
from matloom.schedule import tuning
from matloom.schedule.params import UNBOUNDED, TilingParams
from matloom.schedule.tiling.base import BaseTiling
from matloom.schedule.tiling.byte_ranges import cut_vector
from matloom.schedule.tiling.tile_reads import InputRange, StagedResult
from matloom.schedule.tiling.tiles import VectorTile
from matloom.select.layout.base import Write
from matloom.select.stage import VectorStage


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorTiling(BaseTiling[VectorStage, VectorTile]):
    """Tiles of an element-wise stage, which has neither weights nor pending sums."""

    @classmethod
    def from_limits(
        cls, stage: VectorStage, limits: TilingParams, config: Config, seed: int | None
    ) -> "VectorTiling":
        """Cut a stage into tiles within `limits`, at random if there is a seed."""
        tiles = cut_vector(stage, limits, config, seed)
        return cls(stage=stage, limits=limits, config=config, tiles=tiles, chunks=[])

    @cached_property
    def cycles(self) -> list[int]:
        """Cycles that each tile keeps post-processing busy."""
        stage, config = self.stage, self.config
        size, posts = stage.element_bytes, len(stage.posts)
        if stage.is_softmax:
            vectors = -(-stage.period // config.columns)
            rows = [(tile.end - tile.start) // stage.period for tile in self.tiles]
            return [rows_cycles(each, vectors, config) for each in rows]
        return [
            vector_cycles(
                -(-(tile.end - tile.start) // (config.columns * size)) * posts,
                size * stage.input_ratio,
                config,
            )
            for tile in self.tiles
        ]

    @cached_property
    def input_ranges(self) -> list[InputRange]:
        """Part of each full-size input that is loaded for each tile.

        Inputs that repeat or have fewer channels are not included. If consecutive tiles share a
        LOAD, each has the range of all of them.
        """
        tiles, count = self.tiles, self.tiles_per_load
        found = []
        for first in range(0, len(tiles), count):
            group = tiles[first : first + count]
            found += [self._range(group[0].start, group[-1].end)] * len(group)
        return found

    @cached_property
    def tiles_per_load(self) -> int:
        """Number of tiles that share a LOAD; above 1 for small tiles in external memory."""
        if self.limits.tile_bytes >= UNBOUNDED or self.stage.period:
            return 1
        byte = len(self.stage.inputs) * self.stage.input_ratio + 1
        size = max(self.output_bytes)
        most = min(tuning.LOAD_BYTES, self.limits.tile_bytes // byte) // size
        # The first tile waits for a whole LOAD, as the next stage does for a whole tile.
        return max(1, min(most, len(self.tiles) // self.limits.tiles))

    def _narrow_range(self, number: int) -> InputRange:
        """Return the range that a tile reads of an input with fewer channels than the output."""
        tile, stage = self.tiles[number], self.stage
        first, end = tile.start // stage.period, tile.end // stage.period
        size = stage.narrow_bytes
        return InputRange(start=first * size, rows=1, width=(end - first) * size, pitch=0)

    def _shift_range(self, input_range: InputRange, start: int) -> InputRange:
        """Return the range `start` bytes further on in the tensor."""
        return input_range._replace(start=input_range.start + start) if start else input_range

    def _range(self, start: int, end: int) -> InputRange:
        """Return the input bytes for the output bytes from `start` to `end` (exclusive)."""
        ratio = self.stage.input_ratio
        return InputRange(start=start * ratio, rows=1, width=(end - start) * ratio, pitch=0)

    def reads(self, number: int) -> Iterator[tuple[str, InputRange]]:
        """Yield the name and the part of each input that a tile reads.

        It reads the whole of an input that repeats.
        """
        stage = self.stage
        for index, name in enumerate(stage.inputs):
            if name in stage.inputs[:index]:
                continue
            if index == stage.narrow:
                yield name, self._narrow_range(number)
            elif name in stage.repeated_inputs:
                yield name, self._range(0, stage.period)
            else:
                yield name, self._shift_range(self.input_ranges[number], stage.start(index))

    @cached_property
    def output_bytes(self) -> list[int]:
        """Number of bytes of output that each tile writes."""
        return [tile.end - tile.start for tile in self.tiles]

    @cached_property
    def completes(self) -> list[bool]:
        """Whether each tile completes its outputs; always true, because there is no reduction."""
        return [True] * len(self.tiles)

    @cached_property
    def pending(self) -> list[bool]:
        """Whether the accumulators hold unfinished sums after each tile, which they never do."""
        return [False] * len(self.tiles)

    @cached_property
    def finished(self) -> list[int]:
        """Number of leading output bytes that are complete after each tile."""
        return [tile.end for tile in self.tiles]

    @cached_property
    def flat_ends(self) -> tuple[int, ...]:
        """Output byte at which each tile ends."""
        return tuple(self.finished)

    @cached_property
    def chunk_bytes(self) -> list[int]:
        """Size in bytes of each weight chunk; empty, because there are no weights."""
        return []

    @cached_property
    def used_chunks(self) -> list[int | None]:
        """The weight chunk of each tile; None for all, because there are no weights."""
        return [None] * len(self.tiles)

    @cached_property
    def live_chunk_bytes(self) -> list[int]:
        """Size in bytes of each tile's weight chunks; 0 for all, because there are no weights."""
        return [0] * len(self.tiles)

    @cached_property
    def splits_reductions(self) -> bool:
        """Whether any tile has only part of the reduction steps; false, as there are none."""
        return False

    def staged_results(self, tiles: range) -> list[StagedResult]:
        """Return the results that a STORE reads from a tile's buffer: one row of bytes."""
        (number,) = tiles
        tile, size = self.tiles[number], self.output_bytes[number]
        return [StagedResult(Write(tile.start, size, size, size), offset=0, height=1, width=1)]
