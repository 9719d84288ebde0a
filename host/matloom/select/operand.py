"""Second operand of the array: constant weights, or a computed tensor."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from matloom.arch.config import Config
from matloom.arch.modes import MODES
from matloom.select.constant import ConstantWeights
from matloom.select.layout.panels import Panels
from matloom.select.two_parts import TwoPartWeights


@dataclass(frozen=True, kw_only=True)
class SharedTailWeights:
    """Constant weights whose last step has few array rows, so blocks of channels share its tile.

    A chunk has the other steps of its blocks, then the rows of their last step, from the last block
    to the first.

    Members
    -------
    whole:
        The tiles of all steps except the last.
    tails:
        Rows of the last step, uint8 (output blocks, bytes). A tile has a whole number of them.
    """

    whole: ConstantWeights
    tails: np.ndarray = field(repr=False)
    passes: ClassVar[int] = 1

    @property
    def nbytes(self) -> int:
        """Size in bytes of all weights."""
        return self.whole.nbytes + self.tails.nbytes

    @property
    def steps(self) -> int:
        """Number of weight tiles (steps of the reduction) for a block of output channels."""
        return self.whole.steps + 1

    @property
    def tile_bytes(self) -> int:
        """Size in bytes of a tile."""
        return self.whole.tile_bytes

    @property
    def tail_bytes(self) -> int:
        """Size in bytes of the last step of the reduction, for a block of output channels."""
        return int(self.tails.shape[1])

    @property
    def block_bytes(self) -> int:
        """Size in bytes of the weights of a block of output channels."""
        return self.whole.block_bytes + self.tail_bytes

    def chunk_bytes(self, blocks: slice, steps: slice) -> int:
        """Return the size in bytes of the weights of some channel blocks, for a range of steps.

        The rows of the last step take a tile at least, because EXEC reads whole tiles.
        """
        count, end = blocks.stop - blocks.start, min(steps.stop, self.whole.steps)
        whole = self.whole.chunk_bytes(blocks, slice(steps.start, end))
        tails = max(count * self.tail_bytes, self.tile_bytes)
        return whole + (tails if steps.stop == self.steps else 0)

    def select_blocks(self, blocks: slice) -> "SharedTailWeights":
        """Return the weights of some blocks of output channels."""
        return SharedTailWeights(whole=self.whole.select_blocks(blocks), tails=self.tails[blocks])

    def chunk(self, blocks: slice, steps: slice) -> bytes:
        """Return the weights of some channel blocks and reduction steps, padded to their chunk."""
        whole = self.whole.chunk(blocks, steps)
        if steps.stop < self.steps:
            return whole
        return whole + self.tails[blocks][::-1].tobytes().ljust(self.tile_bytes, b"\0")


@dataclass(frozen=True, kw_only=True)
class Correction:
    """Additional EXEC of a tile, which corrects sums for a zero point.

    It adds products of one operand with constants.

    Members
    -------
    offset:
        First byte of the constants in `ComputedWeights.constants`.
    replaces_input:
        Whether the constants are an input row, for all positions; otherwise, they are a weight
        tile, for all steps.
    """

    offset: int
    replaces_input: bool


@dataclass(frozen=True, kw_only=True)
class Selection:
    """EXEC that streams constant vectors of ones and zeros, to select and add rows of weight tiles.

    Members
    -------
    offset:
        First byte of the constants in `ComputedWeights.constants`: for each tile a vector for each
        output position.
    first_tile, tiles, iterations:
        The first tile, the number of tiles that have constants, and how often the constants repeat
        for further tiles.
    """

    offset: int
    first_tile: int
    iterations: int
    tiles: int


@dataclass(frozen=True, kw_only=True)
class ComputedWeights:
    """Weights that other stages write to the scratchpad.

    Members
    -------
    tensor, layout:
        The tensor, which stays on chip, and its panels.
    steps, tile_bytes:
        As in `ConstantWeights`.
    copied_tensor:
        The tensor whose rows, all of them, are the rows of the panels; None if it is transposed or
        cut into groups of columns.
    zero_points:
        Zero points that EXEC subtracts from the other operand, and from the tensor.
    constants, corrections:
        Constants loaded with the parameters, uint8, and the EXECs that use them.
    selections:
        The EXECs of a stage that has no other operand; none if the stage has an input to multiply.
    """

    tensor: str
    layout: Panels
    steps: int
    tile_bytes: int
    copied_tensor: str | None = None
    zero_points: tuple[int, int] = (0, 0)
    constants: bytes = field(default=b"", repr=False)
    corrections: tuple[Correction, ...] = ()
    selections: tuple[Selection, ...] = ()

    @property
    def nbytes(self) -> int:
        """Size in bytes of the tensor."""
        return self.layout.size

    @property
    def block_bytes(self) -> int:
        """Size in bytes of the weight tiles of a block of output channels."""
        return self.steps * self.tile_bytes

    @property
    def passes(self) -> int:
        """Number of times that the EXECs of a tile stream all of its positions."""
        if self.selections:
            return sum(each.iterations * each.tiles for each in self.selections)
        return 1 + len(self.corrections)

    def first_byte(self, image: int, block: int, step: int) -> int:
        """Return the offset in the tensor of the weight tile of an image, output block and step.

        If the tensor has weights for a single image, all images share them.
        """
        at = image * self.layout.image_bytes if self.layout.images > 1 else 0
        return at + block * self.block_bytes + step * self.tile_bytes

    def chunk_bytes(self, blocks: slice, steps: slice) -> int:
        """Return the size in bytes of the constants, which all blocks and steps share."""
        return len(self.constants)

    def chunk(self, blocks: slice, steps: slice) -> bytes:
        """Return the constants that corrections and selections use, for any blocks and steps.

        The weights themselves are computed at run time.
        """
        return self.constants


Operand = ConstantWeights | SharedTailWeights | TwoPartWeights | ComputedWeights


def same_weights(tile: np.ndarray, blocks: int) -> ConstantWeights:
    """Return constant weights with one tile, uint8 (bytes,), in all steps and channel blocks."""
    return ConstantWeights(tiles=np.broadcast_to(tile, (blocks, 1, tile.size)))


def join_steps(weights: Sequence[ConstantWeights]) -> ConstantWeights:
    """Combine weights: each reduction step has the tiles that `weights` have in it, in order."""
    return ConstantWeights(tiles=np.concatenate([each.tiles for each in weights], axis=2))


def constant_weights(blocks: np.ndarray, mode: str, config: Config) -> ConstantWeights:
    """Return weights of a mode from uint8 (output blocks, bytes of all steps)."""
    return ConstantWeights(
        tiles=blocks.reshape(len(blocks), -1, MODES[mode].weight_tile_bytes(config))
    )
