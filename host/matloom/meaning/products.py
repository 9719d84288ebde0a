"""Model of EXEC on probes: reads its input in loops, and adds products to accumulators."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import WINDOW_TAPS, Config
from matloom.arch.floats import FLOAT_FORMATS
from matloom.arch.modes import FLOAT_MODES, MAC_MODES, NARROW_MODES
from matloom.arch.numerics import high_nibble, low_nibble
from matloom.meaning.floats import element_probes, weight_probes
from matloom.meaning.state import State
from matloom.meaning.terms import Integers, is_known, nibbles, peaks, product_of_probes, wrap
from matloom.meaning.walk import InputWalk, WeightTiles, paired_vectors

#: Number of products of bytes and 31-bit probes whose sum stays below 2**53.
_MAX_EXACT_TERMS = 2**13

#: Approximate number of input values that an EXEC with sliding windows gathers at a time.
_GATHERED_VALUES = 2**19

_Fields = Mapping[str, int]
_Floats = NDArray[np.float64]


def prepare_exec(state: State, fields: _Fields) -> Callable[[], None]:
    """Return a function that runs an EXEC with these fields, as often as it is called."""
    if fields["window"]:
        return _prepare_sliding_exec(state, fields)
    mode = MAC_MODES[fields["mode"]]
    if not (
        mode in NARROW_MODES
        or mode in FLOAT_MODES
        or fields["oc_step"]
        or _steps_are_separate(fields)
    ):
        return _prepare_all_blocks(state, fields, mode)
    return partial(_run_block_by_block, state, fields, mode)


def _run_block_by_block(state: State, fields: _Fields, mode: str) -> None:
    """Run an EXEC, one block of output channels after another."""
    config, positions = state.config, fields["width"] * fields["height"]
    operands: _Floats | None = None
    for block in range(fields["oc_blocks"]):
        if operands is None or fields["oc_step"]:
            operands = _operands(state, InputWalk(state, fields, block), mode)
        tiles = WeightTiles(state, fields, block).tiles()[0]
        first_entry = fields["acc_addr"] + block * positions
        if mode in NARROW_MODES:
            apart = config.pair_distance
            entries = first_entry + np.arange(positions)
            first = entries + entries // apart * apart
            for half, places in ((low_nibble, first), (high_nibble, first + apart)):
                numbers = half(tiles.astype(np.int64)).astype(np.float64)
                _write_sums(state, places, _sums(operands, numbers, fields), fields)
        else:
            if mode in FLOAT_MODES:
                tiles = _float_tiles(tiles, mode, config)
            _store_sums(state, first_entry, _sums(operands, tiles, fields), fields)


def _may_be_computed(fields: _Fields) -> bool:
    """Return whether an EXEC's weights may be results of the network, and thus unknown."""
    return bool(fields["weights_wait_post"] and not fields["weights_fixed"])


def _steps_are_separate(fields: _Fields) -> bool:
    """Return whether each weight tile (step) needs a matrix product of its own, not one for all."""
    return bool(fields["maximum"] or fields["weights_fixed"])


def _prepare_all_blocks(state: State, fields: _Fields, mode: str) -> Callable[[], None]:
    """Return a function that runs an EXEC as one product, if all blocks read the same inputs."""
    blocks, columns = fields["oc_blocks"], state.config.columns
    walk = InputWalk(state, fields, 0)
    weights = WeightTiles(state, fields, 0, blocks, constant=not _may_be_computed(fields))

    def run() -> None:
        """Compute the sums of all output blocks with one product, and store them."""
        operands = _operands(state, walk, mode)
        wide = weights.tiles().transpose(1, 2, 0, 3).reshape(-1, blocks * columns)
        sums = _product(operands.reshape(len(operands), -1), wide, fields)
        if blocks > 1:
            by_block = sums.reshape(-1, blocks, columns).transpose(1, 0, 2)
            sums = by_block.reshape(-1, columns)
        _store_sums(state, fields["acc_addr"], sums, fields)

    return run


def _store_sums(state: State, entry: int, sums: Integers, fields: _Fields) -> None:
    """Write sums (positions, columns) to entries from `entry` on, or add if EXEC accumulates."""
    _write_sums(state, slice(entry, entry + len(sums)), sums, fields)


def _write_sums(state: State, entries: Integers | slice, sums: Integers, fields: _Fields) -> None:
    """Write sums (positions, columns), or maxima encoded by `peaks`, to entries, or add them."""
    if fields["accumulate"]:
        sums = sums + state.accumulators[entries]
    state.accumulators[entries] = wrap(sums)


