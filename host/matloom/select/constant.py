"""Weights known at compile time."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np


@dataclass(frozen=True, kw_only=True)
class ConstantWeights:
    """Weights known at compile time; LOAD reads them from the image of constants.

    Members
    -------
    tiles:
        uint8 (output blocks, steps, bytes of a tile), in the order of the loops.
    """

    tiles: np.ndarray = field(repr=False)
    passes: ClassVar[int] = 1

    @property
    def nbytes(self) -> int:
        """Size in bytes of all tiles."""
        return self.tiles.nbytes

    @property
    def steps(self) -> int:
        """Number of reduction steps of an output block, each of which has a weight tile."""
        return int(self.tiles.shape[1])

    @property
    def tile_bytes(self) -> int:
        """Size of a tile in bytes."""
        return int(self.tiles.shape[2])

    @property
    def block_bytes(self) -> int:
        """Size in bytes of the tiles of an output block."""
        return self.steps * self.tile_bytes

    def chunk_bytes(self, blocks: slice, steps: slice) -> int:
        """Return the size in bytes of the chunk of a range of output blocks and of steps."""
        count: int = (blocks.stop - blocks.start) * (steps.stop - steps.start)
        return count * self.tile_bytes

    def select_blocks(self, blocks: slice) -> "ConstantWeights":
        """Return the weights of some output blocks."""
        return ConstantWeights(tiles=self.tiles[blocks])

    def tile(self, block: int, step: int) -> bytes:
        """Return the tile of an output block and a step."""
        return bytes(self.tiles[block, step])

    def chunk(self, blocks: slice, steps: slice) -> bytes:
        """Return the tiles of a range of output blocks and of steps, block by block."""
        return self.tiles[blocks, steps].tobytes()
