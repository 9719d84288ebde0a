"""POST on probes: turns sums into bytes, words or floating-point numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from matloom.arch.isa import Destination, Source, Table, post_element_bytes
from matloom.arch.numerics import ADDEND_SCALE, Rounding, wrap32
from matloom.meaning.errors import MeaningError
from matloom.meaning.floats import element_bytes, elements, limited
from matloom.meaning.state import State, view
from matloom.meaning.terms import (
    Integers,
    RequantisedTerm,
    Scale,
    is_known,
    join_words,
    looked_up,
    split_words,
)

__all__ = ["post"]

_Fields = Mapping[str, int]

#: A byte that is added: shifted left, as rule DOUBLE makes it by this scale.
_ADDEND = RequantisedTerm(
    bias=0,
    scale=Scale(
        **dict(zip(("multiplier", "shift", "pre_shift"), ADDEND_SCALE, strict=True)),
    ),
    kind="sum",
)


def post(state: State, fields: _Fields) -> None:
    """Run one POST; arrays are (height, width, channels), with the channels of all blocks."""
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
        elif fields["addend"]:
            sums = _of_entries(state, fields, entries)[..., :channels]
            values = wrap32(sums + _ADDEND.of(values - fields["factor_zero"]))
    parameters = _parameters(state, fields, channels)
    if floating:
        bias = fields["bias"] if parameters.bias is None else parameters.bias
        results = limited(values, bias, fields["clamp_low"], fields["clamp_high"])
    else:
        kind = "sum" if fields["destination"] != Destination.SPAD else "byte"
        if kind == "byte" and fields["words"]:
            kind = "word"
        results = _requantisation(parameters, _scaling(fields), kind).of(values)
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


def _entries(state: State, fields: _Fields) -> Integers | slice:
    """Return the entry numbers of each block and position."""
    positions = fields["height"] * fields["width"]
    if not fields["pairs"]:
        return slice(fields["acc_addr"], fields["acc_addr"] + fields["oc_blocks"] * positions)
    number = np.arange(fields["oc_blocks"] * positions)
    apart = state.config.pair_distance
    block, position = np.divmod(number, positions)
    pair = fields["acc_addr"] + block // 2 * positions + position
    return np.asarray(pair + pair // apart * apart + block % 2 * apart)


def _of_entries(state: State, fields: _Fields, entries: Integers | slice) -> Integers:
    shape = (fields["oc_blocks"], fields["height"], fields["width"], -1)
    found = state.accumulators[entries].reshape(shape)
    return found.transpose(1, 2, 0, 3).reshape(fields["height"], fields["width"], -1)


def _accumulate(
    state: State, fields: _Fields, entries: Integers | slice, results: Integers, channels: int
) -> None:
    """Set accumulators of valid channels, or add to them."""
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
    """Return the source elements: bytes, words or floating-point numbers."""
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
    joined_bytes = parts[0] if size == 1 else np.stack(parts, axis=-1).reshape(shape)
    target = view(state.spad, fields["dest_addr"], shape, steps)
    # Block after block, as POST does: results may lie on each other.
    block = state.config.columns * size
    for first in range(0, shape[-1], block):
        target[..., first : first + block] = joined_bytes[..., first : first + block]


def _fill(state: State, fields: _Fields, results: Integers) -> None:
    """Write the first bytes of vectors, block by block, to the table, one row each; rows wrap."""
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


@dataclass(frozen=True, kw_only=True, eq=False)
class _Parameters:
    """Parameters by channel, (channels,); None if one number applies to all."""

    bias: Integers | None = None
    multiplier: Integers | None = None
    shift: Integers | None = None


_NO_PARAMETERS = _Parameters()

#: The fields of which a scale is made, in the order of `_requantisation`.
_scaling = itemgetter(
    *("bias", "multiplier", "shift", "rounding", "pre_shift", "output_zero"),
    *("clamp_low", "clamp_high", "words", "low_byte", "high_byte"),
)


@lru_cache(maxsize=1024)
def _requantisation(
    parameters: _Parameters, scaling: tuple[int, ...], kind: str
) -> RequantisedTerm:
    """Return the requantisation of a POST; cached, as the tiles of a layer share it."""
    bias, multiplier, shift, rounding, pre_shift, zero, low, high, words, *ends = scaling
    if words:
        low, high = low * 256 + ends[0], high * 256 + ends[1]
    scale = Scale(
        multiplier=multiplier if parameters.multiplier is None else parameters.multiplier,
        shift=shift if parameters.shift is None else parameters.shift,
        rounding=rounding,
        pre_shift=pre_shift,
        zero=zero,
        low=low,
        high=high,
    )
    return RequantisedTerm(
        bias=bias if parameters.bias is None else parameters.bias, scale=scale, kind=kind
    )


def _parameters(state: State, fields: _Fields, channels: int) -> _Parameters:
    """Return the parameters of channels that POST reads."""
    has_bias, has_scale = fields["channel_bias"], fields["channel_scale"]
    if not (has_bias or has_scale):
        return _NO_PARAMETERS
    columns, blocks = state.config.columns, fields["oc_blocks"]
    first = fields["param_addr"]
    end = first + blocks * columns * (4 * has_bias + 5 * has_scale)
    found = _decoded(state.spad[first:end].tobytes(), blocks, (has_bias, has_scale), channels)
    if found is None:
        raise MeaningError(f"parameters at byte {first} of the scratchpad must be constants")
    return found


@lru_cache(maxsize=1024)
def _decoded(held: bytes, blocks: int, has: tuple[int, int], channels: int) -> _Parameters | None:
    """Return the parameters stored in scratchpad bytes; None if any is not constant."""
    raw = np.frombuffer(held, np.float64).reshape(blocks, -1).astype(np.int64)
    has_bias, has_scale = has
    columns = raw.shape[1] // (4 * has_bias + 5 * has_scale)
    found, first = [], 0
    for count, there in ((4, has_bias), (4, has_scale), (1, has_scale)):
        part = raw[:, first : first + there * count * columns].reshape(-1, count)[:channels]
        first += there * count * columns
        if not is_known(part).all():
            return None
        unsigned = np.where(np.arange(count) < count - 1, part & 255, part)
        found.append((unsigned << 8 * np.arange(count)).sum(axis=1) if there else None)
    bias, multiplier, shift = found
    return _Parameters(bias=bias, multiplier=multiplier, shift=shift)
