"""Latency of a POST, apart from that of an accumulator update."""

from collections.abc import Mapping

from matloom.arch.config import Config
from matloom.arch.curves import Curve
from matloom.arch.isa import Addend, RowFunction, Source, Table
from matloom.arch.numerics import Rounding

#: Cycles that always apply, and additional ones with a table, with sums of results, with SOFTMAX,
#: with a curve, in floating point, and if POST reads bytes.
_ALWAYS, _LOOK_UP, _SUM, _SOFTMAX, _CURVE, _FLOAT, _BYTES = 20, 1, 2, 3, 5, 3, 5


def maxima_latency(config: Config) -> int:
    """Return the cycles that a byte waits before it is compared with others of its 2 x 2 block.

    A register there ends the path through a table in block RAM. Without such tables, there is no
    wait.
    """
    return int(config.pooling and config.tables > 1)


def post_latency(values: Mapping[str, int], config: Config) -> int:
    """Return the cycles of a POST apart from its results and the latency of an accumulator update.

    `values` holds the fields of the POST.
    """
    get = values.get
    cycles = _ALWAYS + _LOOK_UP * (get("table", 0) == Table.LOOK_UP)
    cycles += _SUM * (get("addend", 0) == Addend.RESULT)
    cycles += _SOFTMAX * (get("softmax", 0) == RowFunction.SOFTMAX)
    cycles += _CURVE * (get("curve", 0) != Curve.NONE)
    cycles += _FLOAT * (get("rounding") == Rounding.FLOAT)
    cycles += maxima_latency(config) * get("pool", 0)
    return cycles + _BYTES * (get("source", 0) == Source.SPAD)
