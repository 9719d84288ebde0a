"""Model of POST on probes: turns sums into bytes, words or floating-point numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matloom.arch.isa import (
    FILLS,
    Addend,
    Destination,
    RowFunction,
    Source,
    Table,
    post_element_bytes,
)
from matloom.arch.numerics import ADDEND_SCALE, SQUARE_SCALE, Rounding, wrap32
from matloom.meaning.errors import MeaningError
from matloom.meaning.floats import element_bytes, element_probes, limit_sums
from matloom.meaning.state import State, strided_view
from matloom.meaning.terms import (
    Integers,
    RequantisedTerm,
    Scale,
    apply_curve,
    apply_softmax,
    is_known,
    join_words,
    look_up,
    pool_maximum,
    split_words,
    wrap,
)

_Fields = Mapping[str, int]
_Floats = NDArray[np.float64]


def _shift_term(multiplier: int, shift: int, pre_shift: int) -> RequantisedTerm:
    """Return the requantisation of bytes that are only shifted before a POST adds them."""
    scale = Scale(multiplier=multiplier, shift=shift, pre_shift=pre_shift)
    return RequantisedTerm(bias=0, scale=scale, kind="sum")


#: Term of the byte that POST adds to a sum (ADD), or subtracts from it before squaring (SQUARE).
_TERMS = {Addend.ADD: _shift_term(*ADDEND_SCALE), Addend.SQUARE: _shift_term(*SQUARE_SCALE)}


class Post:
    """A POST with given fields, which each call runs; arrays are (height, width, all channels)."""

    def __init__(self, state: State, fields: _Fields) -> None:
        self._state, self._fields = state, fields
        self._channels = (fields["oc_blocks"] - 1) * state.config.columns + fields["tail"]
        self._floating = fields["rounding"] == Rounding.FLOAT
        self._entries = _Entries(state, fields)
        self._parameters = _ParameterBytes(state, fields, self._channels)
        self._scaling = _scaling(fields)
        self._size = post_element_bytes(fields)
        self._kind = "word" if fields["words"] else "byte"
        if fields["destination"] != Destination.SPAD or fields["curve"]:
            self._kind = "sum"
        fills = fields["table"] in FILLS or fields["softmax"] == RowFunction.FILL
        if fields["destination"] == Destination.SPAD and not fills:
            self._target = self._scratchpad_bytes("dest")
        if fields["source"] != Source.ACC:
            self._source = self._scratchpad_bytes("source")
        self._term: tuple[_Parameters | None, RequantisedTerm | None] = None, None

    def __call__(self) -> None:
        """Run the POST."""
        state, fields = self._state, self._fields
        state.written = None
        if fields["softmax"] == RowFunction.SOFTMAX:
            state.written = apply_softmax(state.exponentials, self._read())
            self._write(state.written)
            return
        results = self._requantise_values(self._values())
        if fields["destination"] != Destination.SPAD:
            if fields["destination"] == Destination.ACC_ADD:
                results = wrap(results + self._entries.sums(self._channels)).astype(np.int64)
            self._entries.set_sums(results)
            return
        table = fields["table"]
        if table in FILLS:
            tables = state.table.reshape(1, -1) if table == Table.FILL_EACH else state.table
            _fill_tables(tables, state, fields, results)
            return
        if fields["softmax"] == RowFunction.FILL:
            _fill_tables(state.exponentials.reshape(1, -1), state, fields, results)
            return
        if table == Table.LOOK_UP:
            results = look_up(state.table, results)
        if fields["pool"]:
            results = pool_maximum(results)
        if fields["addend"] == Addend.RESULT:
            results = state.sums.apply(state.table, results, self._read())
        state.written = results
        self._write(results)

    def _values(self) -> Integers:
        """Return the values to requantise: sums, source elements, or both combined."""
        fields = self._fields
        if fields["source"] == Source.ACC or fields["addend"] == Addend.RESULT:
            return self._entries.sums(self._channels)
        values = self._read()
        if fields["product"]:
            factors = self._entries.sums(self._channels)
            with np.errstate(over="ignore"):
                return np.asarray(wrap32((values - fields["factor_zero"]) * factors))
        if fields["addend"]:
            addend, sums = Addend(fields["addend"]), self._entries.sums(self._channels)
            term = _TERMS[addend].apply(values - fields["factor_zero"])
            if addend is Addend.ADD:
                return np.asarray(wrap32(sums + term))
            difference = wrap32(sums - term)
            with np.errstate(over="ignore"):
                return np.asarray(wrap32(difference * difference))
        return values

    def _requantise_values(self, values: Integers) -> Integers:
        """Return results for values: requantised, and passed through the POST's curve if any."""
        fields, parameters = self._fields, self._parameters.read()
        if self._floating:
            bias = fields["bias"] if parameters.bias is None else parameters.bias
            return limit_sums(values, bias, fields["clamp_low"], fields["clamp_high"])
        known, term = self._term
        if term is None or known is not parameters:
            term = _requantisation(parameters, self._scaling, self._kind)
            self._term = parameters, term
        results = term.apply(values)
        return apply_curve(results, fields["curve"]) if fields["curve"] else results

    def _scratchpad_bytes(self, side: str) -> _Floats:
        """Return a view (height, width, channel bytes) of POST's ``"source"`` or ``"dest"``."""
        fields = self._fields
        shape = fields["height"], fields["width"], self._channels * self._size
        steps = fields[f"{side}_pitch"], fields["x_step"], 1
        return strided_view(self._state.spad, fields[f"{side}_addr"], shape, steps)

    def _read(self) -> Integers:
        """Return the source elements: bytes, words or floating-point numbers."""
        size, raw = self._size, self._source.astype(np.int64)
        if size == 1 and not self._floating:
            return raw
        parts = [raw[..., place::size] for place in range(size)]
        return element_probes(parts) if self._floating else join_words(*parts)

    def _write(self, results: Integers) -> None:
        """Write results to the scratchpad, block after block as POST does; they may overlap."""
        size, target = self._size, self._target
        parts = [results]
        if self._floating:
            parts = element_bytes(results, self._fields["pre_shift"], size)
        elif size > 1:
            parts = list(split_words(results))
        joined = parts[0] if size == 1 else np.stack(parts, axis=-1).reshape(target.shape)
        block = self._state.config.columns * size
        for first in range(0, target.shape[-1], block):
            target[..., first : first + block] = joined[..., first : first + block]


