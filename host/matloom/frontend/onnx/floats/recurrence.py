"""Converts LSTM, GRU and RNN to matrix products, sums and functions, time step by time step.

All steps share the weights of the recurrence; one operator multiplies the inputs of all steps.
"""

from collections.abc import Sequence

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.edges import join
from matloom.frontend.onnx.floats.values import FloatValues
from matloom.ir.attributes import Arithmetic, Attributes, FullyConnected, Slice
from matloom.ir.graph import Array, Op

#: Functions that an operator applies to gates and to cells unless the file states others.
_FUNCTIONS = {"GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh"), "RNN": ("Tanh",)}
_OPERATORS = {"Relu": Op.RELU, "Sigmoid": Op.LOGISTIC, "Tanh": Op.TANH}
#: Indices of the operators' inputs.
_WEIGHTS, _RECURRENT, _BIAS, _LENGTHS, _HIDDEN, _CELL, _PEEPHOLES = range(1, 8)
#: Maximum number of steps; more would make programs long.
_MOST_STEPS = 128
#: For each `layout`, the order of axes of the input and the states that puts steps or directions
#: first, and the order of axes of the first output as it is computed.
_ORDERS = (((0, 1, 2), (0, 1, 2, 3)), ((1, 0, 2), (1, 2, 0, 3)))
_NO_ACTIVATION = Arithmetic()
_DENSE = FullyConnected(keep_num_dims=True)


def _convert_recurrence(values: FloatValues, node: FileNode) -> None:
    """Convert an LSTM, GRU or RNN to simple operators, step by step."""
    order, sequences = _ORDERS[int(node.options.get("layout", 0))]
    number = values.tensor_in_order(node.source, order)
    _require_supported(values, node, values.builder.tensors[number].shape[0])
    rows, states = [], []
    for direction, reverse in enumerate(_directions(node)):
        cell = _CELLS[node.op](values, node, direction)
        state = [_initial(values, node.input(at), order, direction) for at in cell.state_inputs]
        made, after = cell.run(number, state, reverse=reverse)
        rows.append(values.add(Op.RESHAPE, [made], shape=_with_direction(values, made)))
        states.append(after)
    ends = [join(values, each, 0) for each in zip(*states, strict=True)]
    outputs = zip(node.outputs, (join(values, rows, 1), *ends), strict=False)
    for (name, made), axes in zip(outputs, (sequences, order, order), strict=False):
        if name:
            values.hold(name, axes, made)


def _require_supported(values: FloatValues, node: FileNode, steps: int) -> None:
    """Raise `Unsupported` if an operator has too many steps, or options that are not supported."""
    if steps > _MOST_STEPS:
        raise Unsupported(f"has {steps} steps, more than {_MOST_STEPS}")
    for option in ("clip", "input_forget"):
        if node.options.get(option, 0):
            raise Unsupported(f"has {option}")
    if node.input(_LENGTHS) and np.any(values.constant(node.input(_LENGTHS)) != steps):
        raise Unsupported("has sequences of different lengths")
    if node.input(_PEEPHOLES) and np.any(values.constant(node.input(_PEEPHOLES))):
        raise Unsupported("has peepholes")


