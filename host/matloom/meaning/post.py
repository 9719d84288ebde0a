"""POST over probes: what stands for sums becomes what stands for bytes, words or numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from matloom.arch.isa import Destination, Source, Table, post_element_bytes
from matloom.arch.numerics import Rounding, wrap32
from matloom.meaning.errors import MeaningError
from matloom.meaning.floats import element_bytes, elements, limited
from matloom.meaning.state import State, view
from matloom.meaning.terms import (
    Integers,
    Scale,
    is_known,
    join_words,
    looked_up,
    requantised,
    split_words,
)

__all__ = ["post"]

_Fields = Mapping[str, int]


def post(state: State, fields: _Fields) -> None:
    """Run one POST; numbers are (height, width, channels), channels those of all blocks."""
    state.written = None
    channels = (fields["oc_blocks"] - 1) * state.config.columns + fields["tail"]
    floating = fields["rounding"] == Rounding.FLOAT
    entries = _entries(state, fields)
    if fields["source"] == Source.ACC:
        values = _of_entries(state, fields, entries)[..., :channels]
    else:
        values = _read(state, fields, channels)
        if fields["product"]:
            factors = _of_entries(state, fields, entries)[..., :channels]
            with np.errstate(over="ignore"):
                values = wrap32((values - fields["factor_zero"]) * factors)
    bias, multiplier, shift = _parameters(state, fields, channels)
    if floating:
        results = limited(values, bias, fields["clamp_low"], fields["clamp_high"])
    else:
        kind = "sum" if fields["destination"] != Destination.SPAD else "byte"
        if kind == "byte" and fields["words"]:
            kind = "word"
        results = requantised(values, bias, _scale(fields, multiplier, shift), kind)
    if fields["destination"] != Destination.SPAD:
        _accumulate(state, fields, entries, results, channels)
        return
    table = fields["table"]
    if table == Table.FILL:
        _fill(state, fields, results)
        return
    if table == Table.LOOK_UP:
        results = looked_up(state.table, results)
    state.written = results
    _write(state, fields, results)


def _entries(state: State, fields: _Fields) -> Integers:
    """Return the numbers of the entries of each block, then position."""
    positions = fields["height"] * fields["width"]
    number = np.arange(fields["oc_blocks"] * positions)
    if not fields["pairs"]:
        return np.asarray(fields["acc_addr"] + number)
    apart = state.config.pair_distance
    block, position = np.divmod(number, positions)
    pair = fields["acc_addr"] + block // 2 * positions + position
    return np.asarray(pair + pair // apart * apart + block % 2 * apart)


def _of_entries(state: State, fields: _Fields, entries: Integers) -> Integers:
    shape = (fields["oc_blocks"], fields["height"], fields["width"], -1)
    found = state.accumulators[entries].reshape(shape)
    return found.transpose(1, 2, 0, 3).reshape(fields["height"], fields["width"], -1)


def _accumulate(
    state: State, fields: _Fields, entries: Integers, results: Integers, channels: int
) -> None:
    """Set or add to the accumulators of valid channels."""
    blocks, columns = fields["oc_blocks"], state.config.columns
    target = _of_entries(state, fields, entries)
    if fields["destination"] == Destination.ACC_ADD:
        results = wrap32(results + target[..., :channels])
    target = target.copy()
    target[..., :channels] = results
    by_block = target.reshape(*target.shape[:2], blocks, columns).transpose(2, 0, 1, 3)
    state.accumulators[entries] = by_block.reshape(-1, columns)


def _places(fields: _Fields, side: str, channels: int, size: int) -> tuple[Any, Any]:
    shape = (fields["height"], fields["width"], channels * size)
    return shape, (fields[f"{side}_pitch"], fields["x_step"], 1)


def _read(state: State, fields: _Fields, channels: int) -> Integers:
    """Return the source's elements: bytes, words or floating-point numbers."""
    size = post_element_bytes(fields)
    shape, steps = _places(fields, "source", channels, size)
    raw = view(state.spad, fields["source_addr"], shape, steps).astype(np.int64)
    parts = [raw[..., place::size] for place in range(size)]
    if fields["rounding"] == Rounding.FLOAT:
        return elements(parts)
    return join_words(*parts) if size > 1 else raw


def _write(state: State, fields: _Fields, results: Integers) -> None:
    size = post_element_bytes(fields)
    shape, steps = _places(fields, "dest", results.shape[-1], size)
    parts = [results]
    if fields["rounding"] == Rounding.FLOAT:
        parts = element_bytes(results, fields["pre_shift"], size)
    elif size > 1:
        parts = list(split_words(results))
    made = np.stack(parts, axis=-1).reshape(shape)
    target = view(state.spad, fields["dest_addr"], shape, steps)
    # Block after block, as POST does: results may lie on each other.
    block = state.config.columns * size
    for first in range(0, shape[-1], block):
        target[..., first : first + block] = made[..., first : first + block]


def _fill(state: State, fields: _Fields, results: Integers) -> None:
    """Put the first bytes of vectors, block by block, into the table, a row each; rows wrap."""
    size, columns = state.config.table_row_bytes, state.config.columns
    rows = state.table.reshape(-1, size)
    vectors = [
        vector
        for block in range(fields["oc_blocks"])
        for vector in results.reshape(-1, results.shape[-1])[:, block * columns :][:, :size]
    ]
    for number, vector in enumerate(vectors):
        if len(vector) < size or not is_known(vector).all():
            raise MeaningError("entries of a table must be constants")
        rows[number % len(rows)] = vector


def _scale(fields: _Fields, multiplier: Any, shift: Any) -> Scale:
    """Return the scale that the fields state, with multipliers and shifts of channels."""
    low, high = fields["clamp_low"], fields["clamp_high"]
    if fields["words"]:
        low, high = low * 256 + fields["low_byte"], high * 256 + fields["high_byte"]
    return Scale(
        multiplier=multiplier,
        shift=shift,
        rounding=fields["rounding"],
        pre_shift=fields["pre_shift"],
        zero=fields["output_zero"],
        low=low,
        high=high,
    )


def _parameters(state: State, fields: _Fields, channels: int) -> tuple[Any, Any, Any]:
    """Return bias, multiplier and shift, of all channels or of each."""
    columns, blocks = state.config.columns, fields["oc_blocks"]
    bias_bytes = 4 * columns * fields["channel_bias"]
    size = bias_bytes + 5 * columns * fields["channel_scale"]
    first = fields["param_addr"]
    raw = state.spad[first : first + blocks * size].reshape(blocks, size).astype(np.int64)

    def numbers(start: int, count: int) -> Integers:
        """Return integers of `count` bytes, lowest first, one a channel."""
        part = raw[:, start : start + count * columns].reshape(blocks * columns, count)[:channels]
        if not is_known(part).all():
            raise MeaningError(f"parameters at byte {first} of the scratchpad must be constants")
        unsigned = np.where(np.arange(count) < count - 1, part & 255, part)
        return np.asarray((unsigned << 8 * np.arange(count)).sum(axis=1))

    bias: Any = fields["bias"]
    multiplier: Any = fields["multiplier"]
    shift: Any = fields["shift"]
    if fields["channel_bias"]:
        bias = numbers(0, 4)
    if fields["channel_scale"]:
        multiplier = numbers(bias_bytes, 4)
        shift = numbers(bias_bytes + 4 * columns, 1)
    return bias, multiplier, shift
