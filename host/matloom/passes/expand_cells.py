"""Replaces LSTM_CELL by operators on int16, if the engine supports all of them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from matloom.arch.config import Config
from matloom.ir.attributes import Activation, Arithmetic, Attributes, LstmCell, Slice
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor

#: Scales of the gates before and after LOGISTIC or TANH.
_BEFORE, _AFTER = 2.0**-12, 2.0**-15

#: Order of the gates among the channels of a convolution.
_INPUT_GATE, _FORGET, _VALUES, _OUTPUT = range(4)
_GATES = 4
_MAX_INT16 = 2**15 - 1
#: Columns of the parameters: the first for the inputs, the first for the recurrence, the limit.
_INPUT, _RECURRENT, _LIMITS = 0, _GATES, 11


def expand_cells(graph: Graph, config: Config) -> Graph:
    """Return the graph with sums, curves and products of int16 instead of each LSTM_CELL.

    The convolutions that an LSTM_CELL reads then make int16 instead of 32-bit sums. The graph is
    returned unchanged, and the host runs its cells, if the engine lacks `has_curves` or
    `has_word_products`, or if these sums are outputs of the network.
    """
    cells = [node for node in graph.nodes if node.op is Op.LSTM_CELL]
    leaving = {number for node in cells for number in node.inputs[:2]} & set(graph.outputs)
    if not cells or leaving or not (config.has_curves and config.has_word_products):
        return graph
    return _Expansion(graph).graph()


class _Expansion:
    """Builder of a graph in which other operators replace each LSTM_CELL."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tensors, self._nodes = dict(graph.tensors), list[Node]()
        self._cell = graph.nodes[0]

    def graph(self) -> Graph:
        """Return the graph with other operators instead of LSTM_CELLs."""
        made = {node.outputs[0]: node for node in self._graph.nodes}
        for node in self._graph.nodes:
            if node.op is not Op.LSTM_CELL:
                self._nodes.append(node)
                continue
            for at, first in ((0, _INPUT), (1, _RECURRENT)):
                self._widen(made[node.inputs[at]], self._pairs(node)[first : first + _GATES])
            self._expand(node)
        return replace(self._graph, tensors=self._tensors, nodes=tuple(self._nodes))

    def _pairs(self, node: Node) -> Array:
        """Return the parameters of an LSTM_CELL, transposed: a (multiplier, shift) in each row."""
        data = self._tensors[node.inputs[3]].data
        assert data is not None
        return data.T

    def _widen(self, node: Node, pairs: Array) -> None:
        """Make a convolution of the gates write int16 at their scale, instead of 32-bit sums.

        `pairs` has the multiplier and the shift of each gate, int32 (4, 2).
        """
        sums, weights = self._tensors[node.output], self._tensors[node.inputs[1]]
        if sums.dtype == "int16":
            return
        given = self._tensors[node.inputs[0]].scale
        ratios = [multiplier / 2**31 * 2.0**shift for multiplier, shift in pairs.tolist()]
        channels = np.repeat(ratios, weights.shape[0] // _GATES) * (_BEFORE / given)
        scales = Quantisation(
            scale=tuple(channels.tolist()), zero_point=(0,) * len(channels), axis=0
        )
        # All steps share these weights, so each sets the same scales.
        self._tensors[node.inputs[1]] = replace(weights, quantisation=scales)
        gates = replace(sums, dtype="int16", quantisation=_symmetric_quantisation(_BEFORE))
        self._tensors[node.output] = gates

    def _expand(self, node: Node) -> None:
        """Add the operators that compute an LSTM_CELL's next state and its output."""
        self._cell = node
        attributes = node.attributes_as(LstmCell)
        given, again, state, _parameters = node.inputs
        hidden, after = node.outputs
        given = self._slice("inputs", given, attributes.axis, attributes.time, 1)
        again = self._in_shape("recurrence", again, self._tensors[given].shape)
        gates = self._add("gates", (given, again), _BEFORE)
        opened = self._unary(Op.LOGISTIC, "open gates", gates, _AFTER)
        squashed = self._unary(Op.TANH, "new values", gates, _AFTER)
        shape, scale = self._tensors[state].shape, self._tensors[state].scale
        opens = [self._gate_part(opened, gate, shape) for gate in (_INPUT_GATE, _FORGET, _OUTPUT)]
        values = self._gate_part(squashed, _VALUES, shape)
        kept = self._multiply("kept", (opens[1], state), scale)
        new = self._multiply("new", (opens[0], values), scale)
        limit = int(self._pairs(node)[_LIMITS][0])
        self._add_within((kept, new), after, limit)
        shown = self._unary(Op.TANH, "shown", after, _AFTER)
        made = self._multiply("made", (shown, opens[2]), self._tensors[hidden].scale)
        self._append_node(Op.QUANTIZE, (made,), (hidden,))

    def _slice(self, label: str, number: int, axis: int, begin: int, size: int) -> int:
        """Return the tensor number of `size` elements of another along an axis, from `begin` on.

        Add a slice for it, unless that is all of the tensor. `label` names it.
        """
        shape = self._tensors[number].shape
        if shape[axis] == size:
            return number
        begins = tuple(begin if at == axis else 0 for at in range(len(shape)))
        sizes = tuple(size if at == axis else length for at, length in enumerate(shape))
        part = self._int16_like(label, number, sizes)
        attributes = Slice(begin=begins, size=sizes, step=(1,) * len(shape))
        self._append_node(Op.SLICE, (number,), (part,), attributes)
        return part

    def _gate_part(self, gates: int, gate: int, shape: tuple[int, ...]) -> int:
        """Add the part of tensor `gates` for one of four gates, reshaped to the state's shape."""
        axis, cells = len(self._tensors[gates].shape) - 1, shape[-1]
        part = self._slice(f"gate {gate}", gates, axis, gate * cells, cells)
        return self._in_shape(f"shaped gate {gate}", part, shape)

    def _in_shape(self, label: str, number: int, shape: tuple[int, ...]) -> int:
        """Return a tensor's number, or that of a RESHAPE of it if it has another shape."""
        if self._tensors[number].shape == shape:
            return number
        shaped = self._int16_like(label, number, shape)
        self._append_node(Op.RESHAPE, (number,), (shaped,))
        return shaped

    def _add_within(self, parts: tuple[int, int], after: int, limit: int) -> None:
        """Add operators that make the cell's new state `after`: a sum of two tensors, limited.

        The sum is kept within -`limit` and `limit`; there is no limit if that is 0.
        """
        levels = [(Op.MAXIMUM, -limit), (Op.MINIMUM, limit)] if limit else []
        # No int16 is larger.
        levels = [each for each in levels if each[1] != _MAX_INT16]
        scale = self._tensors[after].scale
        made = [
            self._int16_like(f"state before {op}", after, self._tensors[after].shape)
            for op, _ in levels
        ]
        first, *others = (*made, after)
        self._append_node(Op.ADD, parts, (first,), Arithmetic(activation=Activation.NONE))
        for (op, level), given, result in zip(levels, made, others, strict=True):
            constant = Tensor(
                name=f"{self._tensors[result].name} limit",
                shape=(1,),
                dtype="int16",
                quantisation=_symmetric_quantisation(scale),
                data=np.array([level], np.int16),
            )
            self._append_node(op, (given, self._add_tensor(constant)), (result,))

    def _add(self, label: str, operands: tuple[int, int], scale: float) -> int:
        """Add the int16 sum of two tensors at a scale; return its tensor number."""
        return self._binary(Op.ADD, label, operands, scale)

    def _multiply(self, label: str, operands: tuple[int, int], scale: float) -> int:
        """Add the int16 product of two tensors at a scale; return its tensor number."""
        return self._binary(Op.MUL, label, operands, scale)

    def _binary(self, op: Op, label: str, operands: tuple[int, int], scale: float) -> int:
        """Add an operator on two tensors, with an int16 result; return its tensor number."""
        made = self._int16_like(label, operands[0], self._tensors[operands[0]].shape, scale)
        self._append_node(op, operands, (made,), Arithmetic(activation=Activation.NONE))
        return made

    def _unary(self, op: Op, label: str, operand: int, scale: float) -> int:
        """Add an operator on one tensor, with an int16 result; return its tensor number."""
        made = self._int16_like(label, operand, self._tensors[operand].shape, scale)
        self._append_node(op, (operand,), (made,))
        return made

    def _int16_like(
        self, label: str, number: int, shape: tuple[int, ...], scale: float | None = None
    ) -> int:
        """Add an int16 tensor, with the scale of tensor `number` unless one is given."""
        kind = (
            self._tensors[number].quantisation if scale is None else _symmetric_quantisation(scale)
        )
        name = f"{self._tensors[self._cell.outputs[0]].name} {label}"
        return self._add_tensor(Tensor(name=name, shape=shape, dtype="int16", quantisation=kind))

    def _add_tensor(self, tensor: Tensor) -> int:
        """Add a tensor without an operator; return its number."""
        number = max(self._tensors) + 1
        self._tensors[number] = tensor
        return number

    def _append_node(
        self,
        op: Op,
        inputs: Sequence[int],
        outputs: Sequence[int],
        attributes: Attributes | None = None,
    ) -> None:
        """Append an operator with the model-file index of the current LSTM_CELL."""
        node = Node(
            op=op,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            attributes=attributes or Attributes(),
            index=self._cell.index,
        )
        self._nodes.append(node)


def _symmetric_quantisation(scale: float) -> Quantisation:
    """Return the quantisation with one scale and zero point 0."""
    return Quantisation(scale=(scale,), zero_point=(0,))
