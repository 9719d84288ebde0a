"""Converts UNIDIRECTIONAL_SEQUENCE_LSTM of int8 to CONV_2D, for its products, and LSTM_CELL.

One CONV_2D multiplies the inputs of all time steps; one for each step multiplies its state. Their
outputs are sums of 32 bits, which LSTM_CELL scales gate by gate.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite

from matloom.arch.numerics import quantize_multiplier
from matloom.frontend.errors import Unsupported
from matloom.frontend.tflite.additions import Additions, FileItem
from matloom.frontend.tflite.flatbuffer import options
from matloom.frontend.tflite.tensors import FileTensors
from matloom.frontend.tflite.writer import NodeWriter, computed_like
from matloom.ir.attributes import Axis, Conv2D, LstmCell
from matloom.ir.graph import Array, Node, Op, Quantisation, Tensor

LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"

#: Indices of the operator's inputs, in the order of the gates: input, forget, cell, output.
_WEIGHTS, _RECURRENT, _BIASES = range(1, 5), range(5, 9), range(12, 16)
_HIDDEN, _CELL = 18, 19
#: Scales of the gates before and after sigmoid and tanh.
_BEFORE, _AFTER = 2.0**-12, 2.0**-15
#: Exponents of the powers of two that may be the scale of the cells' state.
_POWERS = range(-15, 1)
_INPUT_RANK = 3
_POINTWISE = Conv2D()
#: Maximum number of steps; more would make programs long.
_MOST_STEPS = 128


@dataclass(frozen=True, kw_only=True)
class _Lstm:
    """Constants and shapes of one int8 LSTM operator.

    Members
    -------
    axis:
        Axis of time, 1 or 2, in products of the inputs; their axes are (1, batch and time, 4 *
        cells).
    batch, steps:
        Lengths of the axes of the batch and of time.
    weights, recurrent, biases, parameters:
        Weights (4 * cells, inputs) and (4 * cells, cells), and biases, of all gates. Then int32 (2,
        12), the multipliers and shifts of LSTM_CELL, whose last column is the limit of the cells
        and the exponent of their scale plus 12.
    """

    axis: int
    batch: int
    steps: int
    weights: Array
    recurrent: Array
    biases: Array
    parameters: Array


def lstm_nodes(item: FileItem, additions: Additions) -> list[Node]:
    """Return the nodes that replace an LSTM; variables keep its state between calls.

    Raises
    ------
    Unsupported
        The LSTM has another form than the one that converters write for int8.
    """
    table = options(item.table, tflite.UnidirectionalSequenceLSTMOptions)
    known, given, (output, *others) = additions.known, item.inputs, item.outputs
    inputs = _checked_inputs(table, given, known)
    kinds = known[output].dtype, known[output].shape
    if others or kinds != ("int8", (*inputs[0].shape[:2], inputs[_CELL].shape[1])):
        raise Unsupported(f"must have one output of int8 for each cell, not {kinds}")
    try:
        lstm = _read_lstm(table, inputs)
    except ValueError as error:
        raise Unsupported(f"does not fit its scales: {error}") from None
    data, *state = [(at, known[at]) for at in (given[0], given[_HIDDEN], given[_CELL])]
    for number in (given[0], given[_HIDDEN], given[_CELL], output):
        additions.use(number)
    writer = _Writer(item, additions, lstm)
    after = writer.write(data, state, output)
    for (number, tensor), last in zip(state, after, strict=True):
        additions.hold(tensor, number, last)
    return writer.nodes


def _read_lstm(table: Any, inputs: Mapping[int, Tensor]) -> _Lstm:
    """Return an int8 LSTM from a TensorFlow Lite operator's options and its inputs by index."""
    data, hidden, cell = inputs[0], inputs[_HIDDEN], inputs[_CELL]
    power = math.log2(cell.scale)
    if power not in _POWERS:
        raise ValueError(f"the scale of the cells must be a power of two, not {cell.scale}")
    weights, recurrent, biases = (
        [inputs[at] for at in places] for places in (_WEIGHTS, _RECURRENT, _BIASES)
    )
    ratios = [data.scale * each.scale / _BEFORE for each in weights]
    ratios += [hidden.scale * each.scale / _BEFORE for each in recurrent]
    ratios += [_AFTER, _AFTER**2 / cell.scale, _AFTER**2 / hidden.scale]
    limit = int(min(table.CellClip() / cell.scale, 2**15 - 1)) if table.CellClip() > 0 else 0
    pairs = [*map(quantize_multiplier, ratios), (limit, int(power) + 12)]
    first, second, _ = data.shape
    major = bool(table.TimeMajor())
    return _Lstm(
        axis=1 if major else 2,
        batch=second if major else first,
        steps=first if major else second,
        weights=_concatenate(weights),
        recurrent=_concatenate(recurrent),
        biases=_concatenate(biases),
        parameters=np.array(pairs, np.int32).T.copy(),
    )


def _concatenate(tensors: Sequence[Tensor]) -> Array:
    """Return the data of constants, joined along the first axis."""
    return np.concatenate([tensor.data for tensor in tensors if tensor.data is not None])


