"""Converts a float ONNX network to a graph that can be quantised."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matloom.frontend.errors import ModelError, Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.chains import Chain, Chains, find_chains
from matloom.frontend.onnx.floats.decompose import decompose
from matloom.frontend.onnx.floats.elementwise import ELEMENTWISE, add_function
from matloom.frontend.onnx.floats.evaluate import evaluate
from matloom.frontend.onnx.floats.index_functions import IndexFunctions
from matloom.frontend.onnx.floats.layers import LAYERS
from matloom.frontend.onnx.floats.moves import MOVES
from matloom.frontend.onnx.floats.normalisation import NORMALISATIONS
from matloom.frontend.onnx.floats.pools import POOLS
from matloom.frontend.onnx.floats.products import PRODUCTS
from matloom.frontend.onnx.floats.recurrence import RECURRENCES
from matloom.frontend.onnx.floats.rounding import without_rounding
from matloom.frontend.onnx.floats.transposed import convert_transposed
from matloom.frontend.onnx.floats.values import INDICES, FloatValues
from matloom.frontend.onnx.model import DTYPES, open_model
from matloom.frontend.onnx.optimised import has_integer_operators
from matloom.frontend.onnx.sizes import inputs_of, set_sizes
from matloom.frontend.onnx.values import in_file_order
from matloom.frontend.source import ModelFile
from matloom.ir.graph import Graph

#: Converters by operator name.
CONVERTERS = {
    **LAYERS,
    "ConvTranspose": convert_transposed,
    **ELEMENTWISE,
    **MOVES,
    **NORMALISATIONS,
    **POOLS,
    **PRODUCTS,
    **RECURRENCES,
}
#: First version of the operator set in which onnx's reference evaluator supports these operators.
_EVALUATED_SINCE = dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), 19)
_HINT = "matloom runs it on ONNX Runtime as it is; quantise a network without this operator"


def float_graph(file: ModelFile) -> Graph | None:
    """Return the graph of a float ONNX network; None if the file has integer operators.

    Operators become those of `matloom.ir`, with channels last; inputs and outputs keep the file's
    shapes. Results differ from ONNX Runtime's only by rounding. Inputs of integers are indices
    of rows of tables, or masks of 0 and 1; operators may move them, and compute functions of them.
    In a QDQ network, activations are not rounded to integers any more; weights are, because the
    file holds rounded weights.

    Raises
    ------
    ModelError
        The file is damaged, an operator has no counterpart or computes with integers, or an input
        has another type or no size.
    """
    model = open_model(file)
    if has_integer_operators(model.graph):
        return None
    set_sizes(model.graph, {}, {})
    return _Reader(model, file.name).graph()


class _Reader:
    """Converter of one float model to a graph."""

    def __init__(self, model: Any, name: str) -> None:
        from onnx import numpy_helper

        self._proto, self._name = model.graph, name
        self._opset = max(
            (each.version for each in model.opset_import if each.domain in ("", "ai.onnx")),
            default=1,
        )
        constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
        self._values = FloatValues(name, constants)

    def graph(self) -> Graph:
        """Convert all operators; return the graph."""
        values = self._values
        for value in inputs_of(self._proto):
            kind = value.type.tensor_type
            dtype = DTYPES.get(kind.elem_type, "another type")
            if dtype not in ("float32", *INDICES):
                raise ModelError(
                    "must have inputs of float32, or indices of int32 or int64, to be quantised, "
                    f"but {value.name!r} is {dtype}",
                    hint="cut the network after the part that uses this input",
                )
            shape = tuple(each.dim_value for each in kind.shape.dim)
            values.hold(
                value.name,
                in_file_order(len(shape)),
                values.builder.input(value.name, shape, dtype),
            )
        nodes = [FileNode.from_proto(proto, self._opset) for proto in self._proto.node]
        outputs = [value.name for value in self._proto.output]
        computed = [node for node in nodes if not self._fold_if_constant(node)]
        exact = list(without_rounding(computed, values.constants))
        simple = list(decompose(exact, values.constants))
        chains, needed = find_chains(simple, values.constants, outputs)
        indices = IndexFunctions(values, needed)
        for node in needed:
            self._convert(node, chains, indices)
        for name in outputs:
            try:
                indices.look_up(name)
            except Unsupported as error:
                raise ModelError(
                    f"cannot be quantised: output {name!r} {error}", hint=_HINT
                ) from None
            if name not in values.held:
                raise ModelError(f"must compute its outputs, but {name!r} is constant")
        numbers = [values.in_file_order(name) for name in outputs]
        return _with_output_names(values.builder.graph(*numbers), outputs)

    def _fold_if_constant(self, node: FileNode) -> bool:
        """Compute an operator if it only reads constants; return whether it does."""
        constant = all(self._values.is_constant(name) for name in node.inputs if name)
        if constant:
            self._fold(node)
        return constant

    def _convert(self, node: FileNode, chains: Chains, indices: IndexFunctions) -> None:
        """Fold a node, add it to a chain or a table of indices, or add its operators."""
        values = self._values
        if self._fold_if_constant(node):
            return
        try:
            left = indices.convert(node)
            if left is None:
                return
            node = left
            if node.op == "Shape":
                values.constants[node.output] = node.sizes(values.shape(node.source))
                return
            chain = chains.chains.get(node.output)
            if chain is not None and not chain.plain:
                indices.look_up(chain.source)
                add_function(values, chain.function, chain.source, node.output)
                return
            if node.op == "Div" and not values.is_constant(node.inputs[1]):
                factor = chains.reciprocal(node.inputs[1])
                indices.look_up(factor.source)
                node = self._reciprocal_product(node, factor)
            if node.op not in CONVERTERS:
                raise Unsupported("has no integer form")
            CONVERTERS[node.op](values, node)
        except (Unsupported, ValueError) as error:
            label = f"{node.op}, which makes {node.output!r},"
            raise ModelError(f"cannot be quantised: {label} {error}", hint=_HINT) from None

    def _reciprocal_product(self, node: FileNode, factor: Chain) -> FileNode:
        """Return a Mul that replaces a Div by a computed value, and add its second factor.

        `factor` is the reciprocal of the divisor.
        """
        name = f"1/{node.inputs[1]}"
        if name not in self._values.held:
            add_function(self._values, factor.function, factor.source, name)
        return replace(node, op="Mul", inputs=(node.source, name))

    def _fold(self, node: FileNode) -> None:
        """Compute an operator that only reads constants, and add its outputs to the constants."""
        proto = next(each for each in self._proto.node if list(each.output) == list(node.outputs))
        self._values.constants.update(evaluate(proto, self._values.constants, self._opset))


def _with_output_names(graph: Graph, names: Sequence[str]) -> Graph:
    """Return a graph whose output tensors have the names that the outputs have in the file.

    If several outputs are the same tensor, it gets the name of the first.
    """
    tensors = dict(graph.tensors)
    for number, name in reversed([*zip(graph.outputs, names, strict=True)]):
        if number not in graph.inputs:
            tensors[number] = replace(tensors[number], name=name)
    return replace(graph, tensors=tensors)
