"""Second operand of the array: weights known at compile time, or a computed tensor."""

from dataclasses import dataclass, field

import numpy as np

from matloom.arch.config import Config
from matloom.arch.modes import MODES
from matloom.select.layout.base import OutputLayout

__all__ = ["Computed", "Constant", "Operand", "constant_weights", "same_weights"]


@dataclass(frozen=True, kw_only=True)
class Constant:
    """Weights known at compile time; LOAD reads them from the image of constants.

    Members
    -------
    tiles:
        uint8 (output blocks, steps, bytes of a tile), in the order of the loops.
    """

    tiles: np.ndarray = field(repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of all tiles."""
        return self.tiles.nbytes

    @property
    def steps(self) -> int:
        """Steps of an output block that have tiles of their own."""
        return int(self.tiles.shape[1])

    @property
    def tile_bytes(self) -> int:
        """Bytes of a tile."""
        return int(self.tiles.shape[2])

    @property
    def block_bytes(self) -> int:
        """Bytes of the tiles of an output block."""
        return self.steps * self.tile_bytes

    def tile(self, block: int, step: int) -> bytes:
        """Return the tile of an output block and a step."""
        return bytes(self.tiles[block, step])

    def chunk(self, blocks: slice, steps: slice) -> bytes:
        """Return the tiles of some blocks and steps, block by block."""
        return self.tiles[blocks, steps].tobytes()


@dataclass(frozen=True, kw_only=True)
class Computed:
    """Weights that another stage writes to the scratchpad. No instruction waits for them yet.

    Members
    -------
    tensor, layout:
        The tensor, and its layout on chip.
    steps, tile_bytes:
        As in `Constant`.
    """

    tensor: str
    layout: OutputLayout
    steps: int
    tile_bytes: int

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return self.layout.size

    @property
    def block_bytes(self) -> int:
        """Bytes of the tiles of an output block."""
        return self.steps * self.tile_bytes

    def tile(self, block: int, step: int) -> bytes:
        """Raise: the bytes are unknown before the network runs."""
        raise NotImplementedError(f"tile {step} of block {block} of {self.tensor} is computed")

    def chunk(self, blocks: slice, steps: slice) -> bytes:
        """Raise: the bytes are unknown before the network runs."""
        raise NotImplementedError(f"the tiles of {self.tensor} are computed")


Operand = Constant | Computed


def same_weights(tile: np.ndarray, blocks: int) -> Constant:
    """Return weights that use one tile, uint8 (bytes,), in all steps of all output blocks."""
    return Constant(tiles=np.broadcast_to(tile, (blocks, 1, tile.size)))


def constant_weights(blocks: np.ndarray, mode: str, config: Config) -> Constant:
    """Return weights of a mode from uint8 (output blocks, bytes of all steps)."""
    return Constant(tiles=blocks.reshape(len(blocks), -1, MODES[mode].weight_tile_bytes(config)))