def _directions(node: FileNode) -> tuple[bool, ...]:
    """Return, for each direction, whether it goes from the last step to the first."""
    kind = node.options.get("direction", b"forward").decode()
    return {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[kind]


def _functions(node: FileNode, direction: int) -> list[Op]:
    """Return the operators of the functions that one direction applies to gates and cells."""
    usual = _FUNCTIONS[node.op]
    given = [each.decode() for each in node.options.get("activations", ())]
    names = given[direction * len(usual) :][: len(usual)] or usual
    unknown = [name for name in names if name not in _OPERATORS]
    if unknown:
        raise Unsupported(f"has the function {unknown[0]}, not {', '.join(_OPERATORS)}")
    return [_OPERATORS[name] for name in names]


def _initial(values: FloatValues, name: str, order: tuple[int, ...], direction: int) -> int | None:
    """Return the tensor number of the state (1, batch, cells) before the first step, or None.

    None means zeros. `name` is the input with the states of all directions; it may be empty.
    """
    if not name:
        return None
    if values.is_constant(name):
        data = values.constant(name).transpose(order)[direction]
        return values.builder.constant(data[np.newaxis]) if np.any(data) else None
    return _slice_along(values, values.tensor_in_order(name, order), 0, direction, 1)


def _slice_along(values: FloatValues, number: int, axis: int, begin: int, size: int) -> int:
    """Return the tensor number of the part of a tensor from index `begin` along an axis."""
    shape = values.builder.tensors[number].shape
    if shape[axis] == size:
        return number
    begins = tuple(begin if at == axis else 0 for at in range(len(shape)))
    sizes = tuple(size if at == axis else length for at, length in enumerate(shape))
    attributes = Slice(begin=begins, size=sizes, step=(1,) * len(shape))
    return values.add(Op.SLICE, [number], attributes)


def _with_direction(values: FloatValues, number: int) -> tuple[int, ...]:
    """Return a tensor's shape with an axis of 1 for the direction behind that of the steps."""
    steps, *rest = values.builder.tensors[number].shape
    return (steps, 1, *rest)


class _Cell:
    """Conversion of one direction of an LSTM, GRU or RNN.

    Members
    -------
    state_inputs:
        Indices of the operator's inputs that hold the state before the first step.
    gates:
        Number of gates, each of which has a row of weights for each cell.
    """

    state_inputs: tuple[int, ...] = (_HIDDEN,)
    gates: int

    def __init__(self, values: FloatValues, node: FileNode, direction: int) -> None:
        self._values, self._node, self._functions = values, node, _functions(node, direction)
        name = next((each for each in node.outputs if each), node.op)
        self._output = self._name = f"{name}/{direction}" if direction else name
        weights, recurrent = (
            values.constant(node.input(at))[direction] for at in (_WEIGHTS, _RECURRENT)
        )
        self._cells = recurrent.shape[1]
        self._require_shapes(weights, recurrent)
        name = node.input(_BIAS)
        biases = values.constant(name)[direction] if name else np.zeros(2 * len(weights))
        self._add_constants((weights, recurrent), np.split(biases.astype(np.float32), 2))

    def _require_shapes(self, weights: Array, recurrent: Array) -> None:
        """Raise `Unsupported` unless the weights have a row for each cell of each gate."""
        if not len(weights) == len(recurrent) == self.gates * self._cells:
            raise Unsupported(f"has weights of {weights.shape} and {recurrent.shape}")

    def _add_constants(self, weights: Sequence[Array], biases: Sequence[Array]) -> None:
        """Add the weights (inputs', recurrent) and biases (two to be added up) as constants."""
        self._data = self._layer(weights[0], biases[0] + biases[1])
        self._recurrent = self._layer(weights[1])

    def _layer(self, weights: Array, bias: Array | None = None) -> list[int]:
        """Return the tensor numbers of constant weights (outputs, inputs) and, if given, a bias."""
        return [self._constant(each) for each in ([weights] if bias is None else [weights, bias])]

    def _constant(self, data: Array) -> int:
        """Add a float32 constant; return its tensor number."""
        return self._values.builder.constant(np.ascontiguousarray(data, np.float32))

    def run(
        self, number: int, state: Sequence[int | None], *, reverse: bool
    ) -> tuple[int, Sequence[int]]:
        """Add all steps for input tensor `number`; return the outputs' number and the last state's.

        Tensor `number` is (steps, batch, inputs); the outputs are (steps, batch, cells). An item of
        `state` is None if it is zero.
        """
        products = self._product(number, self._data)
        steps = self._values.builder.tensors[number].shape[0]
        places = range(steps)[::-1] if reverse else range(steps)
        after: list[tuple[int, ...]] = []
        for step in places:
            self._name = f"{self._output}/{step}"
            row = _slice_along(self._values, products, 0, step, 1)
            after.append(self.step(row, *(after[-1] if after else state)))
        rows = [row for row, *_ in (after[::-1] if reverse else after)]
        return join(self._values, rows, 0), after[-1]

    def step(self, row: int, *state: int | None) -> tuple[int, ...]:
        """Add the operators of a time step; return the new state's tensor numbers, output first.

        `row` is the step's product of inputs and weights, (1, batch, gates times cells).
        """
        raise NotImplementedError

    def _product(self, number: int, layer: Sequence[int]) -> int:
        """Add a dense layer of tensor `number`, with these weights and bias; return its output."""
        return self._add(Op.FULLY_CONNECTED, [number, *layer], _DENSE)

    def _sum(self, first: int, second: int | None) -> int:
        """Add a sum; return its tensor number, or `first` if `second` is None (zero)."""
        return first if second is None else self._add(Op.ADD, [first, second], _NO_ACTIVATION)

    def _multiply(self, first: int, second: int) -> int:
        """Add an elementwise product; return its tensor number."""
        return self._add(Op.MUL, [first, second], _NO_ACTIVATION)

    def _add(self, op: Op, inputs: list[int], attributes: Attributes | None = None) -> int:
        """Add an operator of the current step; return its output's tensor number."""
        count = len(self._values.builder.tensors)
        return self._values.add(op, inputs, attributes, name=f"{self._name}/{op.lower()}_{count}")

    def _scale(self, first: int, second: int | None) -> int | None:
        """Add a product; return its tensor number, or None (zero) if `second` is None."""
        return None if second is None else self._multiply(first, second)

    def _gate_sums(self, row: int, hidden: int | None) -> int:
        """Return the tensor number of all gates' sums; `hidden` is the output before or None."""
        return self._sum(row, None if hidden is None else self._product(hidden, self._recurrent))

    def _apply(self, function: int, number: int) -> int:
        """Add the function with an index in the operator's functions; return its tensor number."""
        return self._add(self._functions[function], [number])

    def _cut_gates(self, gates: int, first: int, count: int = 1) -> int:
        """Return the tensor number of `count` gates from index `first`, cut out of all `gates`."""
        return _slice_along(self._values, gates, 2, first * self._cells, count * self._cells)


class _Rnn(_Cell):
    """Conversion of RNN: the state is f(x W + h R + b)."""

    gates = 1

    def step(self, row: int, *state: int | None) -> tuple[int, ...]:
        """Add the operators of one step; return the tensor number of the new state, its output."""
        return (self._apply(0, self._gate_sums(row, state[0])),)


class _Lstm(_Cell):
    """Conversion of LSTM: gates are input, output, forget, cell; the state is output and cell."""

    state_inputs = (_HIDDEN, _CELL)
    gates = 4

    def step(self, row: int, *state: int | None) -> tuple[int, ...]:
        """Add the operators of a time step; return the tensor numbers of its output and cell."""
        hidden, before = state
        gates = self._gate_sums(row, hidden)
        opened = self._apply(0, self._cut_gates(gates, 0, 3))
        new = self._multiply(self._cut_gates(opened, 0), self._apply(1, self._cut_gates(gates, 3)))
        cell = self._sum(new, self._scale(self._cut_gates(opened, 2), before))
        return self._multiply(self._cut_gates(opened, 1), self._apply(2, cell)), cell


class _Gru(_Cell):
    """Conversion of GRU, whose gates are in the order update, reset, hidden in the file.

    A fourth gate, the complement 1 - f(x) of update, is added; for the sigmoid, it is f(-x).
    """

    gates = 3

    def _add_constants(self, weights: Sequence[Array], biases: Sequence[Array]) -> None:
        """Add the weights and biases of four gates as constants."""
        if self._functions[0] is not Op.LOGISTIC:
            raise Unsupported("has gates of another function than Sigmoid")
        (data, again), (bias, inner) = (
            [self._split_gates(each) for each in pair] for pair in (weights, biases)
        )
        # The reset gate multiplies the state, or the state's product and its bias.
        early = not self._node.options.get("linear_before_reset", 0)
        kept = np.zeros_like(inner[3]) if early else inner[3]
        summed = [one + two for one, two in zip(bias[:3], inner[:3], strict=True)]
        self._data = self._layer(
            np.concatenate(data), np.concatenate([*summed, bias[3] + inner[3] - kept])
        )
        self._kept = self._constant(kept.reshape(1, 1, -1)) if np.any(kept) else None
        self._early = self._layer(again[3]) if early else None
        inside = np.concatenate([np.zeros(3 * self._cells, np.float32), kept])
        self._recurrent = (
            self._layer(np.concatenate(again[:3]))
            if early
            else self._layer(np.concatenate(again), inside)
        )

    def _split_gates(self, each: Array) -> list[Array]:
        """Return the parts of an array for update, reset, the complement of update, and hidden."""
        update, reset, hidden = np.split(each, 3)
        return [update, reset, -update, hidden]

    def step(self, row: int, *state: int | None) -> tuple[int, ...]:
        """Add the operators of one step; return the tensor number of the new state, its output."""
        (hidden,) = state
        again = None if hidden is None else self._product(hidden, self._recurrent)
        outer = again if again is None or self._early else self._cut_gates(again, 0, 3)
        opened = self._apply(0, self._sum(self._cut_gates(row, 0, 3), outer))
        reset = self._cut_gates(opened, 1)
        inner = self._kept if again is None or self._early else self._cut_gates(again, 3)
        inner = self._scale(reset, hidden if self._early else inner)
        if inner is not None and self._early:
            inner = self._product(inner, self._early)
        new = self._apply(1, self._sum(self._cut_gates(row, 3), inner))
        return (
            self._sum(
                self._multiply(self._cut_gates(opened, 2), new),
                self._scale(self._cut_gates(opened, 0), hidden),
            ),
        )


_CELLS: dict[str, type[_Cell]] = {"GRU": _Gru, "LSTM": _Lstm, "RNN": _Rnn}

#: Converters by operator name.
RECURRENCES = dict.fromkeys(_CELLS, _convert_recurrence)
