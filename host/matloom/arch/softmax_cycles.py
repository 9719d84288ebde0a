"""Cycles of POST's SOFTMAX, and of the table that it needs."""

from collections.abc import Mapping

from matloom.arch.config import Config
from matloom.arch.isa import RowFunction
from matloom.arch.softmax import EXPONENTIAL_BYTES, EXPONENTIALS

__all__ = ["PASSES", "PAUSE", "fill_cycles", "fill_row_cycles", "row_cycles", "softmax_cycles"]

#: How often a row is read, and the cycles between the sum of a row and its results.
PASSES, PAUSE = 3, 115


def row_cycles(vectors: int, config: Config) -> int:
    """Return the cycles of SOFTMAX for a row of `vectors` vectors."""
    return PASSES * vectors * config.columns + PAUSE


def softmax_cycles(values: Mapping[str, int], config: Config) -> int:
    """Return the least cycles of a POST with these fields; 0 if it is none of SOFTMAX."""
    use, height, blocks = values.get("softmax", 0), values["height"], values["oc_blocks"]
    if use == RowFunction.SOFTMAX:
        return height * row_cycles(blocks, config)
    fills = use == RowFunction.FILL
    return fills * values["width"] * height * blocks * fill_row_cycles(config)


def fill_row_cycles(config: Config) -> int:
    """Return the cycles to write a row of the table: one for each entry, and one more."""
    return config.table_row_bytes // EXPONENTIAL_BYTES + 1


def fill_cycles(config: Config) -> int:
    """Return the cycles to fill the whole table."""
    rows = EXPONENTIALS * EXPONENTIAL_BYTES // config.table_row_bytes
    return rows * max(config.columns // config.lanes, fill_row_cycles(config))