def _sums(operands: _Floats, tiles: _Floats, fields: _Fields) -> Integers:
    """Return the sums (positions, columns) of operands (positions, steps, rows) and tiles."""
    steps, rows = operands.shape[1:]
    if fields["maximum"]:
        of_steps = [
            (operands[:, step] @ tiles[step % len(tiles)]).astype(np.int64) for step in range(steps)
        ]
        return np.asarray(sum(peaks(item) for item in of_steps))
    if len(tiles) < steps:
        # With one tile for all steps, the operands of steps are added first.
        once: Integers = (operands.sum(axis=1) @ tiles[0]).astype(np.int64)
        return once
    flat, matrix = operands.reshape(len(operands), -1), tiles.reshape(steps * rows, -1)
    return _product(flat, matrix, fields)


def _product(flat: _Floats, matrix: _Floats, fields: _Fields) -> Integers:
    """Return the product of two matrices: exact, or modulo 2**32 if both may hold unknown bytes."""
    if _may_be_computed(fields):
        return product_of_probes(flat, matrix)
    if len(matrix) <= _MAX_EXACT_TERMS:
        return (flat @ matrix).astype(np.int64)
    total = np.zeros((len(flat), matrix.shape[1]), np.int64)
    for first in range(0, len(matrix), _MAX_EXACT_TERMS):
        part = slice(first, first + _MAX_EXACT_TERMS)
        total += (flat[:, part] @ matrix[part]).astype(np.int64)
    return total


def _operands(state: State, walk: InputWalk, mode: str) -> _Floats:
    """Return the input vectors (positions, steps, rows) of an EXEC as factors for `mode`."""
    raw = walk.vectors()
    if mode == "i4xi4":
        return nibbles(raw.astype(np.int64)).astype(np.float64)
    if mode == "i16xi8":
        raw = raw.copy()
        low = raw[:, :, ::2]
        raw[:, :, ::2] = low + 256 * (is_known(low) & (low < 0))
        raw[:, :, 1::2] *= 256
    elif mode in FLOAT_MODES:
        size, count = FLOAT_FORMATS[mode].bytes, state.config.float_rows
        used = raw[:, :, : count * size].astype(np.int64)
        return element_probes([used[:, :, place::size] for place in range(size)]).astype(np.float64)
    return raw


def _float_tiles(tiles: _Floats, mode: str, config: Config) -> _Floats:
    """Return numbers for floating-point weights (steps, elements, columns), two rows for each."""
    raw = tiles[:, : 2 * config.float_rows].astype(np.int64) & 255
    high = raw[:, 1::2] if FLOAT_FORMATS[mode].bytes > 1 else 0
    return weight_probes(raw[:, ::2] + 256 * high).astype(np.float64)