class _Entries:
    """Accumulator entries that a POST reads or writes, for each block and position."""

    def __init__(self, state: State, fields: _Fields) -> None:
        self._accumulators = state.accumulators
        self._columns = state.config.columns
        first, blocks = fields["acc_addr"], fields["oc_blocks"]
        # A block of 2 x 2 sums makes a result.
        height, width = (fields[name] << fields["pool"] for name in ("height", "width"))
        positions = height * width
        self._shape = (blocks, height, width, self._columns)
        self._flat_shape = (height, width, blocks * self._columns)
        if not fields["pairs"]:
            self._entries: Integers | slice = slice(first, first + blocks * positions)
            return
        apart = state.config.pair_distance
        block, position = np.divmod(np.arange(blocks * positions), positions)
        pair = first + block // 2 * positions + position
        self._entries = np.asarray(pair + pair // apart * apart + block % 2 * apart)

    def sums(self, channels: int) -> Integers:
        """Return the sums (height, width, channels), possibly as a view of the accumulators."""
        found = self._accumulators[self._entries].reshape(self._shape)
        return found.transpose(1, 2, 0, 3).reshape(self._flat_shape)[..., :channels]

    def set_sums(self, results: NDArray[Any]) -> None:
        """Write results (height, width, channels) to the sums of these channels."""
        target = self._accumulators[self._entries].reshape(self._shape)
        for block, sums in enumerate(target):
            part = results[..., block * self._columns :][..., : self._columns]
            sums[..., : part.shape[-1]] = part
        if not isinstance(self._entries, slice):
            self._accumulators[self._entries] = target.reshape(-1, self._columns)


def _fill_tables(tables: Integers, state: State, fields: _Fields, results: Integers) -> None:
    """Write the first bytes of each vector to the next row of every table; rows wrap around."""
    size, columns = state.config.table_row_bytes, state.config.columns
    rows = tables.reshape(len(tables), -1, size)
    vectors = [
        vector
        for block in range(fields["oc_blocks"])
        for vector in results.reshape(-1, results.shape[-1])[:, block * columns :][:, :size]
    ]
    for number, vector in enumerate(vectors):
        if len(vector) < size or not is_known(vector).all():
            raise MeaningError("entries of a table must be constants")
        rows[:, number % rows.shape[1]] = vector


@dataclass(frozen=True, kw_only=True, eq=False)
class _Parameters:
    """Parameters of POST by channel (channels,); None for those that are fields of the POST."""

    bias: Integers | None = None
    multiplier: Integers | None = None
    shift: Integers | None = None


_NO_PARAMETERS = _Parameters()

#: Return the fields that form a scale, in the order in which `_requantisation` unpacks them.
_scaling = itemgetter(
    *("bias", "multiplier", "shift", "rounding", "pre_shift", "output_zero"),
    *("clamp_low", "clamp_high", "words", "low_byte", "high_byte"),
)


@lru_cache(maxsize=1024)
def _requantisation(
    parameters: _Parameters, scaling: tuple[int, ...], kind: str
) -> RequantisedTerm:
    """Return the requantisation of a POST, cached because the tiles of a layer share it."""
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


class _ParameterBytes:
    """Place in the scratchpad from which a POST reads parameters by channel."""

    def __init__(self, state: State, fields: _Fields, channels: int) -> None:
        self._has, self._channels = (fields["channel_bias"], fields["channel_scale"]), channels
        has_bias, has_scale = self._has
        self._blocks, self._first = fields["oc_blocks"], fields["param_addr"]
        size = self._blocks * state.config.columns * (4 * has_bias + 5 * has_scale)
        self._held = state.spad[self._first : self._first + size]
        self._known: tuple[bytes, _Parameters] = b"", _NO_PARAMETERS

    def read(self) -> _Parameters:
        """Return the parameters; raise `MeaningError` unless they are constants."""
        if not any(self._has):
            return _NO_PARAMETERS
        held = self._held.tobytes()
        if held != self._known[0]:
            found = _decode(held, self._blocks, *self._has, self._channels)
            if found is None:
                raise MeaningError(
                    f"parameters at byte {self._first} of the scratchpad must be constants"
                )
            self._known = held, found
        return self._known[1]


@lru_cache(maxsize=1024)
def _decode(
    data: bytes, blocks: int, has_bias: int, has_scale: int, channels: int
) -> _Parameters | None:
    """Decode the parameters in `data`, a float64 for each byte; None if any byte is unknown."""
    raw = np.frombuffer(data, np.float64).reshape(blocks, -1).astype(np.int64)
    columns = raw.shape[1] // (4 * has_bias + 5 * has_scale)
    found, first = [], 0
    for count, there in ((4, has_bias), (4, has_scale), (1, has_scale)):
        part = raw[:, first : first + there * count * columns].reshape(-1, count)[:channels]
        first += there * count * columns
        if not is_known(part).all():
            return None
        unsigned = np.where(np.arange(count) < count - 1, part & 255, part)
        found.append((unsigned << 8 * np.arange(count)).sum(axis=1) if there else None)
    return _Parameters(bias=found[0], multiplier=found[1], shift=found[2])
