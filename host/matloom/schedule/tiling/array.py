"""Tiling of an array stage: rectangles of outputs, and chunks of weights."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from matloom.arch.config import Config
from matloom.cost import exec_cycles
from matloom.schedule.params import TilingParams, WeightsLifetime
from matloom.schedule.tiling.array_ranges import addend_range, shares_channels, tile_range
from matloom.schedule.tiling.base import BaseTiling
from matloom.schedule.tiling.cutting import chunks, cut_array
from matloom.schedule.tiling.joint_stores import JointStores, stored_together, tiles_by_strip
from matloom.schedule.tiling.split_k import unfinished_sums
from matloom.schedule.tiling.tile_reads import InputRange, Panel, StagedResult
from matloom.schedule.tiling.tiles import ArrayTile, input_box, walked_steps
from matloom.select.layout.base import Write
from matloom.select.stage import ArrayStage

#: Bytes up to which the last rows are stored at once: parts would take as long.
_FEW_BYTES = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class ArrayTiling(BaseTiling[ArrayStage, ArrayTile]):
    """Tiles of a stage that uses the array, and the chunks in which its weights are loaded."""

    @classmethod
    def from_limits(
        cls, stage: ArrayStage, limits: TilingParams, config: Config, seed: int | None
    ) -> "ArrayTiling":
        """Cut a stage into tiles within `limits`, at random if there is a seed."""
        return cls(
            stage=stage,
            limits=limits,
            config=config,
            tiles=cut_array(stage, limits, config, seed),
            chunks=chunks(stage, limits, config),
        )

    @cached_property
    def cycles(self) -> list[int]:
        """Cycles that each tile keeps the array or POST busy, whichever takes longer."""
        stage = self.stage
        accumulators = stage.accumulators_per_block * stage.output_layout.limbs
        accumulators *= stage.sums_per_output
        accumulators += stage.is_limited
        return [
            exec_cycles(
                stage.loop_nest.vectors_per_step(tile.height, tile.end_x - tile.first_x),
                walked_steps(stage, tile),
                tile.entries * accumulators,
                self.config,
                weights_fixed=stage.loop_nest.weights_fixed,
            )
            for tile in self.tiles
        ]

    @cached_property
    def input_ranges(self) -> list[InputRange]:
        """Part of the first input for each tile: for all reduction steps if that fits the limit."""
        return [self._input_range(tile) for tile in self.tiles]

    @cached_property
    def addend_ranges(self) -> list[InputRange | None]:
        """Part of the added tensor for each tile; None if that lacks the tile's channels."""
        return [addend_range(self.stage, tile) for tile in self.tiles]

    def reads(self, number: int) -> Iterator[tuple[str, InputRange]]:
        """Yield name and part of the input, and of the added tensor if the tile completes sums."""
        yield self.stage.inputs[0], self.input_ranges[number]
        addend = self.stage.addend
        if addend is not None and self.completes[number]:
            # After the input, because POST needs the addend only when EXEC has finished.
            part = self.addend_ranges[number]
            if part is not None:
                yield addend, part

    @cached_property
    def output_bytes(self) -> list[int]:
        """Number of bytes of output that each tile writes."""
        grid, limbs = self.stage.grid, self.stage.output_layout.limbs
        return [limbs * tile.positions * grid.bytes_in(tile) for tile in self.tiles]

    @cached_property
    def completes(self) -> list[bool]:
        """Whether each tile completes the reductions of its outputs."""
        steps, unfinished = self.stage.loop_nest.steps, self.stage.is_unfinished
        return [tile.end_step == steps and not unfinished for tile in self.tiles]

    @cached_property
    def pending(self) -> list[bool]:
        """Whether the accumulators hold unfinished sums after each tile."""
        return unfinished_sums(self.tiles, self.completes)

    @cached_property
    def finished(self) -> list[int]:
        """Number of leading output bytes that are complete after each tile; 0 amid a reduction."""
        pairs = zip(self.tiles, self.completes, strict=True)
        return [self._leading_complete_bytes(tile) if complete else 0 for tile, complete in pairs]

    @cached_property
    def flat_ends(self) -> tuple[int, ...]:
        """Output byte at which each tile ends; empty unless tiles make bytes in ascending order."""
        grid, layout = self.stage.grid, self.stage.output_layout
        if not (layout.contiguous and layout.limbs == 1 and all(self.completes)):
            return ()
        end, ends = 0, []
        for tile, size in zip(self.tiles, self.output_bytes, strict=True):
            begins = layout.byte(tile.image, tile.first_row, tile.first_x, tile.first_block) == end
            one_run = tile.height == 1 or tile.end_x - tile.first_x == grid.width
            whole = tile.end_block - tile.first_block == grid.blocks
            if not (begins and one_run and whole and tile.row_step == 1):
                return ()
            end += size
            ends.append(end)
        return tuple(ends)

    @cached_property
    def tiles_of_strip(self) -> list[range]:
        """For each tile, the range of tiles of the same strip of rows; empty without strips."""
        return tiles_by_strip(self.tiles) if all(self.completes) else []

    def strip_start_byte(self, number: int) -> int:
        """Return the first output byte of the strip of rows that a tile belongs to."""
        tile = self.tiles[number]
        assert tile.strip is not None
        return self.stage.output_layout.byte(tile.image, tile.strip[0], 0, 0)

    def _leading_complete_bytes(self, tile: ArrayTile) -> int:
        """Return the number of leading output bytes that are complete after a tile, or 0."""
        grid, layout = self.stage.grid, self.stage.output_layout
        missing = (grid.width - tile.end_x) * grid.position_bytes
        dense = layout.contiguous and tile.height == len(self.stage.regions) == 1
        if tile.end_block < grid.blocks or (missing and not dense):
            return 0
        return layout.complete_bytes(tile) - missing

    @cached_property
    def chunk_bytes(self) -> list[int]:
        """Size in bytes of each chunk (weights of one LOAD), with its parameters, if any."""
        stage = self.stage
        sizes = []
        for chunk in self.chunks:
            blocks = chunk.end_block - chunk.first_block
            size = stage.weights.chunk_bytes(chunk.blocks, chunk.steps)
            if stage.computed is None and stage.loop_nest.weights_fixed:
                size = stage.weight_tile_bytes
            last = chunk.end_step == stage.loop_nest.steps
            params = blocks * int(stage.params.shape[1])
            sizes.append(size + (params if last and not self.limits.params_apart else 0))
        return sizes

    def chunk_data(self, number: int) -> bytes:
        """Return the bytes of a chunk: its weight tiles, block by block, then its parameters.

        Only chunks with the last steps have parameters, unless these are loaded separately.
        """
        stage, chunk = self.stage, self.chunks[number]
        first, end = chunk.first_block, chunk.end_block
        last = first + 1 if stage.loop_nest.weights_fixed else end
        steps = slice(chunk.first_step, chunk.end_step)
        weights = stage.weights.chunk(slice(first, last), steps)
        if self.limits.params_apart or chunk.end_step < stage.steps:
            return weights
        return weights + self._params(first, end)

    def params_data(self) -> bytes:
        """Return the parameters of all blocks of output channels."""
        return self._params(0, self.stage.grid.blocks)

    def _params(self, first: int, end: int) -> bytes:
        """Return the parameters of the channel blocks from `first` to `end` (exclusive).

        If each tile takes two POSTs, the parameters of the first POST for all blocks come first.
        """
        kinds = np.split(self.stage.params[first:end], self.stage.param_sets, axis=1)
        return np.concatenate(kinds).tobytes()

    @cached_property
    def used_chunks(self) -> list[int | None]:
        """Index of the weight chunk (from one LOAD) of each tile; None if it has no bytes."""
        return [tile.chunk if self.chunk_bytes[tile.chunk] else None for tile in self.tiles]

    @property
    def param_bytes(self) -> int:
        """Size in bytes of all parameters."""
        return int(self.stage.params.nbytes)

    @cached_property
    def panels(self) -> list[Panel | None]:
        """For each tile, the panel (part of the reduction) that it adds; None for most tiles.

        Only a prologue, the start of a matrix product whose operands still arrive, has panels.
        """
        return [
            Panel(tile.first_step, tile.end_row) if tile.prologue_sums else None
            for tile in self.tiles
        ]

    def panel_rows(self, number: int, first_row: int) -> InputRange:
        """Return the input that a first tile (of a prologue) reads, from row `first_row` on."""
        tile = self.tiles[number]._replace(first_row=first_row)
        box, pitch = input_box(self.stage, tile, self.config), self.stage.input_layout.row_bytes
        rows, width = box.high - box.low, box.right - box.left
        return InputRange(start=box.low * pitch + box.left, rows=rows, width=width, pitch=pitch)

    def first_weight_bytes(self, number: int) -> int:
        """Return how many bytes of its weights must have been loaded before a tile can start."""
        tile = self.tiles[number]
        if tile.prologue_sums and not self.completes[number]:
            steps = tile.end_step - tile.first_step
            return steps * self.stage.weight_tile_bytes * tile.end_block
        return self.chunk_bytes[tile.chunk]

    @cached_property
    def live_chunk_bytes(self) -> list[int]:
        """Size in bytes of the weights that must be on chip together while each tile runs."""
        used = [tile.chunk for tile in self.tiles]
        if self.limits.weights is WeightsLifetime.STREAMED:
            return [self.chunk_bytes[chunk] for chunk in used]
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for number, chunk in enumerate(used):
            first.setdefault(chunk, number)
            last[chunk] = number
        change = [0] * (len(used) + 1)
        for chunk, number in first.items():
            change[number] += self.chunk_bytes[chunk]
            change[last[chunk] + 1] -= self.chunk_bytes[chunk]
        return list(itertools.accumulate(change[:-1]))

    @cached_property
    def splits_reductions(self) -> bool:
        """Whether any tile has only some reduction steps; `limits` then affect what it reads."""
        every = (0, self.stage.loop_nest.steps)
        return any((tile.first_step, tile.end_step) != every for tile in self.tiles)

    def stored_together(self, number: int) -> range:
        """Return the tiles, itself included, that share a buffer and a STORE with tile `number`."""
        return self._store_groups[number]

    @cached_property
    def _store_groups(self) -> list[range]:
        """For each tile, the range of tiles whose results are stored with its own."""
        return stored_together(self.stage, self.tiles, self.output_bytes, self.config)

    def staged_results(self, tiles: range) -> list[StagedResult]:
        """Return the regions that STOREs read from the buffer of some tiles' results, by limb."""
        return self._joint_stores.results(tiles)

    def staged_writes(self, number: int, tiles: range) -> Iterator[Write]:
        """Yield where a tile writes in the results buffer that `tiles` share, for each limb."""
        return self._joint_stores.writes(number, tiles)

    @cached_property
    def _joint_stores(self) -> JointStores:
        """Layout of results in buffers that several tiles share."""
        return JointStores(self.stage, self.tiles)

    def ends_in_blocks(self, number: int) -> bool:
        """Return whether a tile makes some channels of the last rows of a contiguous tensor."""
        tile, last = self.tiles[number], self.tiles[-1]
        if not self._ends_in_blocks or not self.completes[number]:
            return False
        rows = (last.image, last.first_row, last.end_row)
        return (tile.image, tile.first_row, tile.end_row) == rows

    @cached_property
    def _ends_in_blocks(self) -> bool:
        """Whether the last tile makes only the last channels (output blocks) of its rows."""
        last, grid, layout = self.tiles[-1], self.stage.grid, self.stage.output_layout
        whole = last.first_x == 0 and last.end_x == grid.width
        contiguous = layout.contiguous and layout.limbs == 1
        several = 0 < last.first_block < last.end_block == grid.blocks
        return (
            whole and contiguous and several and last.positions * grid.position_bytes > _FEW_BYTES
        )

    def blocks_from(self, number: int, first: int) -> tuple[InputRange, int]:
        """Return the output bytes of a tile from channel block `first` on, and its end block."""
        tile, layout = self.tiles[number]._replace(first_block=first), self.stage.output_layout
        ((start, pitch, _row_step, width, *_),) = layout.writes(tile)
        part = InputRange(start=start, rows=tile.positions, width=width, pitch=pitch)
        return part, tile.end_block

    @cached_property
    def _shares_channels(self) -> bool:
        """Whether tiles of the same positions share one LOAD of all input channels."""
        return shares_channels(self.stage, self.tiles, self.config)

    def _input_range(self, tile: ArrayTile) -> InputRange:
        """Return the part of the first input that is loaded for a tile."""
        if self._shares_channels:
            tile = tile._replace(first_block=0, end_block=self.stage.grid.blocks)
        return tile_range(self.stage, tile, self.limits.tile_bytes, self.config)