def _prepare_sliding_exec(state: State, fields: _Fields) -> Callable[[], None]:
    """Return a function that runs an EXEC with sliding windows (decision 0002).

    It computes a few output blocks at a time, to limit memory.
    """
    taps = _taps(fields, state.config)
    outputs, blocks = len(taps.outputs), fields["oc_blocks"]
    steps = fields["kernel_rows"] * fields["kernel_cols"] * fields["blocks"]
    size = max(1, outputs * steps * len(taps.firsts) * state.config.columns)
    at_once = max(1, _GATHERED_VALUES // size)
    parts = [
        _prepare_windows(state, fields, taps, block, min(at_once, blocks - block))
        for block in range(0, blocks, at_once)
    ]

    def run() -> None:
        """Run all parts, one after another."""
        for part in parts:
            part()

    return run


def _prepare_windows(
    state: State, fields: _Fields, taps: "_Taps", block: int, count: int
) -> Callable[[], None]:
    """Return a function that computes `count` channel blocks, from `block`, by sliding windows."""
    config = state.config
    steps = fields["kernel_rows"] * fields["kernel_cols"] * fields["blocks"]
    shape = count, fields["width"] * fields["height"], steps, -1
    read: Callable[[], _Floats] = partial(paired_vectors, state, fields, block, count)
    if not fields["paired"]:
        read = InputWalk(state, fields, block, count).vectors
    weights = WeightTiles(state, fields, block, count)
    entry = fields["acc_addr"] + block * len(taps.outputs)

    def run() -> None:
        """Compute the window sums of all blocks, and store them from `entry` on."""
        tiles = weights.tiles()
        if len(tiles) < count or tiles.shape[1] < steps:
            tiles = np.broadcast_to(tiles, (count, steps, config.rows, config.columns))
        sums = _window_sums(read().reshape(shape), tiles, taps, fields, config)
        _store_sums(state, entry, sums.reshape(-1, config.columns), fields)

    return run


@dataclass(frozen=True)
class _Taps:
    """Vectors that the sliding windows of an EXEC read; they are the same in every step.

    Members
    -------
    vectors:
        (outputs, taps): index of the vector under each tap. The number of vectors means padding.
    firsts:
        Offset of the first byte that each tap reads in its vector.
    outputs:
        Index of the vector that completes each output.
    """

    vectors: Integers
    firsts: tuple[int, ...]
    outputs: Integers


def _taps(fields: _Fields, config: Config) -> _Taps:
    """Return the taps of an EXEC with sliding windows."""
    line = max(fields["line"], WINDOW_TAPS)
    shape = (fields["out_height"], fields["out_width"], fields["out_y_skip"], fields["out_x_skip"])
    first_and_count = (fields["first_output"], fields["width"] * fields["height"])
    lines = config.window_shapes[0 if fields["paired"] else fields["window_shape"]]
    return _taps_of(line, shape, first_and_count, lines, config.columns * fields["paired"])


@lru_cache(maxsize=256)
def _taps_of(
    line: int,
    shape: tuple[int, int, int, int],
    first_and_count: tuple[int, int],
    lines: tuple[int, ...],
    paired: int,
) -> _Taps:
    """Return taps for lines of `line` vectors, an output shape with skips, and window lines."""
    height, width, y_skip, x_skip = shape
    first, count = first_and_count
    columns = np.arange(width) * (x_skip + 1)
    numbers = first + np.add.outer(np.arange(height) * (y_skip + 1) * line, columns)
    # Vectors beyond the end of a line are not outputs.
    kept = numbers[:, columns < line].reshape(-1)
    outputs = kept[kept < count]
    distances, firsts = [], []
    for y, x in ((y, x) for y, taps in enumerate(lines) for x in range(taps)):
        if paired:
            distances.append((1 - y // 2) * line + 1 - x // 2)
            firsts.append((2 * (x % 2) + y % 2) * paired)
        else:
            distances.append((len(lines) - 1 - y) * line + lines[y] - 1 - x)
            firsts.append(0)
    vectors = np.subtract.outer(outputs, distances)
    return _Taps(np.where(vectors < 0, count, vectors), tuple(firsts), outputs)


def _window_sums(
    vectors: _Floats, tiles: _Floats, taps: _Taps, fields: _Fields, config: Config
) -> Integers:
    """Return the sums (blocks, outputs, columns) of an EXEC with sliding windows.

    A column multiplies its own byte of the vector under each tap by one of a tile's first rows. The
    remaining rows of the tile multiply the rest of the vector that completes the output; if vectors
    are `paired`, they multiply padding.

    Parameters
    ----------
    vectors, tiles:
        (blocks, vectors, steps, bytes) and (blocks, steps, rows, columns).
    """
    columns, count = config.columns, len(taps.firsts)
    blocks, number, steps, size = vectors.shape
    padded = np.full((blocks, number + 1, steps, size), float(fields["pad_value"]))
    padded[:, :-1] = vectors
    if fields["paired"]:
        bytes_of = np.add.outer(taps.firsts, np.arange(columns))
        places = (slice(None), taps.vectors[:, :, None, None], np.arange(steps)[:, None])
        found = padded[(*places, bytes_of[:, None, :])]
    else:
        found = padded.take(taps.vectors, axis=1)[..., :columns]
    rest = slice(count, config.rows)
    others = count < config.rows and tiles[:, :, rest].any()
    if not others and steps * count <= _MAX_EXACT_TERMS and not fields["maximum"]:
        exact = np.einsum("botsc,bstc->boc", found, tiles[:, :, :count])
        return np.asarray(exact.astype(np.int64))
    total = np.einsum("botsc,bstc->bosc", found, tiles[:, :, :count])
    if others:
        if fields["paired"]:
            total += fields["pad_value"] * tiles[:, None, :, rest].sum(axis=3)
        else:
            read = vectors[:, taps.outputs][..., rest]
            total += np.einsum("bosr,bsrc->bosc", read, tiles[:, :, rest])
    sums = total.astype(np.int64)
    return np.asarray((peaks(sums) if fields["maximum"] else sums).sum(axis=2))
