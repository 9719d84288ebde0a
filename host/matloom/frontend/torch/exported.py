"""Converts an exported program to ONNX: its parameters first, then its operators in order."""

import operator
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from matloom.errors import MissingPackageError
from matloom.frontend.errors import ModelError, unreadable_file
from matloom.frontend.torch.elementwise import ELEMENTWISE
from matloom.frontend.torch.layers import LAYERS
from matloom.frontend.torch.moves import MOVES
from matloom.frontend.torch.quantised import QUANTISED
from matloom.frontend.torch.writer import Call, Value, Writer
from matloom.kernels.registered import find_registered

_HANDLERS: dict[str, Mapping[str, Callable[[Writer, Call], Any]]] = {
    "aten": {**ELEMENTWISE, **LAYERS, **MOVES},
    "quantized_decomposed": QUANTISED,
}


#: Prefixes of the names of operators that only check assumptions of the export.
_CHECKS = ("_assert", "sym_constrain")

#: Shape and type of a tensor.
Kind = tuple[tuple[int, ...], str]


class _UnknownOperatorError(ModelError):
    """Error for an operator that has no counterpart in ONNX."""


def is_exported(source: object) -> bool:
    """Return whether an object is a torch.export program, by the attributes that it has."""
    parts = ("graph_module", "graph_signature", "state_dict", "constants")
    return all(hasattr(source, part) for part in parts)


def is_module(source: object) -> bool:
    """Return whether an object is a PyTorch module, by the attributes that it has."""
    return all(hasattr(source, part) for part in ("forward", "named_parameters", "state_dict"))


def onnx_of_exported(program: Any) -> bytes:
    """Return the content of an ONNX file that holds a torch.export program.

    If an operator has no counterpart in ONNX, the program's own method decomposes its operators
    once.

    Raises
    ------
    ModelError
        An operator, a type or a size has no counterpart, or the program changes a buffer.
    MissingPackageError
        The package onnx is not installed.
    """
    if find_spec("onnx") is None:
        raise MissingPackageError("onnx", "reading programs of torch.export")
    try:
        try:
            return _Conversion(program).model()
        except _UnknownOperatorError:
            return _Conversion(program.run_decompositions()).model()
    except ModelError as error:
        raise unreadable_file("the exported program", error) from None


