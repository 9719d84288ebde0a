"""LSTM_CELL, and the LOGISTIC and TANH of 16-bit numbers that it uses.

The results are those of TensorFlow Lite Micro's integer kernel of UNIDIRECTIONAL_SEQUENCE_LSTM
(lstm_eval.cc).
"""

from collections.abc import Sequence

import numpy as np

from matloom.arch.curves import SIGMOIDS, Curve, apply_curve
from matloom.arch.numerics import clamp
from matloom.ir.attributes import LstmCell
from matloom.ir.graph import Array, Graph, Node
from matloom.kernels.requantise import scale

_SIGMOIDS = np.array(SIGMOIDS)


def logistic_of_words(x: Array) -> Array:
    """Return the sigmoid, Q0.15, of int64 `x` in Q3.12."""
    result: Array = apply_curve(3 * x, Curve.LOGISTIC, _SIGMOIDS)
    return result


def tanh_of_words(x: Array, left_shift: int = 0) -> Array:
    """Return tanh, Q0.15, of int64 ``x * 2**left_shift`` in Q3.12."""
    right = max(-left_shift, 0)
    scaled = (x * (3 << max(left_shift, 0)) + ((1 << right) >> 1)) >> right
    result: Array = apply_curve(scaled, Curve.TANH, _SIGMOIDS)
    return result


def _clamp_to_int16(x: Array) -> Array:
    """Return numbers limited to int16."""
    result: Array = clamp(x, -(2**15), 2**15 - 1)
    return result


def lstm_cell(graph: Graph, node: Node, inputs: Sequence[Array]) -> tuple[Array, Array]:
    """LSTM_CELL: the output, int8, and the next cell state, int16, of one time step.

    The inputs are the gates' sums over the input and those over the recurrence, both int32 (1, ...,
    4 * cells) with the gates input, forget, cell and output; the cell state, int16 (batch, cells);
    and parameters (2, 12). Columns of the parameters hold a multiplier and a shift: 0 to 3 for the
    gates' sums over the input, 4 to 7 for those over the recurrence, 8 for forget gate times state,
    9 for input gate times cell gate, 10 for the output. Column 11 holds the limit of the state (0
    for none), and the left shift that converts it to Q3.12.
    """
    attributes = node.attributes_as(LstmCell)
    sums = np.take(inputs[0][0], attributes.time, axis=attributes.axis - 1)
    state = inputs[2].astype(np.int64)
    pairs = [(int(one), int(two)) for one, two in inputs[3].T]
    gates = [
        _clamp_to_int16(
            _clamp_to_int16(scale(one, *pairs[at])) + _clamp_to_int16(scale(two, *pairs[4 + at]))
        )
        for at, (one, two) in enumerate(
            zip(
                np.split(sums.astype(np.int64), 4, axis=1),
                np.split(inputs[1].reshape(sums.shape).astype(np.int64), 4, axis=1),
                strict=True,
            )
        )
    ]
    given, forget, output = (logistic_of_words(gates[at]) for at in (0, 1, 3))
    kept = _clamp_to_int16(scale(forget * state, *pairs[8]))
    new = _clamp_to_int16(kept + _clamp_to_int16(scale(given * tanh_of_words(gates[2]), *pairs[9])))
    limit, left_shift = pairs[11]
    if limit:
        new = np.maximum(np.minimum(new, limit), -limit)
    hidden = scale(tanh_of_words(new, left_shift) * output, *pairs[10])
    hidden = clamp(hidden + graph.tensors[node.outputs[0]].zero_point, -128, 127)
    return hidden.astype(np.int8), new.astype(np.int16)
