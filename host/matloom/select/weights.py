"""Weight tiles and parameter blocks in the order in which the engine reads them."""

import numpy as np

from matloom.arch.config import Config
from matloom.arch.numerics import pack_nibbles


def run_matrices(filters: np.ndarray, *, single_run: bool, pack: int, shift: int) -> np.ndarray:
    """Return filters as matrices (kernel_rows, kernel_cols, run, columns), int8.

    Parameters
    ----------
    filters:
        int8 (output channels, kernel rows, kernel columns, input channels).
    single_run:
        Whether a kernel row is one run of contiguous bytes; otherwise each tap is a separate run.
    pack, shift:
        Number of output positions that share the columns, and distance in input bytes between them.
    """
    channels, rows, columns, depth = filters.shape
    taps, run = (1, columns * depth) if single_run else (columns, depth)
    matrix = filters.reshape(channels, rows, taps, run).transpose(1, 2, 3, 0)
    if pack == 1:
        return matrix
    packed = np.zeros((rows, taps, run + (pack - 1) * shift, pack * channels), np.int8)
    for position in range(pack):
        packed[
            :,
            :,
            position * shift : position * shift + run,
            position * channels : (position + 1) * channels,
        ] = matrix
    return packed


def _pad_to_multiple(matrix: np.ndarray, axis: int, multiple: int) -> np.ndarray:
    """Return a matrix padded with zeros to a multiple of a length along an axis."""
    missing = -matrix.shape[axis] % multiple
    widths = [(0, 0)] * matrix.ndim
    widths[axis] = (0, missing)
    return np.pad(matrix, widths) if missing else matrix


def weight_tiles(matrices: np.ndarray, config: Config, *, narrow: bool = False) -> np.ndarray:
    """Cut filters as matrices (`run_matrices`) into tiles with zeros: (channel blocks, bytes).

    In a narrow mode a tile packs two blocks: the first into the low nibbles, the second into the
    high ones.
    """
    block = config.columns * (2 if narrow else 1)
    full = _pad_to_multiple(_pad_to_multiple(matrices, 2, config.rows), 3, block)
    rows, taps, run, columns = full.shape
    split = full.reshape(
        rows, taps, run // config.rows, config.rows, columns // block, block
    ).transpose(4, 0, 1, 2, 3, 5)
    if narrow:
        split = pack_nibbles(split[..., : config.columns], split[..., config.columns :])
    return np.ascontiguousarray(split.astype(np.int8)).reshape(len(split), -1).view(np.uint8)


def depthwise_as_dense(filters: np.ndarray, depth: int) -> np.ndarray:
    """Return depthwise filters (rows, columns, output channels) as dense ones, mostly zero.

    The result has the axes (output channels, rows, columns, depth).
    """
    rows, columns, channels = filters.shape
    dense = np.zeros((channels, rows, columns, depth), filters.dtype)
    index = np.arange(channels)
    dense[index, :, :, index * depth // channels] = filters.transpose(2, 0, 1)
    return dense


def block_diagonal(filters: np.ndarray, depth: int, config: Config, *, word: int = 1) -> np.ndarray:
    """Return the tiles of depthwise filters (rows, columns, output channels), block by block.

    They are uint8 (output blocks, bytes). The multiplier must divide the array's columns, so that
    each output block reads the same number of input channels, of `word` bytes each.
    """
    rows, columns, channels = filters.shape
    multiplier = channels // depth
    span = word * config.columns // multiplier
    padded = _pad_to_multiple(filters, 2, config.columns)
    blocks = padded.shape[2] // config.columns
    height = -(-span // config.rows) * config.rows
    tiles = np.zeros((blocks, rows, columns, height, config.columns), np.int8)
    index = np.arange(config.columns)
    placed = padded.reshape(rows, columns, blocks, config.columns).transpose(2, 0, 1, 3)
    for byte in range(word):
        tiles[:, :, :, index // multiplier * word + byte, index] = placed
    return tiles.reshape(blocks, -1).view(np.uint8)


def identity_tile(config: Config, *, word: int = 1) -> np.ndarray:
    """Return the uint8 weight tile that passes element r, of `word` bytes, on to column r."""
    tile = np.zeros((config.rows, config.columns), np.int8)
    same = np.repeat(np.eye(config.rows // word, config.columns, dtype=np.int8), word, axis=0)
    tile[: len(same)] = same
    return tile.reshape(-1).view(np.uint8)


def repeated_identity(config: Config, taps: int, channels: int, *, word: int = 1) -> np.ndarray:
    """Return the weight tile, uint8, that sums each channel over `taps` neighbouring taps.

    Channels have `word` bytes each.
    """
    tile = np.zeros((config.rows, config.columns), np.int8)
    same = np.tile(np.repeat(np.eye(channels, dtype=np.int8), word, axis=0), (taps, 1))
    tile[: len(same), :channels] = same
    return tile.reshape(-1).view(np.uint8)


def fold_zero_point(bias: np.ndarray, sums: np.ndarray, input_zero: int) -> np.ndarray:
    """Return ``bias - input_zero * sums`` modulo 2**32 as int32; `sums` are sums of weights."""
    folded = bias.astype(np.int64) - int(input_zero) * sums.astype(np.int64)
    return folded.astype(np.uint64).astype(np.uint32).view(np.int32)


def parameter_blocks(
    bias: np.ndarray,
    scale: tuple[np.ndarray, np.ndarray] | None,
    config: Config,
    *,
    accumulators: int = 1,
) -> np.ndarray:
    """Return the parameter blocks of POST: uint8 (output blocks, 9 or 4 bytes per column).

    A block holds the biases of its channels as int32, then, if scales are per channel, multipliers
    as int32 and shifts as int8. `accumulators` is 2 if output blocks are pairs; each pair then has
    two consecutive blocks.
    """
    parts = [bias.astype("<i4")]
    if scale is not None:
        multiplier, shift = scale
        parts += [multiplier.astype("<i4"), shift.astype("i1")]
    blocks = [
        np.ascontiguousarray(
            _pad_to_multiple(part, 0, accumulators * config.columns).reshape(-1, config.columns)
        ).view(np.uint8)
        for part in parts
    ]
    joined = np.concatenate(blocks, axis=1)
    return joined.reshape(len(joined) // accumulators, -1)


def repeat_columns(values: np.ndarray, channels: int, columns: int) -> np.ndarray:
    """Copy the first `channels` values of each block of columns over the `channels` after them.

    The last axis of `values` consists of blocks of `columns`.
    """
    by_column = values.reshape(len(values), -1, columns).copy()
    by_column[:, :, channels : 2 * channels] = by_column[:, :, :channels]
    return by_column.reshape(values.shape)


def repeat_parameters(params: np.ndarray, channels: int, columns: int) -> np.ndarray:
    """Copy the parameters of the first `channels` columns of each block to the next `channels`.

    A parameter block has one or two 32-bit numbers per column, then bytes.
    """
    words, rest = divmod(params.shape[1], 4 * columns)
    wide = np.ascontiguousarray(params[:, : 4 * columns * words]).view("<i4")
    parts = [repeat_columns(wide, channels, columns).view(np.uint8)]
    if rest:
        parts.append(repeat_columns(params[:, 4 * columns * words :], channels, columns))
    return np.concatenate(parts, axis=1)