class _Conversion:
    """Conversion of one program, node by node."""

    def __init__(self, program: Any) -> None:
        self.program, self.writer = program, Writer()
        #: Result of each node of the program, by name: a Value, a list of Values, or None.
        self.values: dict[str, Any] = {}

    def model(self) -> bytes:
        """Return the exported program as the bytes of an ONNX model."""
        inputs = list(self._placeholders())
        for node in self.program.graph_module.graph.nodes:
            if node.op == "call_function":
                self.values[node.name] = self._convert_call(node)
            elif node.op == "get_attr":
                self.values[node.name] = self._constant(node.name, self._attribute(node.target))
        names = [(name, self.values[name]) for name in self._outputs()]
        used_names = {value.name for value in inputs}
        outputs = []
        for name, value in names:
            while name in used_names:
                name = f"{name}_out"
            used_names.add(name)
            outputs.append((name, value))
        return self.writer.model(inputs, outputs)

    def _placeholders(self) -> Iterator[Value]:
        """Add parameters and inputs to `values`; yield the inputs that a user passes."""
        nodes = {
            node.name: node
            for node in self.program.graph_module.graph.nodes
            if node.op == "placeholder"
        }
        for spec in self.program.graph_signature.input_specs:
            name, kind = str(getattr(spec.arg, "name", "")), spec.kind.name
            if kind == "USER_INPUT" and name in nodes:
                found = _shape_and_type(nodes[name].meta.get("val"))
                if found is None:
                    # A number that was passed during the export.
                    continue
                self.values[name] = value = Value(name=name, shape=found[0], dtype=found[1])
                yield value
            elif kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                parameters = {**self.program.constants, **self.program.state_dict}
                self.values[name] = self._constant(name, parameters[spec.target])

    def _constant(self, name: str, tensor: Any) -> Value:
        """Add a torch tensor as a constant, and return its value in the graph."""
        try:
            data = np.asarray(tensor.detach().cpu().numpy())
        except TypeError:
            dtype = str(tensor.dtype).removeprefix("torch.")
            raise ModelError(f"has {name!r} of {dtype}, which NumPy does not have") from None
        self.writer.constant(data, name=name)
        return Value(name=name, shape=data.shape, dtype=data.dtype.name, data=data)

    def _attribute(self, target: str) -> Any:
        """Return the attribute of the exported module at a dotted path."""
        found = self.program.graph_module
        for part in target.split("."):
            found = getattr(found, part)
        return found

    def _outputs(self) -> list[str]:
        """Return the names of the tensors that the program returns; it must change no state."""
        names = []
        for spec in self.program.graph_signature.output_specs:
            if spec.kind.name != "USER_OUTPUT":
                target = spec.target or spec.kind.name.lower()
                raise ModelError(
                    f"changes {target!r} when it runs, which Matloom does not support",
                    hint="export the module in eval mode, with its state as input and output",
                )
            name = getattr(spec.arg, "name", None)
            # Numbers and None, which a module may return besides tensors, are not outputs.
            if name in self.values:
                names.append(name)
        return names

    def _convert_call(self, node: Any) -> Any:
        """Convert a `call_function` node; return its value in the graph, or a list of values."""
        target = node.target
        if target is operator.getitem:
            return self._value(node.args[0])[node.args[1]]
        namespace, name, arguments = _parse_call(node)
        if name.startswith(_CHECKS):
            return None
        call = Call(
            operator=f"{namespace}.{name}",
            arguments={key: self._value(argument) for key, argument in arguments.items()},
            outputs=_output_kinds(node),
        )
        handler = _HANDLERS.get(namespace, {}).get(name) or self._custom_handler(namespace, name)
        found = handler(self.writer, call)
        names = found if isinstance(found, list) else [found]
        values = [
            None if each is None or kind is None else self._result(each, kind)
            for each, kind in zip(names, call.outputs, strict=False)
        ]
        return values if isinstance(node.meta.get("val"), (list, tuple)) else values[0]

    def _result(self, name: str, kind: Kind) -> Value:
        """Return the value `name`, which an operator made and which may be a constant."""
        return Value(name=name, shape=kind[0], dtype=kind[1], data=self.writer.constants.get(name))

    @staticmethod
    def _custom_handler(namespace: str, name: str) -> Callable[[Writer, Call], Any]:
        """Return a function that adds an operator of a user to the model, with a custom domain.

        The user has registered the operator as ``namespace.name``.

        Raises
        ------
        _UnknownOperatorError
            The operator is not registered.
        """
        if find_registered(f"{namespace}.{name}") is None:
            raise _UnknownOperatorError(
                f"has the operator {namespace}.{name}, which has no counterpart in ONNX",
                hint="export it with torch.onnx.export(dynamo=True), or register the operator",
            )

        def handler(writer: Writer, call: Call) -> list[str]:
            """Write an operator of a custom domain with its attributes; return its outputs."""
            arguments = call.arguments.items()
            inputs = [value.name for _, value in arguments if isinstance(value, Value)]
            plain = {key: value for key, value in arguments if not isinstance(value, Value)}
            return writer.add_multiple(name, inputs, len(call.outputs), domain=namespace, **plain)

        return handler

    def _value(self, argument: Any) -> Any:
        """Return an argument of an operator, with nodes, also within lists, replaced by values."""
        if isinstance(argument, (list, tuple)):
            return [self._value(each) for each in argument]
        if hasattr(argument, "meta") and hasattr(argument, "op"):
            if argument.name not in self.values:
                raise _UnknownOperatorError(f"has {argument.name!r}, which is not a tensor")
            return self.values[argument.name]
        return argument


def _parse_call(node: Any) -> tuple[str, str, dict[str, Any]]:
    """Return the namespace and the name of a node's operator, and all arguments by name.

    The arguments include defaults. The name of an in-place operator lacks the underscore at its
    end.
    """
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        raise _UnknownOperatorError(f"calls {getattr(node.target, '__name__', node.target)}")
    space, name = schema.name.split("::")
    known = [argument.name for argument in schema.arguments]
    arguments = {
        argument.name: argument.default_value
        for argument in schema.arguments
        if argument.has_default_value()
    }
    arguments.update(zip(known, node.args, strict=False))
    arguments.update(node.kwargs)
    # The export made in-place operators functional, or they can be treated so.
    plain = name if name.startswith("_") or not name.endswith("_") else name[:-1]
    return space, plain, arguments


def _output_kinds(node: Any) -> tuple[Kind | None, ...]:
    """Return the shape and type of each output of a node; None for outputs that are not tensors."""
    value = node.meta.get("val")
    return tuple(map(_shape_and_type, value if isinstance(value, (list, tuple)) else [value]))


def _shape_and_type(value: Any) -> Kind | None:
    """Return the shape and type of a tensor; None for other objects.

    Raises
    ------
    ModelError
        A size of the tensor is open.
    """
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return None
    for size in value.shape:
        if not isinstance(size, int):
            raise ModelError(
                f"leaves the size {size} open",
                hint="export it without dynamic_shapes, once for each size",
            )
    return tuple(value.shape), str(value.dtype).removeprefix("torch.")