def _checked_inputs(table: Any, numbers: Sequence[int], tensors: FileTensors) -> dict[int, Tensor]:
    """Return the input tensors by index; raise `Unsupported` if any has an unusual form.

    Raises
    ------
    Unsupported
        One of them has another form than the one that converters write.
    """
    wanted = (0, *_WEIGHTS, *_RECURRENT, *_BIASES, _HIDDEN, _CELL)
    there = [at for at, number in enumerate(numbers) if number >= 0]
    if there != sorted(wanted):
        raise Unsupported("has a projection, peepholes, a norm, or no gate of its own for inputs")
    if table.FusedActivationFunction() != tflite.ActivationFunctionType.TANH or table.ProjClip():
        raise Unsupported("must have tanh as its activation, and no limit of a projection")
    if any(tensors.is_computed(numbers[at]) for at in wanted[1:]):
        raise Unsupported("must have constant weights, and a state of its own")
    inputs = {at: tensors[numbers[at]] for at in wanted}
    shape = inputs[0].shape
    if len(shape) != _INPUT_RANK:
        raise Unsupported(f"must have an input of {_INPUT_RANK} dimensions, not {shape}")
    steps = shape[0 if table.TimeMajor() else 1]
    if steps > _MOST_STEPS:
        raise Unsupported(f"must have at most {_MOST_STEPS} steps, not {steps}")
    for at, kind in _expected_inputs(inputs, shape, shape[1 if table.TimeMajor() else 0]).items():
        tensor, scales = inputs[at], inputs[at].quantisation
        if (tensor.dtype, tensor.shape, (tensor.data is None)) != kind:
            raise Unsupported(f"must have {kind[0]} {kind[1]} as input {at}, and constant weights")
        if tensor.dtype != "int32" and (scales is None or len(scales.scale) != 1):
            raise Unsupported(f"must have one scale for input {at}")
        if at not in (0, _HIDDEN) and scales is not None and any(scales.zero_point):
            raise Unsupported(f"must have zero point 0 for input {at}")
    return inputs


def _expected_inputs(
    inputs: Mapping[int, Tensor], shape: tuple[int, ...], batch: int
) -> dict[int, tuple[str, tuple[int, ...], bool]]:
    """Return, by input index, the required type and shape, and whether it must be computed."""
    cells = inputs[_CELL].shape[-1]
    return {
        0: ("int8", shape, True),
        **dict.fromkeys(_WEIGHTS, ("int8", (cells, shape[-1]), False)),
        **dict.fromkeys(_RECURRENT, ("int8", (cells, cells), False)),
        **dict.fromkeys(_BIASES, ("int32", (cells,), False)),
        _HIDDEN: ("int8", (batch, cells), True),
        _CELL: ("int16", (batch, cells), True),
    }


class _Writer(NodeWriter):
    """Writes the nodes of one LSTM."""

    def __init__(self, item: FileItem, additions: Additions, lstm: _Lstm) -> None:
        super().__init__(item, additions)
        self._lstm = lstm

    def write(
        self, data: tuple[int, Tensor], state: Sequence[tuple[int, Tensor]], output: int
    ) -> tuple[int, int]:
        """Add the nodes; return the tensor numbers of the last step's output and cell state.

        `data` and the two items of `state` (output, cell state) are tensors with their numbers.
        """
        lstm = self._lstm
        layer = self._add_layer_constants("input", lstm.weights, lstm.biases)
        recurrence = self._add_layer_constants(
            "recurrent", lstm.recurrent, np.zeros_like(lstm.biases)
        )
        parameters = self.constant("scales", lstm.parameters)
        lengths = (lstm.steps, lstm.batch) if lstm.axis == 1 else (lstm.batch, lstm.steps)
        sums = self._add_gate_sums("inputs", data, lengths, layer)
        (hidden, kind), (cell, cell_kind) = state
        results = []
        for step in range(lstm.steps):
            again = self._add_gate_sums(f"step {step}", (hidden, kind), (lstm.batch, 1), recurrence)
            inputs = sums, again, cell, parameters
            hidden = self.tensor(computed_like(kind, f"output {step}"))
            cell = self.tensor(computed_like(cell_kind, f"state {step}"))
            attributes = LstmCell(time=step, axis=lstm.axis)
            self.node(Op.LSTM_CELL, inputs, (hidden, cell), attributes)
            results.append(hidden)
        if lstm.steps == 1:
            self.node(Op.RESHAPE, (hidden,), (output,))
        else:
            self.node(Op.PACK, tuple(results), (output,), Axis(axis=lstm.axis - 1))
        return hidden, cell

    def _add_gate_sums(
        self,
        name: str,
        source: tuple[int, Tensor],
        lengths: tuple[int, int],
        layer: tuple[int, int],
    ) -> int:
        """Add a CONV_2D of `source` with all gates' weights; return its output's tensor number.

        The output has the shape (1, *lengths, 4 * cells); `lengths` are those of batch and time, in
        the order of the axes. `layer` has the tensor numbers of weights and biases.
        """
        number, tensor = source
        image = computed_like(tensor, name, (1, *lengths, tensor.shape[-1]))
        shape = (1, *lengths, len(self._lstm.biases))
        sums = Tensor(name=f"sums of {name}", shape=shape, dtype="int32")
        row = self.add(Op.RESHAPE, (number,), image)
        return self.add(Op.CONV_2D, (row, *layer), sums, _POINTWISE)

    def _add_layer_constants(self, name: str, weights: Array, biases: Array) -> tuple[int, int]:
        """Add weights of scale 1 and biases; return their tensor numbers."""
        filters = weights.reshape(len(weights), 1, 1, -1)
        unscaled = Quantisation(scale=(1.0,), zero_point=(0,))
        number = self.constant(f"{name} weights", filters, unscaled)
        return number, self.constant(f"{name} bias", biases)
