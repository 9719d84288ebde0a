"""A stage cut under limits, with what planning asks of each tile: remembered between plans."""

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from matloom.arch.config import Config
from matloom.cost import exec_cycles, vector_cycles
from matloom.schedule import tuning
from matloom.schedule.cutting import chunks, cut
from matloom.schedule.params import TilingParams, Weights
from matloom.schedule.tiles import ArrayTile, Chunk, Tile, input_box
from matloom.select.exec_steps import Box
from matloom.select.stage import ArrayStage, Stage, VectorStage

__all__ = ["InputRange", "Tiling", "Tilings", "flat_input_range"]

#: Tilings of a stage that are remembered: those of a search, which changes few limits at a time.
_MOST = 32


_Key = tuple[TilingParams, Config, int | None]


class InputRange(NamedTuple):
    """The part of a tensor that a tile reads: rows of `width` bytes, `pitch` bytes apart."""

    start: int
    rows: int
    width: int
    pitch: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.rows * self.width

    @property
    def end(self) -> int:
        """Byte of the tensor after the last."""
        return self.start + (self.rows - 1) * self.pitch + self.width


@dataclass(frozen=True, kw_only=True, eq=False)
class Tiling:
    """Tiles of a stage in order, its chunks of weights, and lists with an entry for each tile.

    Nothing of it depends on the other stages of a segment, but `groups`, where `sequence` remembers
    the order of its tiles with those of the stages that follow closely.
    """

    stage: Stage
    limits: TilingParams
    config: Config
    tiles: list[Tile]
    chunks: list[Chunk]
    needs: dict[tuple[int, bool], tuple[int, int, int]] = field(default_factory=dict)
    groups: dict[tuple[object, ...], object] = field(default_factory=dict)

    @cached_property
    def cycles(self) -> list[int]:
        """Cycles that each tile keeps the array, or post-processing, busy."""
        return [_cycles(self.stage, tile, self.config) for tile in self.tiles]

    @cached_property
    def input_ranges(self) -> list[InputRange]:
        """What each tile reads of an input; all steps of the same outputs, where that fits."""
        if isinstance(self.stage, VectorStage):
            stage = self.stage
            return [
                flat_input_range(stage, tile.start, tile.end)
                for tile in self.tiles
                if not isinstance(tile, ArrayTile)
            ]
        return [
            self._input_range(self.stage, tile)
            for tile in self.tiles
            if isinstance(tile, ArrayTile)
        ]

    @cached_property
    def addend_ranges(self) -> list[InputRange]:
        """What each tile adds to its sums of the second input of an array stage: its outputs."""
        assert isinstance(self.stage, ArrayStage)
        return [
            _addend_range(self.stage, tile) for tile in self.tiles if isinstance(tile, ArrayTile)
        ]

    @cached_property
    def made_bytes(self) -> list[int]:
        """Bytes that each tile makes."""
        stage = self.stage
        sizes = []
        for tile in self.tiles:
            if isinstance(tile, ArrayTile):
                assert isinstance(stage, ArrayStage)
                sizes.append(stage.output_layout.limbs * tile.positions * stage.grid.bytes_in(tile))
            else:
                sizes.append(tile.end - tile.start)
        return sizes

    @cached_property
    def chunk_bytes(self) -> list[int]:
        """Bytes of each chunk: its weight tiles, and parameters where it is the last."""
        stage, config = self.stage, self.config
        assert isinstance(stage, ArrayStage)
        sizes = []
        for chunk in self.chunks:
            blocks = chunk.end_block - chunk.first_block
            size = (chunk.end_step - chunk.first_step) * blocks * config.tile_bytes
            if stage.loop_nest.weights_fixed:
                size = config.tile_bytes
            last = chunk.end_step == stage.loop_nest.steps
            params = blocks * int(stage.params.shape[1])
            sizes.append(size + (params if last and not self.limits.params_apart else 0))
        return sizes

    @cached_property
    def live_chunk_bytes(self) -> list[int]:
        """Bytes of the chunks that are on chip while each tile runs, at least."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        used = [tile.chunk if isinstance(tile, ArrayTile) else None for tile in self.tiles]
        for number, chunk in enumerate(used):
            if chunk is not None:
                first.setdefault(chunk, number)
                last[chunk] = number
        if self.limits.weights is Weights.STREAMED:
            return [0 if chunk is None else self.chunk_bytes[chunk] for chunk in used]
        change = [0] * (len(used) + 1)
        for chunk, number in first.items():
            change[number] += self.chunk_bytes[chunk]
            change[last[chunk] + 1] -= self.chunk_bytes[chunk]
        return list(itertools.accumulate(change[:-1]))

    def most_bytes(self, apart: int, *, staged: bool) -> tuple[int, int, int]:
        """Return the most bytes that some tile needs: of weights, with inputs, with outputs.

        `apart` inputs come tile by tile; outputs lie by themselves where they are `staged`,
        those of the tile before as well.
        """
        key = (apart, staged)
        if key not in self.needs:
            self.needs[key] = self._most_bytes(*key)
        return self.needs[key]

    def _most_bytes(self, apart: int, staged: bool) -> tuple[int, int, int]:
        most, weights = (0, 0, 0), self.live_chunk_bytes
        steps = self.stage.loop_nest.steps if isinstance(self.stage, ArrayStage) else 0
        before = 0
        for number, tile in enumerate(self.tiles):
            made = self.made_bytes[number] if staged else 0
            if isinstance(tile, ArrayTile) and tile.end_step < steps:
                made = 0
            inputs = weights[number] + apart * self.input_ranges[number].size
            most = max(most, (inputs + made + before, inputs, weights[number]))
            before = made
        return most[2], most[1], most[0]

    def _input_range(self, stage: ArrayStage, tile: ArrayTile) -> InputRange:
        whole = input_box(stage, tile, self.config)
        if (tile.first_step, tile.end_step) != (0, stage.loop_nest.steps):
            every = tile._replace(first_step=0, end_step=stage.loop_nest.steps)
            box = input_box(stage, every, self.config)
            whole = box if box.size <= self.limits.tile_bytes else whole
        return _array_input_range(stage, tile, whole)


def flat_input_range(stage: VectorStage, start: int, end: int) -> InputRange:
    """Return what of an input makes a range of bytes of the output."""
    ratio = stage.input_ratio
    return InputRange(start=start * ratio, rows=1, width=(end - start) * ratio, pitch=0)


def _array_input_range(stage: ArrayStage, tile: ArrayTile, box: Box) -> InputRange:
    """Return the rows of a box in a tensor: whole rows in one piece unless narrow ones save."""
    pitch = stage.input_layout.row_bytes
    start = (tile.image * stage.input_layout.rows + box.low) * pitch
    rows, width = box.high - box.low, box.right - box.left
    if rows > 1 and pitch - width <= tuning.NARROWER_BYTES:
        return InputRange(start=start, rows=1, width=rows * pitch, pitch=0)
    return InputRange(start=start + box.left, rows=rows, width=width, pitch=pitch)


def _addend_range(stage: ArrayStage, tile: ArrayTile) -> InputRange:
    """Return the positions of a tile in a tensor that is laid out as the output."""
    # Positions are then as far apart from row to row as in a row.
    assert stage.output_layout.contiguous
    assert tile.height == 1 or (tile.first_x, tile.end_x) == (0, stage.grid.width)
    ((start, pitch, _row_step, width, *_),) = stage.output_layout.writes(tile)
    if width == pitch:
        return InputRange(start=start, rows=1, width=tile.positions * width, pitch=0)
    return InputRange(start=start, rows=tile.positions, width=width, pitch=pitch)


def _cycles(stage: Stage, tile: Tile, config: Config) -> int:
    """Return the cycles that a tile keeps the array, or post-processing, busy."""
    if isinstance(tile, ArrayTile):
        assert isinstance(stage, ArrayStage)
        return exec_cycles(
            stage.loop_nest.vectors(tile.height, tile.end_x - tile.first_x),
            (tile.end_step - tile.first_step) * (tile.end_block - tile.first_block),
            tile.entries * stage.accumulators_per_block * stage.output_layout.limbs,
            config,
            weights_fixed=stage.loop_nest.weights_fixed,
        )
    assert isinstance(stage, VectorStage)
    vectors = -(-(tile.end - tile.start) // (config.columns * stage.element_bytes))
    return vector_cycles(
        vectors * len(stage.posts), stage.element_bytes * stage.input_ratio, config
    )


class Tilings:
    """Remembers the last tilings of each stage."""

    def __init__(self) -> None:
        self._known: dict[Stage, dict[_Key, Tiling]] = {}

    def of(self, stage: Stage, limits: TilingParams, config: Config, seed: int | None) -> Tiling:
        """Return a stage cut under limits, at random where there is a seed.

        Limits that make the same tiles have the same tiling.
        """
        known = self._known.setdefault(stage, {})
        key = (limits, config, seed)
        found = known.pop(key, None)
        if found is None:
            made = Tiling(
                stage=stage,
                limits=limits,
                config=config,
                tiles=cut(stage, limits, config, seed),
                chunks=chunks(stage, limits, config) if isinstance(stage, ArrayStage) else [],
            )
            found = next((other for other in known.values() if _same(made, other)), made)
        known[key] = found
        while len(known) > _MOST:
            del known[next(iter(known))]
        return found


def _same(one: Tiling, other: Tiling) -> bool:
    """Return whether two tilings of a stage are the same in all that is asked of them."""
    left, right = one.limits, other.limits
    return (
        left.params_apart == right.params_apart
        and one.config == other.config
        and one.chunks == other.chunks
        and one.tiles == other.tiles
        and (left.weights is right.weights or _loads_once(one, other))
        and (left.tile_bytes == right.tile_bytes or not _in_parts(one))
    )


def _loads_once(one: Tiling, other: Tiling) -> bool:
    """Return whether two tilings with the same tiles load each chunk once, whatever they are for.

    Weights that are resident are so by choice: it is known of a plan (`search`).
    """
    if Weights.RESIDENT in (one.limits.weights, other.limits.weights):
        return False
    used = [tile.chunk for tile in one.tiles if isinstance(tile, ArrayTile)]
    return len([chunk for chunk, _same_chunk in itertools.groupby(used)]) == len(set(used))


def _in_parts(tiling: Tiling) -> bool:
    """Return whether some tile has not all steps: what it reads then depends on the bounds."""
    if not isinstance(tiling.stage, ArrayStage):
        return False
    every = (0, tiling.stage.loop_nest.steps)
    return any(
        isinstance(tile, ArrayTile) and (tile.first_step, tile.end_step) != every
        for tile in tiling.tiles
    )
