"""Operands of an EXEC in the meaning check: its input vectors and its weights."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from matloom.arch.instruction import zero_points_of
from matloom.meaning.errors import MeaningError
from matloom.meaning.state import State, strided_view
from matloom.meaning.terms import all_known, is_known

_Fields = Mapping[str, int]
_Floats = NDArray[np.float64]


class InputWalk:
    """Loops of an EXEC over its input, for one block of channels or several.

    Each call of `vectors` reads the current bytes at the same places.
    """

    def __init__(self, state: State, fields: _Fields, block: int, blocks: int = 1) -> None:
        rows = state.config.rows
        height, width = fields["height"], fields["width"]
        taps = (fields["kernel_rows"], fields["kernel_cols"], fields["blocks"])
        first_byte = fields["first_byte"] + block * fields["oc_step"]
        tall = (height - 1) * fields["y_step"] + (taps[0] - 1) * fields["kernel_row_step"] + 1
        wide = (width - 1) * fields["x_step"] + (taps[1] - 1) * fields["kernel_col_step"]
        wide += taps[2] * rows + (blocks - 1) * fields["oc_step"]
        pitch = fields["input_pitch"]
        first_row, in_rows = fields["first_row"], fields["input_rows"]
        row_bytes, first = fields["input_row_bytes"], fields["input_addr"]
        self._zero = zero_points_of(fields)[0]
        self._within = 0 <= first_row <= in_rows - tall and 0 <= first_byte <= row_bytes - wide
        if self._within:
            first += first_row * pitch + first_byte
        else:
            self._image = (tall, wide), float(fields["pad_value"])
            self._source = strided_view(state.spad, first, (in_rows, row_bytes), (pitch, 1))
            self._first, first, pitch = (first_row, first_byte), 0, wide
        strides = (fields["y_step"] * pitch, fields["x_step"], fields["kernel_row_step"] * pitch)
        steps = (fields["oc_step"], *strides, fields["kernel_col_step"], rows, 1)
        self._place = first, (blocks, height, width, *taps, rows), steps
        self._shape = blocks * height * width, -1, rows
        self._gathered = strided_view(state.spad, *self._place) if self._within else None

    def vectors(self) -> _Floats:
        """Return the input vectors (blocks * positions, steps, rows), minus the zero point.

        Bytes outside the input are `pad_value`, also minus the zero point. The result may be a view
        of the scratchpad.
        """
        gathered = self._gathered
        if gathered is None:
            gathered = strided_view(self._padded_rows(), *self._place)
        found = gathered.reshape(self._shape)
        return found - self._zero if self._zero else found

    def _padded_rows(self) -> _Floats:
        """Return a flat copy of the input rows that an EXEC reads; padding is `pad_value`."""
        (tall, wide), pad_value = self._image
        image = np.full((tall, wide), pad_value)
        row, byte = self._first
        top, left = max(0, -row), max(0, -byte)
        inside = self._source[row + top :, byte + left :][: tall - top, : wide - left]
        if top < tall and left < wide and inside.size:
            image[top : top + inside.shape[0], left : left + inside.shape[1]] = inside
        return image.reshape(-1)


def paired_vectors(state: State, fields: _Fields, block: int, blocks: int) -> _Floats:
    """Return the vectors of 2 x 2 positions that a stride-2 sliding window reads.

    They are (blocks * vectors, steps, bytes). Vectors that are not entirely inside the input
    consist of `pad_value`.
    """
    size = state.config.paired_bytes
    rows = fields["first_row"] + np.add.outer(
        np.arange(fields["height"]) * fields["y_step"],
        np.arange(fields["kernel_rows"]) * fields["kernel_row_step"],
    )
    starts = fields["first_byte"] + np.add.outer(
        np.arange(fields["width"]) * fields["x_step"],
        np.arange(fields["kernel_cols"]) * fields["kernel_col_step"],
    )  # fmt: skip
    of_block = np.arange(block, block + blocks) * fields["oc_step"]
    row = rows[None, :, None, :, None]
    start = of_block[:, None, None, None, None] + starts[None, None, :, None, :]
    inside = (row >= 0) & (row < fields["input_rows"])
    inside = inside & (start >= 0) & (start + size <= fields["input_row_bytes"])
    first = np.where(inside, fields["input_addr"] + row * fields["input_pitch"] + start, 0)
    found = state.spad.take(first[..., None] + np.arange(size), mode="clip")
    found[~inside] = fields["pad_value"]
    return found.reshape(blocks * fields["height"] * fields["width"], -1, size)


class WeightTiles:
    """Weights of an EXEC in the scratchpad, for output blocks from `block` on.

    A block is as many channels as the array has columns. If `constant`, no weight may be a probe, a
    number for an unknown byte.
    """

    def __init__(
        self,
        state: State,
        fields: _Fields,
        block: int,
        blocks: int = 1,
        *,
        constant: bool = True,
    ) -> None:
        config = state.config
        steps = fields["kernel_rows"] * fields["kernel_cols"] * fields["blocks"]
        self._first, self._zero = fields["weight_addr"], zero_points_of(fields)[1]
        if fields["weights_fixed"]:
            steps = blocks = 1
        else:
            self._first += block * steps * config.tile_bytes
        end = self._first + blocks * steps * config.tile_bytes
        self._constant = constant
        self._bytes = state.spad[self._first : end]
        tiles = self._bytes.reshape(blocks, steps, config.rows, config.columns)
        self._tiles = tiles.swapaxes(2, 3) if fields["weights_transposed"] else tiles

    def tiles(self) -> _Floats:
        """Return the weights (blocks, steps, rows, columns), minus their zero point.

        The first two axes have length 1 if all blocks and steps share a tile.

        Raises
        ------
        MeaningError
            A weight that must be constant is a probe.
        """
        if self._constant and not all_known(self._bytes):
            at = self._first + int(np.argmin(is_known(self._bytes)))
            raise MeaningError(f"byte {at} of the scratchpad must hold a weight")
        return self._tiles - self._zero if self._zero else self._tiles
