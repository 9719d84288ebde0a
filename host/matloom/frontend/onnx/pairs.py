"""Sums and products of two tensors of bytes, compared with ONNX Runtime for all pairs of bytes.

ONNX Runtime computes them in float32, in an order of operations that depends on the processor; the
engine computes integers. Both are functions of two bytes, so all 65,536 pairs can be compared.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.functions import bytes_as_int8, every_byte, every_pair, run_alone
from matloom.frontend.onnx.quantised import Model, quantisation_of
from matloom.frontend.onnx.values import Values, as_int8
from matloom.ir.attributes import Arithmetic
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.kernels.kernels import kernel_of


class Pairs:
    """The operands of a QLinearAdd or a QLinearMul, and its results for all pairs of bytes.

    Members
    -------
    names, output:
        Names of the two operands and of the output.
    constants:
        The array of each operand; None if it is computed.
    computed:
        Names of the computed operands.
    dtypes, dtype:
        Types of the operands and of the output.
    input_quantisations, output_quantisation:
        Quantisations of the operands and of the output, in the file's types.
    broadcast:
        Whether a computed operand is repeated along some axes.
    bytes:
        The pairs that can occur, as two arrays of int8, one for each operand.
    expected:
        ONNX Runtime's result for each of these pairs, as int8.

    Raises
    ------
    Unsupported
        The engine does not support such operands.
    """

    def __init__(self, values: Values, model: Model, node: Any) -> None:
        names = list(node.input)
        self.names, self.output = (names[0], names[3]), node.output[0]
        if names[0] == names[3]:
            raise Unsupported("combines a value with itself")
        self.constants = [
            model.constant(name) if name in model.constants else None for name in self.names
        ]
        self.computed = [name for name in self.names if name not in model.constants]
        shape = values.known[self.output].shape
        unknown = [name for name in self.computed if name not in values.known]
        if unknown:
            raise Unsupported(f"has {unknown[0]!r}, whose shape is known only at run time")
        shapes = [values.known[name].shape for name in self.computed]
        if not shapes or any(len(each) != len(shape) for each in shapes):
            raise Unsupported("broadcasts a computed input of fewer dimensions")
        self.broadcast = any(each != shape for each in shapes)
        self.dtypes = tuple(
            values.known[name].dtype if data is None else data.dtype.name
            for name, data in zip(self.names, self.constants, strict=True)
        )
        self.output_quantisation = quantisation_of(
            model, names[6], names[7] if len(names) > 7 else ""
        )
        self.input_quantisations = tuple(
            quantisation_of(model, *names[at : at + 2]) for at in (1, 4)
        )
        self.dtype = values.known[self.output].dtype
        if {*self.dtypes, self.dtype} - {"int8", "uint8"}:
            raise Unsupported(f"has operands of {self.dtypes[0]} and {self.dtypes[1]}")
        reached = _reachable_pairs(self)
        self.expected = _expected_results(model, node, self, reached)
        self.bytes = [bytes_as_int8(each) for each in reached]

    def int8_quantisations(self) -> list[Quantisation]:
        """Return the quantisations of both operands and of the output, as int8."""
        pairs = zip(
            (*self.input_quantisations, self.output_quantisation),
            (*self.dtypes, self.dtype),
            strict=True,
        )
        return [as_int8(quantisation, dtype) for quantisation, dtype in pairs]

    def count_differences(
        self,
        op: Op,
        scales: Sequence[Quantisation],
        multiplier: Array | None = None,
        subset: Array | None = None,
    ) -> int:
        """Return the number of pairs for which an operator of the graph differs from ONNX Runtime.

        Parameters
        ----------
        scales:
            Quantisations of both operands and of the output, as int8.
        multiplier:
            Multiplier and shift of the operator, if they do not follow from the scales.
        subset:
            Mask of the pairs to compare; None compares all.
        """
        expected = self.expected if subset is None else self.expected[subset]
        pairs = (
            _pairs_as_grid(self.bytes) if subset is None else [each[subset] for each in self.bytes]
        )
        unit = Quantisation(scale=(1.0,), zero_point=(0,))
        inputs = [*pairs, *([] if multiplier is None else [multiplier])]
        kinds = [*scales[:2], unit][: len(inputs)]
        tensors = {
            at: Tensor(
                name="", shape=each.shape, dtype=each.dtype.name, quantisation=kind, data=each
            )
            for at, (each, kind) in enumerate(zip(inputs, kinds, strict=True))
        }
        made = len(inputs)
        tensors[made] = Tensor(name="", shape=expected.shape, dtype="int8", quantisation=scales[2])
        node = Node(
            op=op, inputs=tuple(range(made)), outputs=(made,), attributes=Arithmetic(), index=0
        )
        graph = Graph(name="", inputs=(), outputs=(made,), tensors=tensors, nodes=(node,))
        try:
            found = kernel_of(node, inputs)(graph, node, inputs)
        except ValueError as error:
            raise Unsupported(f"has scales that do not fit: {error}") from None
        assert isinstance(found, np.ndarray)
        return int((found.reshape(-1) != expected).sum())

    def add(
        self,
        values: Values,
        op: Op,
        scales: Sequence[Quantisation],
        multiplier: Array | None = None,
    ) -> None:
        """Add the operator `op` on the two operands to the graph, and register its output.

        `scales` and `multiplier` are as for `count_differences`.
        """
        shape, order = values.known[self.output].shape, values.order_of(*self.computed)
        numbers = []
        for at, name in enumerate(self.names):
            data = self.constants[at]
            if data is None:
                number = values.bytes_of(name, order, self.input_quantisations[at])
                numbers.append(values.read_as(number, scales[at], scaled=True))
            else:
                wide = data.reshape((1,) * (len(shape) - data.ndim) + data.shape)
                moved = np.ascontiguousarray(bytes_as_int8(wide).transpose(order))
                numbers.append(values.constant(moved, f"{self.output} operand", scales[at]))
        if multiplier is not None:
            numbers.append(values.constant(multiplier, f"{self.output} multiplier"))
        ordered = tuple(shape[axis] for axis in order)
        result = values.add_operator(op, numbers, ordered, scales[2], self.output, Arithmetic())
        values.hold(self.output, order, result)


def _pairs_as_grid(pairs: Sequence[Array]) -> list[Array]:
    """Return a column and a row of bytes that, by broadcasting, give all `pairs` in order.

    A kernel then scales each byte only once.
    """
    first, second = pairs
    width = int(np.argmax(first != first[0])) or len(first)
    return [first[::width, np.newaxis], second[np.newaxis, :width]]


def _reachable_pairs(operands: Pairs) -> tuple[Array, Array]:
    """Return the pairs of bytes that can occur, in the operands' types.

    These are all pairs; of a constant operand, only the bytes that it contains.
    """
    first, second = every_pair((operands.dtypes[0], operands.dtypes[1]))
    for data, side in zip(operands.constants, (first, second), strict=True):
        if data is not None:
            meets = np.isin(side, data)
            first, second = first[meets], second[meets]
    return first, second


def _expected_results(
    model: Model, node: Any, operands: Pairs, pairs: tuple[Array, Array]
) -> Array:
    """Return ONNX Runtime's results for `pairs`, as int8.

    ONNX Runtime uses another kernel if an operand is repeated by broadcasting; both are run.

    Raises
    ------
    Unsupported
        A result depends on the kernel.
    """
    names, output, dtype = operands.names, operands.output, operands.dtype
    wanted = run_alone(model.proto, [node], dict(zip(names, pairs, strict=True)), output, dtype)
    for at, data in enumerate(operands.constants):
        if data is None and not operands.broadcast:
            continue
        column = np.unique(pairs[at])[:, np.newaxis]
        row = every_byte(operands.dtypes[1 - at])[np.newaxis]
        arrays = {names[at]: column, names[1 - at]: np.repeat(row, len(column), axis=0)}
        table = run_alone(model.proto, [node], arrays, output, dtype)
        places = np.searchsorted(column[:, 0], pairs[at])
        other = pairs[1 - at].astype(np.int64) - int(row.min())
        if not np.array_equal(table[places, other], wanted):
            raise Unsupported("repeats an operand with results that depend on its shape")
    return bytes_as_int8(wanted)
