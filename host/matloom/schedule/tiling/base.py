"""Base class of tilings: what planning needs to know about a stage of any kind."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from matloom.arch.config import Config
from matloom.schedule.params import TilingParams
from matloom.schedule.tiling.tile_reads import InputRange, Panel, Staged
from matloom.schedule.tiling.tiles import ArrayTile, Chunk, VectorTile
from matloom.select.stage import ArrayStage, VectorStage

_Stage = TypeVar("_Stage", ArrayStage, VectorStage)
_Tile = TypeVar("_Tile", ArrayTile, VectorTile)


@dataclass(frozen=True, kw_only=True, eq=False)
class BaseTiling(ABC, Generic[_Stage, _Tile]):
    """Tiles of a stage in order, its weight chunks, and lists with one entry per tile.

    It does not depend on the other stages of a segment, except for `groups`, where `sequence`
    caches how its tiles interleave with those of the following stages. `needs` caches the results
    of `most_bytes`.
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
    def made_bytes(self) -> list[int]:
        """Number of bytes of output that each tile writes."""

    @cached_property
    @abstractmethod
    def completes(self) -> list[bool]:
        """Whether each tile completes the reductions of its outputs."""

    @cached_property
    @abstractmethod
    def pending(self) -> list[bool]:
        """Whether accumulators hold sums of unfinished tiles after each tile."""

    @cached_property
    @abstractmethod
    def finished(self) -> list[int]:
        """Number of leading bytes of the output that are complete after each tile, or 0.

        0 follows a tile that does not complete its rows.
        """

    @cached_property
    @abstractmethod
    def flat_ends(self) -> tuple[int, ...]:
        """Output byte at which each tile ends; empty unless each makes the next run of bytes."""

    @cached_property
    @abstractmethod
    def chunk_bytes(self) -> list[int]:
        """Size in bytes of each chunk: weight tiles, and parameters with the last steps."""

    @cached_property
    @abstractmethod
    def used_chunks(self) -> list[int | None]:
        """The weight chunk of each tile; None for a tile without weights."""

    @cached_property
    @abstractmethod
    def live_chunk_bytes(self) -> list[int]:
        """Minimum size in bytes of weight chunks that are on chip while each tile runs."""

    @cached_property
    @abstractmethod
    def splits_reductions(self) -> bool:
        """Whether any tile lacks some reduction steps, so that `limits` affect what it reads."""

    @cached_property
    def panels(self) -> list[Panel | None]:
        """The panel of each tile in a prologue; None for other tiles."""
        return [None] * len(self.tiles)

    @property
    def tiles_per_load(self) -> int:
        """Number of consecutive tiles that share a LOAD of their input by design."""
        return 1

    @property
    def param_bytes(self) -> int:
        """Size in bytes of all parameters."""
        return 0

    def first_bytes(self, number: int) -> int:
        """Return the number of bytes of its weight chunk that a tile waits for."""
        return 0

    def chunk_data(self, number: int) -> bytes:
        """Return the bytes of a chunk: weights, and its parameters if any."""
        raise NotImplementedError(f"{self.stage.name} has no weights")

    def params_data(self) -> bytes:
        """Return the parameters of all output blocks."""
        return b""

    def panel_rows(self, number: int, first_row: int) -> InputRange:
        """Return the input range that a prologue tile reads for its rows from `first_row`."""
        raise NotImplementedError(f"{self.stage.name} has no prologue")

    @property
    def tiles_of_strip(self) -> list[range]:
        """For each tile, the range of tiles of its strip of rows; empty if tiles have no strips."""
        return []

    def strip_start_byte(self, number: int) -> int:
        """Return the first output byte of the strip of rows that a tile belongs to.

        Only for stages whose tiles take turns with those of the previous or the next stage.
        """
        raise NotImplementedError(f"{self.stage.name} takes no turns")

    @abstractmethod
    def reads(self, number: int) -> Iterator[tuple[str, InputRange]]:
        """Yield the range that a tile reads of each input, in the order of first use."""

    def stored_together(self, number: int) -> range:
        """Return the tiles whose results may share a buffer and a STORE with tile `number`.

        The tile itself is among them.
        """
        return range(number, number + 1)

    @abstractmethod
    def staged_results(self, tiles: range) -> list[Staged]:
        """Return the results that STOREs read from the buffer that tiles share."""

    def ends_in_blocks(self, number: int) -> bool:
        """Return whether a tile is one of several that complete output blocks of the last rows."""
        return False

    def blocks_from(self, number: int, first: int) -> tuple[InputRange, int]:
        """Return the bytes that a tile makes from output block `first` on, and its end block."""
        raise NotImplementedError(f"{self.stage.name} has no output blocks")

    def most_bytes(self, tiled_inputs: int, *, staged: bool) -> tuple[int, int, int]:
        """Return the most bytes that a tile needs: weights; with inputs; with outputs, too.

        The three maxima may be of different tiles. `tiled_inputs` is the number of inputs that are
        loaded tile by tile. `staged` outputs have a buffer of their own, and those of the previous
        tile are counted as well.
        """
        key = (tiled_inputs, staged)
        if key not in self.needs:
            self.needs[key] = self._most_bytes(*key)
        return self.needs[key]

    def _most_bytes(self, tiled_inputs: int, staged: bool) -> tuple[int, int, int]:
        most, weights = (0, 0, 0), self.live_chunk_bytes
        before = 0
        for number, complete in enumerate(self.completes):
            output_bytes = self.made_bytes[number] if staged and complete else 0
            inputs = weights[number] + tiled_inputs * self.input_ranges[number].size
            most = (
                max(most[0], weights[number]),
                max(most[1], inputs),
                max(most[2], inputs + output_bytes + before),
            )
            before = output_bytes
        return most
