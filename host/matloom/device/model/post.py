"""POST in NumPy, which computes all results of an instruction at once."""

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.curves import SIGMOIDS, Curve, apply_curve
from matloom.arch.floats import add
from matloom.arch.instruction import Instruction
from matloom.arch.isa import (
    FILLS,
    Addend,
    Destination,
    RowFunction,
    Source,
    Table,
    post_element_bytes,
    post_vector_count,
)
from matloom.arch.numerics import (
    ADDEND_SHIFT,
    Rounding,
    add_bias,
    clamp,
    requantize,
    squared_difference,
    wrap32,
)
from matloom.arch.softmax import EXPONENTIAL_BYTES, EXPONENTIALS
from matloom.device.model.floating import elements_of, post_results, written_bytes
from matloom.device.model.parameters import parameters_of
from matloom.device.model.softmax import softmax_rows
from matloom.kernels.result_sums import sum_bytes

#: Number of low bits of an accumulator that are multiplied by a byte, and by a word.
FACTOR_BITS, WORD_FACTOR_BITS = 9, 16

_SIGMOIDS = np.array(SIGMOIDS)


@dataclass(frozen=True)
class TableContents:
    """Contents of the tables that POST fills.

    Members
    -------
    bytes:
        uint8 (tables, 256): entry n is the result for unsigned byte n. There is one table for all
        columns, or with `Config.has_channel_tables` one per column.
    exponentials:
        uint8 (1024,): four bytes, lowest first, per difference from the largest byte of a row.
    """

    bytes: NDArray[np.uint8]
    exponentials: NDArray[np.uint8]

    @classmethod
    def of(cls, config: Config) -> "TableContents":
        """Return tables of a configuration, filled with zeros."""
        return cls(
            bytes=np.zeros((config.byte_tables, 256), np.uint8),
            exponentials=np.zeros(EXPONENTIALS * EXPONENTIAL_BYTES, np.uint8),
        )


def post(
    instruction: Instruction,
    spad: NDArray[np.uint8],
    accumulators: NDArray[np.int32],
    tables: TableContents,
    config: Config,
) -> None:
    """Run one POST on scratchpad bytes (n,), accumulators (entries, columns) and tables."""
    fields, columns = instruction.values, config.columns
    shape = (fields["oc_blocks"], fields["height"], fields["width"], columns)
    sums_shape = (shape[0], shape[1] << fields["pool"], shape[2] << fields["pool"], columns)
    entries = _entries(fields, config)
    if fields["rounding"] == Rounding.FLOAT:
        if fields["source"] == Source.SPAD and fields["destination"] == Destination.SPAD:
            # No entries are used, so their numbers may be out of range.
            _run_float_post(fields, spad, np.zeros(shape, np.int32))
            return
        sums = np.array(accumulators[entries]).reshape(shape)
        _run_float_post(fields, spad, sums)
        if fields["destination"] != Destination.SPAD:
            accumulators[entries] = sums.reshape(-1, columns)
        return
    if fields["softmax"] == RowFunction.SOFTMAX:
        valid = _valid_elements(shape, fields["tail"])
        results = softmax_rows(_read(fields, spad, shape), valid, tables.exponentials)
        spad[_destinations(fields, shape)] = results[valid]
        return
    if fields["source"] == Source.ACC:
        values = accumulators[entries].astype(np.int64).reshape(sums_shape)
    else:
        values = _read(fields, spad, shape)
        if fields["product"]:
            factors = accumulators[entries].astype(np.int64).reshape(shape)
            bits = WORD_FACTOR_BITS if fields["words"] else FACTOR_BITS
            values = (values - fields["factor_zero"]) * _low_bits(factors, bits)
        elif fields["addend"] == Addend.RESULT:
            others = (values & 255).astype(np.uint8)
            values = accumulators[entries].astype(np.int64).reshape(shape)
        elif fields["addend"]:
            kept = accumulators[entries].astype(np.int64).reshape(shape)
            values = _combine(kept, values - fields["factor_zero"], Addend(fields["addend"]))
    bias, multiplier, shift = parameters_of(fields, spad, columns)
    rounding = Rounding(fields["rounding"])
    biased = add_bias(values, bias, rounding)
    results = requantize(biased, multiplier, shift, rounding, fields["pre_shift"])
    valid = _valid_elements(shape, fields["tail"])
    if fields["curve"]:
        _write_words(fields, spad, apply_curve(results, Curve(fields["curve"]), _SIGMOIDS))
        return
    if fields["destination"] == Destination.SPAD:
        results = clamp(results + fields["output_zero"], *_limits(fields))
        if fields["words"]:
            _write_words(fields, spad, results)
            return
        # The low byte; it is also the result if the limits cross.
        written = (results & 255).astype(np.uint8)
        if fields["table"] == Table.LOOK_UP:
            written = tables.bytes[np.arange(columns) % len(tables.bytes), written]
        if fields["addend"] == Addend.RESULT:
            written = sum_bytes(tables.bytes, written, others)
        if fields["pool"]:
            written = _pool_maximum(written)
        if fields["table"] in FILLS or fields["softmax"] == RowFunction.FILL:
            _fill_tables(_tables_to_fill(fields, tables), written.reshape(-1, columns), config)
            return
        spad[_destinations(fields, shape)] = written[valid]
        return
    target = np.array(accumulators[entries]).reshape(shape)
    if fields["destination"] == Destination.ACC_ADD:
        results = wrap32(results + target)
    target[valid] = results.astype(np.int32)[valid]
    accumulators[entries] = target.reshape(-1, columns)


