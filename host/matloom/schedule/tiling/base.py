"""Base class of tilings: what planning needs to know about a stage of any kind."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from matloom.arch.config import Config
from matloom.schedule.params import TilingParams
from matloom.schedule.tiling.tile_reads import InputRange, Panel, StagedResult
from matloom.schedule.tiling.tiles import ArrayTile, Chunk, VectorTile
from matloom.select.stage import ArrayStage, VectorStage

_Stage = TypeVar("_Stage", ArrayStage, VectorStage)
_Tile = TypeVar("_Tile", ArrayTile, VectorTile)


@dataclass(frozen=True, kw_only=True, eq=False)
class BaseTiling(ABC, Generic[_Stage, _Tile]):
    """Tiles of a stage in order, its weight chunks, and lists with one entry per tile.

    It does not depend on the other stages of a segment, except for `groups`: a cache in which
    `sequence` remembers how the stage's tiles interleave with those of later stages. `needs` caches
    the results of `max_tile_bytes`.
    """

    stage: _Stage
    limits: TilingParams
    config: Config
    tiles: list[_Tile]
    chunks: list[Chunk]
    needs: dict[tuple[int, bool], tuple[int, int, int]] = field(default_factory=dict)
    groups: dict[tuple[object, ...], object] = field(default_factory=dict)

    @cached_property
    @abstractmethod
    def cycles(self) -> list[int]:
        """Cycles that each tile keeps the array, or post-processing, busy."""

    @cached_property
    @abstractmethod
    def input_ranges(self) -> list[InputRange]:
        """Part of the first input that each tile reads."""

    @cached_property
    @abstractmethod
    def output_bytes(self) -> list[int]:
        """Number of bytes of output that each tile writes."""

    @cached_property
    @abstractmethod
    def completes(self) -> list[bool]:
        """Whether each tile completes the reductions of its outputs."""

    @cached_property
    @abstractmethod
    def pending(self) -> list[bool]:
        """Whether the accumulators hold unfinished sums after each tile."""

    @cached_property
    @abstractmethod
    def finished(self) -> list[int]:
        """Number of leading output bytes that are complete after each tile, or 0.

        It is 0 after a tile that does not complete its sums.
        """

    @cached_property
    @abstractmethod
    def flat_ends(self) -> tuple[int, ...]:
        """Output byte at which each tile ends, if tiles make the output in the order of its bytes.

        Empty if any tile makes other bytes than those after the previous tile's.
        """

    @cached_property
    @abstractmethod
    def chunk_bytes(self) -> list[int]:
        """Size in bytes of each chunk (weights of one LOAD), with its parameters, if any."""

    @cached_property
    @abstractmethod
    def used_chunks(self) -> list[int | None]:
        """The weight chunk (brought by one LOAD) of each tile; None for a tile without weights."""

    @cached_property
    @abstractmethod
    def live_chunk_bytes(self) -> list[int]:
        """Size in bytes of the weights that must be on chip together while each tile runs."""

    @cached_property
    @abstractmethod
    def splits_reductions(self) -> bool:
        """Whether any tile covers only part of a reduction.

        The part of the input that such a tile reads depends on `limits`.
        """

    @cached_property
    def panels(self) -> list[Panel | None]:
        """For each tile, the panel (part of the reduction) that it adds; None for most tiles.

        Only a prologue, the start of a matrix product whose operands still arrive, has panels.
        """
        return [None] * len(self.tiles)

    @property
    def tiles_per_load(self) -> int:
        """Number of consecutive tiles for which one LOAD brings the input."""
        return 1

    @property
    def param_bytes(self) -> int:
        """Size in bytes of all parameters."""
        return 0

    def first_weight_bytes(self, number: int) -> int:
        """Return how many bytes of its weights must have been loaded before a tile can start."""
        return 0

    def chunk_data(self, number: int) -> bytes:
        """Return the bytes of a chunk (of one LOAD): its weights, and its parameters if any."""
        raise NotImplementedError(f"{self.stage.name} has no weights")

    def params_data(self) -> bytes:
        """Return the parameters of all blocks of output channels."""
        return b""

    def panel_rows(self, number: int, first_row: int) -> InputRange:
        """Return the input that a first tile (of a prologue) reads, from row `first_row` on."""
        raise NotImplementedError(f"{self.stage.name} has no prologue")

    @property
    def tiles_of_strip(self) -> list[range]:
        """For each tile, the range of tiles in the same strip of output rows.

        Empty if tiles have no strips.
        """
        return []

    def strip_start_byte(self, number: int) -> int:
        """Return the first output byte of the strip of rows that a tile belongs to.

        Only for stages that alternate with the previous or the next stage, strip by strip.
        """
        raise NotImplementedError(f"{self.stage.name} takes no turns")

    @abstractmethod
    def reads(self, number: int) -> Iterator[tuple[str, InputRange]]:
        """Yield the name and the part of each input that a tile reads, in order of first use."""

    def stored_together(self, number: int) -> range:
        """Return the tiles that may share a buffer and a STORE of results with tile `number`.

        The tile itself is among them.
        """
        return range(number, number + 1)

    @abstractmethod
    def staged_results(self, tiles: range) -> list[StagedResult]:
        """Return the regions that STOREs read from the results buffer that tiles share."""

    def ends_in_blocks(self, number: int) -> bool:
        """Return whether a tile makes some channels of the last rows, and other tiles the rest."""
        return False

    def blocks_from(self, number: int, first: int) -> tuple[InputRange, int]:
        """Return the output bytes of a tile from channel block `first` on, and its end block."""
        raise NotImplementedError(f"{self.stage.name} has no output blocks")

    def max_tile_bytes(self, tiled_inputs: int, *, staged: bool) -> tuple[int, int, int]:
        """Return the most scratchpad bytes that any tile needs, counted in three ways.

        These are its weights, its weights and inputs, and its weights, inputs and outputs; each
        maximum may be of another tile. `tiled_inputs` is the number of inputs that are loaded tile
        by tile. `staged` outputs have a buffer of their own, and those of the previous tile are
        counted as well.
        """
        key = (tiled_inputs, staged)
        if key not in self.needs:
            self.needs[key] = self._count_max_tile_bytes(*key)
        return self.needs[key]

    def _count_max_tile_bytes(self, tiled_inputs: int, staged: bool) -> tuple[int, int, int]:
        """Return what `max_tile_bytes` returns, which caches it."""
        most, weights = (0, 0, 0), self.live_chunk_bytes
        before = 0
        for number, complete in enumerate(self.completes):
            output_bytes = self.output_bytes[number] if staged and complete else 0
            inputs = weights[number] + tiled_inputs * self.input_ranges[number].size
            most = (
                max(most[0], weights[number]),
                max(most[1], inputs),
                max(most[2], inputs + output_bytes + before),
            )
            before = output_bytes
        return most
