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
        """Number of weight tiles (steps of the reduction) of a block of output channels."""
        return int(self.tiles.shape[1])

    @property
    def tile_bytes(self) -> int:
        """Size of a tile in bytes."""
        return int(self.tiles.shape[2])

    @property
    def block_bytes(self) -> int:
        """Size in bytes of the weight tiles of a block of output channels."""
        return self.steps * self.tile_bytes

    def chunk_bytes(self, blocks: slice, steps: slice) -> int:
        """Return the size in bytes of the weights of some output blocks, for a range of steps.

        Blocks are groups of channels, steps are weight tiles of a block.
        """
        count: int = (blocks.stop - blocks.start) * (steps.stop - steps.start)
        return count * self.tile_bytes

    def select_blocks(self, blocks: slice) -> "ConstantWeights":
        """Return the weights of some blocks of output channels."""
        return ConstantWeights(tiles=self.tiles[blocks])

    def tile(self, block: int, step: int) -> bytes:
        """Return the weight tile for a block of output channels and a step of the reduction."""
        return bytes(self.tiles[block, step])

    def chunk(self, blocks: slice, steps: slice) -> bytes:
        """Return the weight tiles of a range of output blocks and of steps, block by block.

        Blocks are groups of channels, steps are tiles of a block.
        """
        return self.tiles[blocks, steps].tobytes()