def _entries(fields: dict[str, int], config: Config) -> NDArray[np.int64] | slice:
    """Return the indices of the accumulator entries that a POST uses, block by block."""
    positions, first = post_vector_count(fields), fields["acc_addr"]
    count = fields["oc_blocks"] * positions
    if not fields["pairs"]:
        return slice(first, first + count)
    block, position = np.divmod(np.arange(count), positions)
    pair = first + block // 2 * positions + position
    apart = config.pair_distance
    entries: NDArray[np.int64] = pair + pair // apart * apart + block % 2 * apart
    return entries


@functools.lru_cache(maxsize=4096)
def _valid_elements(shape: tuple[int, ...], tail: int) -> NDArray[np.bool_]:
    """Return a mask of valid elements (blocks, height, width, columns).

    In the last block, only the first `tail` columns are valid; in all others, all are.
    """
    channels = np.full((shape[0], 1, 1, 1), shape[-1])
    channels[-1] = tail
    return np.broadcast_to(np.arange(shape[-1]) < channels, shape)


def _pool_maximum(results: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the maximum of each 2 x 2 block of results, which are compared as signed bytes.

    Results are (blocks, rows, positions, columns); rows and positions are halved.
    """
    blocks, rows, positions, columns = results.shape
    quarters = results.view(np.int8).reshape(blocks, rows // 2, 2, positions // 2, 2, columns)
    largest: NDArray[np.int8] = quarters.max(axis=(2, 4))
    return largest.view(np.uint8)


def _read(
    fields: dict[str, int], spad: NDArray[np.uint8], shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return the source elements, bytes or words, as int64; invalid elements are arbitrary."""
    size = post_element_bytes(fields)
    first = _sources(fields, shape, size)
    values = spad.view(np.int8).take(first + (size - 1)).astype(np.int64)
    return values * 256 + spad.take(first) if size > 1 else values


def _sources(fields: dict[str, int], shape: tuple[int, ...], size: int) -> NDArray[np.int64]:
    """Return the address of the first byte of each source element.

    An invalid element has the address of a valid one, so that it can be read.
    """
    walk = (fields["source_pitch"], fields["x_step"], shape, fields["tail"], size)
    return fields["source_addr"] + _element_offsets(*walk)[0]


def _destinations(
    fields: dict[str, int], shape: tuple[int, ...], size: int = 1
) -> NDArray[np.int64]:
    """Return the address of the first byte of each valid result (n,), in row-major order."""
    walk = (fields["dest_pitch"], fields["x_step"], shape, fields["tail"], size)
    return fields["dest_addr"] + _element_offsets(*walk)[1]


@functools.lru_cache(maxsize=256)
def _element_offsets(
    pitch: int, x_step: int, shape: tuple[int, ...], tail: int, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the byte offsets of all elements of `size` bytes, and those of valid ones (n,).

    Rows are `pitch` bytes apart, and positions `x_step`. An invalid element has the offset of the
    first element of its block.
    """
    blocks, height, width, columns = shape
    grid: NDArray[np.int64] = (
        np.arange(blocks).reshape(-1, 1, 1, 1) * columns * size
        + np.arange(height).reshape(1, -1, 1, 1) * pitch
        + np.arange(width).reshape(1, 1, -1, 1) * x_step
        + np.arange(columns) * size
    )
    valid = _valid_elements(shape, tail)
    return np.where(valid, grid, grid[..., :1]), grid[valid]


def _limits(fields: dict[str, int]) -> tuple[int, int]:
    """Return the smallest and the largest result of a POST."""
    low, high = fields["clamp_low"], fields["clamp_high"]
    if not fields.get("words"):
        return low, high
    return low * 256 + fields["low_byte"], high * 256 + fields["high_byte"]


def _write_words(
    fields: dict[str, int], spad: NDArray[np.uint8], results: NDArray[np.int64]
) -> None:
    """Write the low 16 bits of the valid results to the scratchpad, little-endian."""
    addresses = _destinations(fields, results.shape, 2)
    written = results[_valid_elements(results.shape, fields["tail"])]
    spad[addresses] = written & 255
    spad[addresses + 1] = written >> 8 & 255


def _combine(
    sums: NDArray[np.int64], values: NDArray[np.int64], addend: Addend
) -> NDArray[np.int64]:
    """Return sums plus ``values << ADDEND_SHIFT``, or for SQUARE their squared differences."""
    if addend is Addend.SQUARE:
        return np.asarray(squared_difference(sums, values))
    return np.asarray(wrap32(sums + (values << ADDEND_SHIFT)))


def _low_bits(factors: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return the low `bits` bits of factors as signed numbers."""
    half = 1 << bits - 1
    low: NDArray[np.int64] = ((factors + half) & 2 * half - 1) - half
    return low


def _tables_to_fill(fields: dict[str, int], tables: TableContents) -> NDArray[np.uint8]:
    """Return a view (tables, bytes) of the tables to fill, which all get the same contents."""
    if fields["softmax"]:
        return tables.exponentials.reshape(1, -1)
    return tables.bytes.reshape(1, -1) if fields["table"] == Table.FILL_EACH else tables.bytes


def _fill_tables(tables: NDArray[np.uint8], vectors: NDArray[np.uint8], config: Config) -> None:
    """Write the start of each vector (n, columns) to the next row of all tables; rows wrap."""
    size = config.table_row_bytes
    rows = tables.reshape(len(tables), -1, size)
    for number, vector in enumerate(vectors):
        rows[:, number % rows.shape[1]] = vector[:size]


def _run_float_post(
    fields: dict[str, int], spad: NDArray[np.uint8], sums: NDArray[np.int32]
) -> None:
    """Run one floating-point POST on scratchpad bytes or, in place, on the sums of its entries."""
    format_index, size = fields["pre_shift"], post_element_bytes(fields)
    places, valid = np.arange(size), _valid_elements(sums.shape, fields["tail"])
    if fields["source"] == Source.ACC:
        values = sums.astype(np.int64)
    else:
        first = _sources(fields, sums.shape, size)[..., np.newaxis]
        values = elements_of(spad.take(first + places), format_index)
    bias, _multiplier, _shift = parameters_of(fields, spad, sums.shape[-1])
    limits = fields["clamp_low"], fields["clamp_high"]
    results = post_results(values, np.asarray(bias), *limits)
    if fields["destination"] == Destination.SPAD:
        addresses = _destinations(fields, sums.shape, size)
        spad[addresses[:, np.newaxis] + places] = written_bytes(results[valid], format_index)
        return
    if fields["destination"] == Destination.ACC_ADD:
        results = np.asarray(add(sums.astype(np.int64) & 0xFFFFFFFF, results))
    sums[valid] = results[valid].astype(np.uint32).view(np.int32)
