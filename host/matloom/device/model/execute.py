"""EXEC in NumPy, which gathers all windows of an instruction and multiplies them at once."""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import WINDOW_TAPS, Config
from matloom.arch.instruction import Instruction, zero_points_of
from matloom.arch.modes import FLOAT_MODES, MAC_MODES, NARROW_MODES
from matloom.arch.numerics import high_nibble, larger, low_nibble
from matloom.device.model.floating import sums_of_steps

#: Number of int8 products, at most 2**14 each, whose sum is exact in float32 (24 bits of mantissa).
_EXACT_IN_FLOAT32 = 2**24 // 2**14

#: Number of products up to which OpenBLAS multiplies in the calling thread. Waiting for other
#: threads takes much longer, on a busy machine a hundred times.
_SINGLE_THREAD_PRODUCTS = 2**18

#: Approximate number of bytes that sliding windows gather at a time.
_GATHERED_BYTES = 2**20


@functools.lru_cache(maxsize=4096)
def _input_offsets(
    geometry: tuple[int, ...], rows: int, paired_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return input offsets (positions, steps x size), and a mask of those outside the image.

    `geometry` has the fields of EXEC. The mask is None if all are inside. A vector has `rows`
    bytes, or `paired_bytes` unless these are 0; a paired block is outside if any of its bytes is.
    """
    size = paired_bytes or rows
    (
        pitch, in_rows, in_row_bytes, first_row, first_byte, width, height, x_step, y_step,
        kernel_rows, kernel_row_step, kernel_cols, kernel_col_step, blocks,
    ) = geometry  # fmt: skip
    row = (
        first_row
        + np.arange(height).reshape(-1, 1, 1, 1, 1, 1) * y_step
        + np.arange(kernel_rows).reshape(1, 1, -1, 1, 1, 1) * kernel_row_step
    )
    byte = (
        first_byte
        + np.arange(width).reshape(1, -1, 1, 1, 1, 1) * x_step
        + np.arange(kernel_cols).reshape(1, 1, 1, -1, 1, 1) * kernel_col_step
        + np.arange(blocks).reshape(1, 1, 1, 1, -1, 1) * rows
        + np.arange(size).reshape(1, 1, 1, 1, 1, -1)
    )
    inside = (row >= 0) & (row < in_rows) & (byte >= 0) & (byte < in_row_bytes)
    if paired_bytes:
        inside = np.broadcast_to(inside.all(axis=-1, keepdims=True), inside.shape)
    offsets = np.where(inside, row * pitch + byte, 0)
    shape = (width * height, kernel_rows * kernel_cols * blocks * size)
    if inside.all():
        return offsets.reshape(shape), None
    return offsets.reshape(shape), ~inside.reshape(shape)


def execute(
    instruction: Instruction,
    spad: NDArray[np.uint8],
    accumulators: NDArray[np.int32],
    config: Config,
) -> None:
    """Run one EXEC on scratchpad bytes (n,) and, in place, on accumulators (entries, columns)."""
    fields = instruction.values
    if fields["window"]:
        _execute_sliding(fields, spad.view(np.int8), accumulators, config)
        return
    mode = MAC_MODES[fields["mode"]]
    steps = fields["kernel_rows"] * fields["kernel_cols"] * fields["blocks"]
    positions = fields["width"] * fields["height"]
    reduction = steps * config.rows
    signed = spad.view(np.int8)
    wide = reduction > _EXACT_IN_FLOAT32 or mode == "i16xi8" or fields["zero_points"]
    dtype = np.float64 if wide else np.float32
    for block in range(fields["oc_blocks"]):
        if not block or fields["oc_step"]:
            operands = _inputs(fields, block, signed, config.rows)
            if mode == "i4xi4":
                operands = low_nibble(operands)
            factors: NDArray[np.floating] = operands.astype(dtype)
            if mode == "i16xi8":
                # An unsigned low byte, and a signed high byte.
                factors[:, ::2] += 256 * (factors[:, ::2] < 0)
                factors[:, 1::2] *= 256
        weights = _weights(fields, block, steps, signed, config)
        entries = fields["acc_addr"] + block * positions + np.arange(positions)
        if mode in FLOAT_MODES:
            by_step = operands.reshape(positions, steps, config.rows)
            tiles = weights.reshape(steps, config.rows, config.columns)
            before = accumulators[entries] if fields["accumulate"] else None
            accumulators[entries] = sums_of_steps(by_step, tiles, mode, config.float_rows, before)
        elif fields["maximum"]:
            _run_maximum(operands, weights, steps, entries, accumulators, fields)
        elif mode in NARROW_MODES:
            apart = config.pair_distance
            first = entries + entries // apart * apart
            for half, places in ((low_nibble, first), (high_nibble, first + apart)):
                _store_sums(factors, half(weights).astype(dtype), places, accumulators, fields)
        else:
            _store_sums(factors, weights.astype(dtype), entries, accumulators, fields)


def _store_sums(
    factors: NDArray[Any],
    weights: NDArray[Any],
    entries: NDArray[np.int64],
    accumulators: NDArray[np.int32],
    fields: dict[str, int],
) -> None:
    """Write (positions, columns) sums of products to accumulator entries, or add them."""
    # Exact: no partial sum exceeds the mantissa.
    sums = _matrix_product(factors, weights)
    if sums.dtype == np.float64:
        sums = sums.astype(np.int64)
    made = sums.astype(np.int32)
    accumulators[entries] = accumulators[entries] + made if fields["accumulate"] else made


def _matrix_product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return a matrix product, computed in pieces that BLAS does not spread over threads."""
    rows = max(1, _SINGLE_THREAD_PRODUCTS // right.size)
    product: NDArray[Any] = np.empty((len(left), right.shape[1]), left.dtype)
    for first in range(0, len(left), rows):
        np.matmul(left[first : first + rows], right, out=product[first : first + rows])
    return product


def _inputs(
    fields: dict[str, int], block: int, signed: NDArray[np.int8], rows: int, paired_bytes: int = 0
) -> NDArray[Any]:
    """Return an output block's inputs, (positions, steps x vector size), minus the zero point."""
    geometry = tuple(
        fields[name]
        for name in (
            "input_pitch", "input_rows", "input_row_bytes", "first_row", "first_byte", "width",
            "height", "x_step", "y_step", "kernel_rows", "kernel_row_step", "kernel_cols",
            "kernel_col_step", "blocks",
        )
    )  # fmt: skip
    first_byte = fields["first_byte"] + block * fields["oc_step"]
    geometry = (*geometry[:4], first_byte, *geometry[5:])
    offsets, outside = _input_offsets(geometry, rows, paired_bytes)
    gathered = signed[fields["input_addr"] :].take(offsets)
    if outside is not None:
        gathered[outside] = fields["pad_value"]
    zero = zero_points_of(fields)[0]
    return gathered - np.int16(zero) if zero else gathered


def _weights(
    fields: dict[str, int], block: int, steps: int, signed: NDArray[np.int8], config: Config
) -> NDArray[Any]:
    """Return the weights (steps x rows, columns) of an output block, minus their zero point."""
    fixed = fields["weights_fixed"]
    first, count = (0, 1) if fixed else (block * steps, steps)
    start = fields["weight_addr"] + first * config.tile_bytes
    tiles = signed[start : start + count * config.tile_bytes]
    tiles = tiles.reshape(count, config.rows, config.columns)
    if fields["weights_transposed"]:
        tiles = tiles.swapaxes(1, 2)
    zero = zero_points_of(fields)[1]
    matrix = (tiles - np.int16(zero) if zero else tiles).reshape(-1, config.columns)
    return np.tile(matrix, (steps, 1)) if fixed else matrix


def _execute_sliding(
    fields: dict[str, int],
    signed: NDArray[np.int8],
    accumulators: NDArray[np.int32],
    config: Config,
) -> None:
    """Run an EXEC with sliding windows (decision 0002), a few output blocks at a time."""
    steps = fields["kernel_rows"] * fields["kernel_cols"] * fields["blocks"]
    vectors = fields["width"] * fields["height"]
    outputs = _output_vectors(fields, vectors)
    paired_bytes = config.paired_bytes if fields["paired"] else 0
    at_once = max(1, _GATHERED_BYTES // max(1, len(outputs) * steps * config.rows * config.columns))
    for first in range(0, fields["oc_blocks"], at_once):
        blocks = range(first, min(first + at_once, fields["oc_blocks"]))
        inputs = np.stack(
            [_inputs(fields, block, signed, config.rows, paired_bytes) for block in blocks]
        )
        weights = np.stack([_weights(fields, block, steps, signed, config) for block in blocks])
        sums = _window_sums(
            inputs.reshape(len(blocks), vectors, steps, -1),
            weights.reshape(len(blocks), steps, config.rows, config.columns),
            outputs,
            fields,
            config,
        )
        entry = fields["acc_addr"] + first * len(outputs)
        target = accumulators[entry : entry + len(blocks) * len(outputs)]
        target[...] = _updated_entries(sums, target, fields)


def _updated_entries(
    sums: NDArray[np.int32], target: NDArray[np.int32], fields: dict[str, int]
) -> NDArray[np.int32]:
    """Return new entries (n, columns) from old ones and sums (blocks, steps, outputs, columns)."""
    by_step = np.moveaxis(sums, 1, 0).reshape(sums.shape[1], -1, sums.shape[-1])
    if not fields["maximum"]:
        # int32 wraps like the accumulators.
        total: NDArray[np.int32] = by_step.sum(axis=0, dtype=np.int32)
        return total + target if fields["accumulate"] else total
    before = [target.astype(np.int64)] if fields["accumulate"] else []
    largest: NDArray[np.int64] = functools.reduce(larger, [*before, *by_step.astype(np.int64)])
    return largest.astype(np.int32)


def _output_vectors(fields: dict[str, int], vectors: int) -> NDArray[np.int64]:
    """Return the indices of the vectors that complete an output."""
    number = np.arange(fields["first_output"], vectors)
    y, x = np.divmod(number - fields["first_output"], _line(fields))
    out_y, skipped_y = np.divmod(y, fields["out_y_skip"] + 1)
    out_x, skipped_x = np.divmod(x, fields["out_x_skip"] + 1)
    is_output = (skipped_y == 0) & (skipped_x == 0)
    outputs: NDArray[np.int64] = number[
        is_output & (out_y < fields["out_height"]) & (out_x < fields["out_width"])
    ]
    return outputs


def _line(fields: dict[str, int]) -> int:
    """Return the vectors from one line of a window to the next, at least `WINDOW_TAPS`."""
    return max(fields["line"], WINDOW_TAPS)


def _taps(fields: dict[str, int], config: Config) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the age, in vectors, of the tap of each window row, and its first byte in a vector."""
    if fields["paired"]:
        y, x = np.divmod(np.arange(WINDOW_TAPS * WINDOW_TAPS), WINDOW_TAPS)
        return (1 - y // 2) * _line(fields) + 1 - x // 2, (2 * (x % 2) + y % 2) * config.columns
    lines = config.window_shapes[fields["window_shape"]]
    back = np.concatenate(
        [
            lines_ago * _line(fields) + np.arange(taps - 1, -1, -1)
            for lines_ago, taps in zip(range(len(lines) - 1, -1, -1), lines, strict=True)
        ]
    )
    return back, np.zeros_like(back)


def _window_sums(
    vectors: NDArray[np.int8],
    tiles: NDArray[np.int8],
    outputs: NDArray[np.int64],
    fields: dict[str, int],
    config: Config,
) -> NDArray[np.int32]:
    """Return the sum of each column in each step, as (blocks, steps, outputs, columns).

    Parameters
    ----------
    vectors, tiles:
        (blocks, vectors, steps, bytes) and (blocks, steps, rows, columns).
    outputs:
        Indices of the vectors that complete an output.
    """
    back, first = _taps(fields, config)
    padding = np.full_like(vectors[:, :1], fields["pad_value"])
    padded = np.concatenate([padding, vectors], axis=1)
    # Index 0 is padding; it stands for all vectors before the first.
    passed = np.maximum(outputs[:, np.newaxis] - back + 1, 0)
    bytes_of = first[:, np.newaxis] + np.arange(config.columns)
    # (outputs, taps, columns, blocks, steps)
    found = padded.transpose(1, 3, 0, 2)[passed[:, :, np.newaxis], bytes_of]
    numbers = tiles.astype(np.int32)
    sums: NDArray[np.int32] = np.einsum(
        "otcbs,bstc->bsoc", found.astype(np.int32), numbers[:, :, : len(back)]
    )
    rest = numbers[:, :, len(back) :]
    if fields["paired"]:
        sums += fields["pad_value"] * rest.sum(axis=2, dtype=np.int32)[:, :, np.newaxis]
    else:
        read = vectors[:, outputs][..., len(back) : config.rows].astype(np.int32)
        sums += np.einsum("bosr,bsrc->bsoc", read, rest)
    return sums


def _run_maximum(
    inputs: NDArray[np.int8],
    weights: NDArray[np.int8],
    steps: int,
    entries: NDArray[np.int64],
    accumulators: NDArray[np.int32],
    fields: dict[str, int],
) -> None:
    """Write the largest of sums by step, and of old entries if accumulating, to entries."""
    by_step = inputs.reshape(len(inputs), steps, -1).astype(np.int64)
    tiles = weights.reshape(steps, by_step.shape[2], -1).astype(np.int64)
    sums = np.einsum("psr,src->spc", by_step, tiles)
    before = [accumulators[entries].astype(np.int64)] if fields["accumulate"] else []
    accumulators[entries] = functools.reduce(larger, [*before, *sums])
