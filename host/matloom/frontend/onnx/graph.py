"""Converts an ONNX model to a graph."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from matloom.errors import MissingPackageError
from matloom.frontend.errors import ModelError, Unsupported
from matloom.frontend.onnx.bodies import with_loop_shapes
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.control import unroll_control_flow
from matloom.frontend.onnx.convert import Conversion, operator_name
from matloom.frontend.onnx.integer_products import split_zero_points
from matloom.frontend.onnx.loop_layout import with_channels_last
from matloom.frontend.onnx.model import DTYPES, mark_exact
from matloom.frontend.onnx.optimised import is_quantised, to_integer_operators
from matloom.frontend.onnx.reasons import usual_reason
from matloom.frontend.onnx.registered import registered_node
from matloom.frontend.onnx.reorder import reorder
from matloom.frontend.onnx.shapes import infer_shapes
from matloom.frontend.onnx.sizes import inputs_of
from matloom.frontend.onnx.values import FileValue
from matloom.frontend.opaque import OpaqueOperator, file_tensor, merge_opaque
from matloom.frontend.registered import RegisteredOperatorError
from matloom.ir.attributes import ONNX_INTERPRETERS, Reference
from matloom.ir.graph import Graph, Node, Op, Tensor
from matloom.ir.verify import verify
from matloom.kernels.onnx_model import cut_model, value_numbers
from matloom.kernels.probe import is_timeout, output_shapes

Shape = tuple[int, ...]


class GraphReader:
    """Converter of a ModelProto whose inputs have known sizes.

    `exact` requires results identical to ONNX Runtime's on this processor.
    """

    def __init__(self, model: Any, name: str, *, exact: bool = False) -> None:
        self.model, self.proto, self.name, self.exact = model, model.graph, name, exact
        self.content: bytes = model.SerializeToString(deterministic=True)
        self.numbers = value_numbers(self.proto)
        self.inputs = inputs_of(self.proto)
        self._claims: list[Claim] = []

    def graph(self) -> Graph:
        """Return the graph of the model.

        ONNX Runtime runs all operators that the engine does not support; if these are all, or the
        model cannot be divided, the graph has a single node.
        """
        try:
            graph = self._mixed_graph()
            verify(graph, self.name)
        except RegisteredOperatorError:
            raise
        except (Unsupported, ValueError):
            return self._single_node_graph()
        return graph

    def rounding_differences(self) -> list[Claim]:
        """Return, for each operator on the engine, how many results can differ from ONNX Runtime's.

        The list is empty if there are no such operators.
        """
        try:
            self._mixed_graph()
        except Unsupported:
            return []
        return self._claims

    def _mixed_graph(self) -> Graph:
        """Return a graph whose quantised layers are operators of the engine.

        Raises
        ------
        Unsupported
            There are none, a tensor between engine and ONNX Runtime has a type that NumPy lacks, an
            input is also an output, an input or output is repeated, or an output has an unknown
            shape.
        """
        if not is_quantised(self.proto) and not any(map(registered_node, self.proto.node)):
            raise Unsupported("has no quantised operator")
        model, floating = to_integer_operators(self.model, self.exact)
        model = split_zero_points(unroll_control_flow(model))
        model = with_channels_last(infer_shapes(reorder(model)))
        model = with_loop_shapes(model)
        numbers = value_numbers(model.graph)
        known = {
            value.name: FileValue(shape, DTYPES[value.type.tensor_type.elem_type])
            for value in (*self.inputs, *model.graph.value_info, *self.proto.output)
            if value.type.WhichOneof("value") == "tensor_type"
            and value.type.tensor_type.elem_type in DTYPES
            and (shape := _known_shape(value)) is not None
        }
        ends = [[value.name for value in side] for side in (self.inputs, self.proto.output)]
        if len({*ends[0], *ends[1]}) < len(ends[0]) + len(ends[1]) or not {*ends[1]} <= {*known}:
            raise Unsupported("has an input among its outputs")
        conversion = Conversion(model, numbers, known, floating, self.exact)
        outputs = conversion.run(*ends)
        if not conversion.claims and not conversion.custom_or_loops:
            raise Unsupported("has no layer for the engine")
        self._claims = list(conversion.claims.values())
        values = conversion.values
        if self.exact:
            mark_exact(model)
        file = values.add(file_tensor(model.SerializeToString(deterministic=True)))
        names = {number: name for name, number in numbers.items()}
        nodes = merge_opaque(
            _needed_operators(values.operators, outputs),
            outputs,
            file,
            lambda number: names.get(number, "") not in conversion.model.constants,
        )
        entering = [numbers[name] for name in ends[0]]
        return self._without_unused(entering, outputs, conversion, nodes)

    def _without_unused(
        self, inputs: list[int], outputs: list[int], conversion: Conversion, nodes: list[Node]
    ) -> Graph:
        """Return the graph of `nodes`, without tensors that no node reads or makes.

        `inputs` are the tensor numbers of the network's inputs.

        Raises
        ------
        Unsupported
            A tensor that is needed has a type that NumPy lacks.
        """
        values = conversion.values
        made = {number for node in nodes for number in node.outputs}
        needed = {*outputs, *(number for node in nodes for number in node.inputs)}
        for number in {*needed, *inputs}:
            if number not in values.tensors:
                raise Unsupported("has a tensor between its parts of a type that NumPy lacks")
        return Graph(
            name=self.name,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            tensors={n: values.tensors[n] for n in sorted({*needed, *inputs, *made})},
            nodes=tuple(nodes),
            remarks={index: str(claim) for index, claim in conversion.claims.items()},
            copies=values.copies(),
        )

    def _single_node_graph(self) -> Graph:
        """Return a graph of a single node that ONNX Runtime runs."""
        if not self.proto.output:
            raise ModelError("must have outputs")
        tensors = {
            self.numbers[value.name]: self._tensor(value, _stated_shape(value))
            for value in self.inputs
        }
        given = tuple(tensors)
        made = []
        for value, shape in zip(self.proto.output, self._output_shapes(), strict=True):
            number = self.numbers.get(value.name, len(self.numbers))
            # The node makes each output, even one that is an input or occurs twice.
            if number in tensors:
                number = max(len(self.numbers), *tensors) + 1
            tensors[number] = self._tensor(value, shape)
            made.append(number)
        file = max(len(self.numbers), *tensors) + 1
        tensors[file] = file_tensor(self.content)
        declared = {
            value.name: DTYPES.get(value.type.tensor_type.elem_type)
            for value in (*self.proto.value_info, *self.proto.output)
        }
        names = [operator_name(node) for node in self.proto.node]
        dtypes = [declared.get(next(iter(node.output), "")) for node in self.proto.node]
        whys = map(usual_reason, self.proto.node, dtypes)
        attributes = Reference(
            operators=tuple(names),
            reasons=tuple(f"{name} {why}" for name, why in zip(names, whys, strict=True)),
            interpreters=ONNX_INTERPRETERS,
        )
        node = Node(
            op=Op.REFERENCE,
            inputs=(*given, file),
            outputs=tuple(made),
            attributes=attributes,
            index=0,
        )
        return Graph(
            name=self.name, inputs=given, outputs=tuple(made), tensors=tensors, nodes=(node,)
        )

    def _tensor(self, value: Any, shape: Shape) -> Tensor:
        """Return the tensor for an ONNX output of this shape; raise ModelError if it is none."""
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            what = (kind or "nothing").removesuffix("_type").replace("_", " ")
            raise ModelError(f"has the output {value.name!r}, which must be a tensor, not {what}")
        dtype = DTYPES.get(value.type.tensor_type.elem_type)
        if dtype is None:
            raise ModelError(f"has the output {value.name!r} of a type that NumPy does not have")
        return Tensor(name=value.name, shape=shape, dtype=dtype)

    def _output_shapes(self) -> list[Shape]:
        """Return the shapes of the outputs; run the model if inference does not find them.

        Raises
        ------
        ModelError
            No interpreter can run the model.
        MissingPackageError
            ONNX Runtime is needed but not installed.
        """
        shapes = [_known_shape(value) for value in self.proto.output]
        found = [shape for shape in shapes if shape is not None]
        if len(found) == len(shapes):
            return found
        name = self.proto.output[shapes.index(None)].name
        if find_spec(ONNX_INTERPRETERS[0]) is None:
            purpose = f"finding the shape of output {name!r}"
            raise MissingPackageError(ONNX_INTERPRETERS[0], purpose)
        attributes = Reference(operators=(), reasons=(), interpreters=ONNX_INTERPRETERS)
        cut, refusals = cut_model(self.content, attributes), []
        for package in ONNX_INTERPRETERS:
            try:
                return output_shapes(package, cut)
            except ValueError as error:
                refusals.append(str(error))
                if is_timeout(refusals[-1]):
                    break
        sentence = f"has the output {name!r}, whose shape is unknown"
        raise ModelError(f"{sentence}, and ONNX Runtime refuses the network: {refusals[0]}")


def _needed_operators(
    items: Sequence[Node | OpaqueOperator], outputs: Sequence[int]
) -> list[Node | OpaqueOperator]:
    """Return the operators on which `outputs` depend, in the original order."""
    needed, kept = set(outputs), []
    for item in reversed(items):
        if needed & {*item.outputs}:
            needed.update(item.inputs)
            kept.append(item)
    return kept[::-1]


def _stated_shape(value: Any) -> Shape:
    """Return the sizes that a value's declaration states; 0 if a size is open."""
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def _known_shape(value: Any) -> Shape | None:
    """Return the shape of a value; None if it has none, or a dimension has no size."""
    tensor = value.type.tensor_type
    sized = tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)
    return _stated_shape(value) if sized else None
