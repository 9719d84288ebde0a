"""Cycles of POST's SOFTMAX, and of the table that it needs."""

from collections.abc import Mapping

from matloom.arch.config import Config
from matloom.arch.isa import RowFunction
from matloom.arch.softmax import BATCH, EXPONENTIAL_BYTES, EXPONENTIALS

#: Number of times that POST reads each row.
PASSES = 3

#: Cycles from the sums of a batch of one row to its results, at one element per cycle.
_PAUSE_CYCLES = 125

#: Vectors of results that the output buffer can hold, and the cycles from the entry of a vector
#: until its place in the buffer is free again.
_PLACES, _ROUND_TRIP = 16, 19


def passes_cycles(rows: int, vectors: int, config: Config) -> int:
    """Return the cycles of SOFTMAX if the output buffer always has a free place.

    There are `rows` rows of `vectors` vectors each.
    """
    steps = rows * PASSES * vectors * (config.columns // config.softmax)
    batches = -(-rows // BATCH)
    # Maxima and sums of exponentials are computed by trees of pairs.
    joins = (config.softmax - 1).bit_length()
    return steps + batches * (_PAUSE_CYCLES - 1 + 2 * joins) + rows


def rows_cycles(rows: int, vectors: int, config: Config) -> int:
    """Return the cycles of SOFTMAX, including waits for the output buffer, but not for banks.

    There are `rows` rows of `vectors` vectors each.
    """
    # Results of the last pass need places sooner than these are free if one comes in each cycle.
    late = max(0, _ROUND_TRIP - _PLACES * (config.columns // config.softmax))
    return passes_cycles(rows, vectors, config) + (rows * vectors - 1) // _PLACES * late


def softmax_cycles(values: Mapping[str, int], config: Config) -> int:
    """Return the minimum cycles of a POST that computes SOFTMAX or fills its table; otherwise 0.

    `values` holds the fields of the POST.
    """
    use, height, blocks = values.get("softmax", 0), values["height"], values["oc_blocks"]
    if use == RowFunction.SOFTMAX:
        return rows_cycles(height, blocks, config)
    fills = use == RowFunction.FILL
    return fills * values["width"] * height * blocks * fill_row_cycles(config)


def fill_row_cycles(config: Config) -> int:
    """Return the cycles to fill a row of the table of exponentials: one per entry, plus one."""
    return config.table_row_bytes // EXPONENTIAL_BYTES + 1


def fill_cycles(config: Config) -> int:
    """Return the cycles to fill the whole table of exponentials."""
    rows = EXPONENTIALS * EXPONENTIAL_BYTES // config.table_row_bytes
    return rows * max(config.columns // config.lanes, fill_row_cycles(config))
