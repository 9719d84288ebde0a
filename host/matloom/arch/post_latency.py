"""Cycles of a POST in addition to its results and to the latency of an update of accumulators."""

from collections.abc import Mapping

from matloom.arch.config import Config
from matloom.arch.curves import Curve
from matloom.arch.isa import Addend, RowFunction, Source, Table
from matloom.arch.numerics import Rounding

#: Always; with a table; with sums of results; with SOFTMAX; with a curve; in floating point; and if
#: it reads bytes.
_ALWAYS, _LOOK_UP, _SUM, _SOFTMAX, _CURVE, _FLOAT, _BYTES = 20, 1, 2, 3, 5, 3, 5


def maxima_latency(config: Config) -> int:
    """Return the cycles that a byte waits before it is compared with others of its block.

    A register there ends the path through a table in block RAM. Without one, the comparison takes
    no cycle.
    """
    return int(config.pooling and config.tables > 1)


def post_latency(values: Mapping[str, int], config: Config) -> int:
    """Return the cycles for the fields of a POST."""
    get = values.get
    cycles = _ALWAYS + _LOOK_UP * (get("table", 0) == Table.LOOK_UP)
    cycles += _SUM * (get("addend", 0) == Addend.RESULT)
    cycles += _SOFTMAX * (get("softmax", 0) == RowFunction.SOFTMAX)
    cycles += _CURVE * (get("curve", 0) != Curve.NONE)
    cycles += _FLOAT * (get("rounding") == Rounding.FLOAT)
    cycles += maxima_latency(config) * get("pool", 0)
    return cycles + _BYTES * (get("source", 0) == Source.SPAD)
