"""Walk of EXEC over its input: the bytes of each vector."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from matloom.meaning.state import State, view

__all__ = ["input_vectors", "paired_vectors"]

_Fields = Mapping[str, int]
_Floats = NDArray[np.float64]


def input_vectors(state: State, fields: _Fields, block: int, blocks: int = 1) -> _Floats:
    """Return the input (blocks * positions, steps, rows), with `pad_value` outside of it.

    It may be a view of the scratchpad.
    """
    rows = state.config.rows
    height, width = fields["height"], fields["width"]
    taps = (fields["kernel_rows"], fields["kernel_cols"], fields["blocks"])
    first_byte = fields["first_byte"] + block * fields["oc_step"]
    tall = (height - 1) * fields["y_step"] + (taps[0] - 1) * fields["kernel_row_step"] + 1
    wide = (width - 1) * fields["x_step"] + (taps[1] - 1) * fields["kernel_col_step"]
    wide += taps[2] * rows + (blocks - 1) * fields["oc_step"]
    image, first, pitch = _image(state, fields, first_byte, tall, wide)
    strides = (fields["y_step"] * pitch, fields["x_step"], fields["kernel_row_step"] * pitch)
    steps = (fields["oc_step"], *strides, fields["kernel_col_step"], rows, 1)
    gathered = view(image, first, (blocks, height, width, *taps, rows), steps)
    return gathered.reshape(blocks * height * width, -1, rows)


def _image(
    state: State, fields: _Fields, first_byte: int, tall: int, wide: int
) -> tuple[_Floats, int, int]:
    """Return bytes that contain `tall` rows of `wide` bytes, the first offset, and the row step.

    They begin with the first row and byte of the walk, with `pad_value` outside of the input.
    Without padding, they are the scratchpad itself.
    """
    first_row, in_rows, row_bytes = (
        fields[name] for name in ("first_row", "input_rows", "input_row_bytes")
    )
    pitch = fields["input_pitch"]
    if 0 <= first_row <= in_rows - tall and 0 <= first_byte <= row_bytes - wide:
        return state.spad, fields["input_addr"] + first_row * pitch + first_byte, pitch
    image = np.full((tall, wide), float(fields["pad_value"]))
    source = view(state.spad, fields["input_addr"], (in_rows, row_bytes), (pitch, 1))
    top, left = max(0, -first_row), max(0, -first_byte)
    inside = source[first_row + top :, first_byte + left :][: tall - top, : wide - left]
    if top < tall and left < wide and inside.size:
        image[top : top + inside.shape[0], left : left + inside.shape[1]] = inside
    return image.reshape(-1), 0, wide


def paired_vectors(state: State, fields: _Fields, block: int, blocks: int) -> _Floats:
    """Return (blocks * vectors, steps, bytes) of 2 x 2 positions, with padding for partial ones."""
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
