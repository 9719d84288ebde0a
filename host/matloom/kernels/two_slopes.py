"""Parameters with which EXEC and POST compute LEAKY_RELU as the larger of two sums."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, largest
from matloom.arch.numerics import Rounding, quantize_multiplier, requantize, wrap32
from matloom.ir.attributes import LeakyRelu
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.scales import Multiplier
from matloom.ir.shapes import IMAGE_RANK
from matloom.kernels.activations import leaky_relu

#: Largest weight.
_MAX_WEIGHT = 127

#: Maximum number of bytes of a row: EXEC steps over a whole row to reach a tap outside of it.
_LONGEST_ROW = largest(Opcode.EXEC, "kernel_col_step")

#: Maximum distance of a number from the nearest integer to be taken for it.
_INTEGER_TOLERANCE = 1e-4

#: Maximum number of pairs of addends tried with a pair of weights.
_MAX_TRIED_ADDENDS = 64

_ALL_BYTES = np.arange(-128, 128, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class TwoSlopes:
    """Parameters with which LEAKY_RELU of a byte is exact.

    A sum is the larger of ``steep * byte + offset * outside`` and ``shallow * byte``. The result is
    the sum plus `bias`, scaled by `scale` with `rounding`, plus the output's zero point. `outside`
    is the byte that a tap outside of the image reads, and `offset` the sum of its weights, one for
    each row of the array.
    """

    steep: int
    shallow: int
    offset: int
    outside: int
    bias: int
    scale: Multiplier
    rounding: Rounding

    def sums(self, values: Array) -> tuple[Array, Array]:
        """Return the two sums of each byte: with the steep slope, and with the shallow one."""
        return self.steep * values + self.offset * self.outside, self.shallow * values

    def results(self, zero: int) -> Array:
        """Return the results for all bytes from -128 to 127, given the output's zero point."""
        total = wrap32(np.maximum(*self.sums(_ALL_BYTES)) + self.bias)
        found: Array = np.clip(requantize(total, *self.scale, self.rounding) + zero, -128, 127)
        return found


def rows_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the number of rows of a tensor of bytes, and the number of bytes in a row."""
    rows = prod(shape[:2] if len(shape) == IMAGE_RANK else shape[:-1])
    return rows, prod(shape) // rows


def two_slopes(graph: Graph, node: Node, config: Config) -> TwoSlopes | None:
    """Return parameters for a LEAKY_RELU of int8; None if none are exact, or a table is faster.

    The ratio of the slopes must be that of two integers below 128, such as 1 to 10 for 0.1. The
    result is also None if the configuration lacks the hardware, or rows are too long.
    """
    data, output = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    alpha = node.attributes_as(LeakyRelu).alpha
    rounds = {Rounding.SINGLE, Rounding.DOUBLE} <= set(config.roundings)
    built = config.maximum and not config.tables and rounds
    if not built or {data.dtype, output.dtype} != {"int8"} or not 0 <= alpha < 1:
        return None
    if rows_of(data.shape)[1] > _LONGEST_ROW:
        return None
    expected = leaky_relu(graph, node, [_ALL_BYTES.astype(np.int8)]).astype(np.int64)
    steep = next((each for each in range(1, _MAX_WEIGHT + 1) if _is_whole(each * alpha)), 0)
    for times in range(_MAX_WEIGHT // steep if steep else 0, 0, -1):
        weights = times * steep, round(times * steep * alpha)
        scale = quantize_multiplier(data.scale / output.scale / weights[0])
        zeros = data.zero_point, output.zero_point
        for found in _candidates(expected, weights, zeros, scale, config.rows):
            if np.array_equal(found.results(output.zero_point), expected):
                return found
    return None


def _is_whole(number: float) -> bool:
    """Return whether a number is an integer, but for rounding errors."""
    return abs(number - round(number)) < _INTEGER_TOLERANCE


def _candidates(
    expected: Array, weights: tuple[int, int], zeros: tuple[int, int], scale: Multiplier, rows: int
) -> Iterator[TwoSlopes]:
    """Yield parameters that may give the expected results above and below the zero point.

    `weights` are the steep and the shallow slope, `zeros` the zero points of input and output. The
    reference kernel rounds twice, so each of the two sums may need an addend of its own.
    """
    steep, shallow = weights
    bytes_of = _ALL_BYTES[zeros[0] + 128 :], _ALL_BYTES[: zeros[0] + 128]
    wanted_of = expected[zeros[0] + 128 :], expected[: zeros[0] + 128]
    for rounding in (Rounding.SINGLE, Rounding.DOUBLE):
        sides = [
            _addends(weight * (values - zeros[0]), results - zeros[1], scale, rounding, steep)
            for weight, values, results in zip(weights, bytes_of, wanted_of, strict=True)
        ]
        for above, below in itertools.islice(itertools.product(*sides), _MAX_TRIED_ADDENDS):
            product = _weight_and_byte((shallow - steep) * zeros[0] + above - below, rows)
            if product is not None:
                yield TwoSlopes(
                    steep=steep,
                    shallow=shallow,
                    offset=product[0],
                    outside=product[1],
                    bias=below - shallow * zeros[0],
                    scale=scale,
                    rounding=rounding,
                )


def _addends(
    sums: Array, expected: Array, scale: Multiplier, rounding: Rounding, most: int
) -> list[int]:
    """Return the numbers from `-most` to `most` that give the expected results if added to sums.

    The smallest come first. Results are scaled, and clamped to the range of the expected ones,
    before they are compared.
    """
    tried = np.arange(-most, most + 1).reshape(-1, 1)
    results = requantize(wrap32(sums + tried), *scale, rounding)
    right = np.clip(results, expected.min(initial=0), expected.max(initial=0)) == expected
    fitting: list[int] = tried[right.all(axis=1)].reshape(-1).tolist()
    return sorted(fitting, key=abs)


def _weight_and_byte(number: int, rows: int) -> tuple[int, int] | None:
    """Return a number as a product of a possible sum of `rows` weights and a byte, or None."""
    factors = (each for each in range(_MAX_WEIGHT, 0, -1) if number % each == 0)
    byte = next((each for each in factors if abs(number // each) <= rows * _MAX_WEIGHT), None)
    return None if byte is None else (number // byte, byte)
