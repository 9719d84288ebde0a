"""Reference interpreters for comparisons, which keep every tensor between operators."""

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import tflite

from matloom.errors import MissingPackageError, UserError, install_command
from matloom.ir.attributes import INTERPRETERS, Reference
from matloom.ir.graph import Array, FileCopy, Graph, Node, Op
from matloom.kernels.cut import cut_file
from matloom.kernels.onnx_sessions import onnx_session
from matloom.kernels.probe import refusals
from matloom.kernels.reference import INTERPRETER_NAMES, to_declared_shape


class MicroReference:
    """TensorFlow Lite Micro, as a reference interpreter.

    Raises
    ------
    MissingPackageError
        tflite-micro is not installed.
    ValueError
        The interpreter refuses the network.
    """

    name = "TensorFlow Lite Micro"
    #: Sentence on a known difference between this reference and Matloom; empty if there is none.
    caveat = ""

    def __init__(self, content: bytes, graph: Graph) -> None:
        runtime = _module("tflite_micro.python.tflite_micro.runtime", "tflite-micro")
        # Tensors share no memory here, and kernels need space for their tables.
        room = sum(tensor.size_bytes + 1024 for tensor in graph.tensors.values())
        try:
            self.interpreter = runtime.Interpreter.from_bytes(
                content,
                arena_size=2 * room + 2**18,
                intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors,
            )
        except RuntimeError as error:
            raise UserError(
                f"TensorFlow Lite Micro refused {graph.name}: {error}",
                hint=f"LiteRT takes more networks; run: {install_command('ai-edge-litert')}",
            ) from None
        self.graph, self.numbers = graph, _file_numbers(content, graph)

    def run(self, inputs: Mapping[int, Array]) -> dict[int, Array]:
        """Return the output of every operator for one sample."""
        for at, number in enumerate(self.graph.inputs):
            self.interpreter.set_input(inputs[number], at)
        with _failures_as_user_errors(self.name):
            self.interpreter.invoke()
        return {number: self._tensor(number) for number in self.numbers}

    def _tensor(self, number: int) -> Array:
        """Return the value of tensor `number` after a run."""
        data = self.interpreter.GetTensor(self.numbers[number], 0)["tensor_data"]
        return np.array(data).reshape(self.graph.tensors[number].shape)


class LiteReference:
    """LiteRT with its reference kernels; raises like `MicroReference` (package ai-edge-litert)."""

    name = "LiteRT's reference kernels"
    caveat = (
        "LiteRT rounds dense layers of int8 once, TensorFlow Lite Micro and Matloom twice: "
        "differences of 1 from a FULLY_CONNECTED on are its own"
    )

    def __init__(self, content: bytes, graph: Graph) -> None:
        litert = _module("ai_edge_litert.interpreter", "ai-edge-litert")
        try:
            self.interpreter = litert.Interpreter(
                model_content=content,
                experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
                experimental_preserve_all_tensors=True,
            )
            self.interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise UserError(
                f"LiteRT refused {graph.name}: {error}",
                hint="matloom explain NET says what each operator runs on here",
            ) from None
        self.graph, self.numbers = graph, _file_numbers(content, graph)

    def run(self, inputs: Mapping[int, Array]) -> dict[int, Array]:
        """Return the output of every operator for one sample."""
        details = self.interpreter.get_input_details()
        for detail, number in zip(details, self.graph.inputs, strict=True):
            self.interpreter.set_tensor(detail["index"], inputs[number])
        with _failures_as_user_errors(self.name):
            self.interpreter.invoke()
        shapes = {number: self.graph.tensors[number].shape for number in self.numbers}
        return {
            number: to_declared_shape(
                np.array(self.interpreter.get_tensor(self.numbers[number])), shape
            )
            for number, shape in shapes.items()
        }


class OnnxReference:
    """ONNX Runtime on the CPU; raises like `MicroReference` (packages onnx and onnxruntime)."""

    name = "ONNX Runtime"
    caveat = ""

    def __init__(self, content: bytes, graph: Graph) -> None:
        onnx = _module("onnx", "onnx")
        _module("onnxruntime", "onnxruntime")
        model = onnx.ModelProto()
        model.ParseFromString(content)
        produced = {name for node in model.graph.node for name in node.output}
        produced -= {value.name for value in model.graph.output}
        names = {_file_copy(graph, number).name for number in _computed_tensors(graph)}
        more = [onnx.ValueInfoProto(name=name) for name in sorted(names & produced)]
        try:
            self.session = onnx_session(content)
            model.graph.output.extend(more)
            self.wide = onnx_session(model.SerializeToString()) if more else self.session
        except RuntimeError as error:
            raise UserError(
                f"ONNX Runtime refused {graph.name}: {error}",
                hint="matloom explain NET says what each operator runs on here",
            ) from None
        self.graph = graph

    def run(self, inputs: Mapping[int, Array]) -> dict[int, Array]:
        """Return the outputs for one sample, and other tensors that are values of the file.

        To read inner values, they are made outputs of the network, for which ONNX Runtime may
        optimise it differently. If that changes the actual outputs, inner values are left out.
        """
        found = self._outputs_by_name(self.session, inputs)
        wide = self._outputs_by_name(self.wide, inputs)
        if all(np.array_equal(array, wide[name]) for name, array in found.items()):
            found = wide
        copies = {
            number: _file_copy(self.graph, number) for number in _computed_tensors(self.graph)
        }
        return {
            number: to_declared_shape(
                _in_tensor_order(copy, found[copy.name]), self.graph.tensors[number].shape
            )
            for number, copy in copies.items()
            if copy.name in found
        }

    def _outputs_by_name(self, session: Any, inputs: Mapping[int, Array]) -> dict[str, Array]:
        """Return the outputs of a session by name."""
        names = [value.name for value in session.get_inputs()]
        feeds = {self.graph.tensors[number].name: array for number, array in inputs.items()}
        arrays = session.run(None, {name: feeds[name] for name in names})
        made = [value.name for value in session.get_outputs()]
        return dict(zip(made, map(np.asarray, arrays), strict=True))


def _file_copy(graph: Graph, number: int) -> FileCopy:
    """Return the value of the model file that tensor `number` holds: by `graph.copies` or name."""
    return graph.copies.get(number) or FileCopy(name=graph.tensors[number].name, axes=(), offset=0)


def _in_tensor_order(copy: FileCopy, array: Array) -> Array:
    """Return a value of the file with the axes and the type of the tensor that holds it."""
    array = array.transpose(copy.axes) if copy.axes else array
    return (array + np.uint8(copy.offset)).view(np.int8) if copy.offset else array


def open_reference(
    format: str, content: bytes, graph: Graph
) -> MicroReference | LiteReference | OnnxReference:
    """Return the reference interpreter for a model file.

    ONNX files run in ONNX Runtime; others in TensorFlow Lite Micro, or in LiteRT if that refuses or
    misreads the network.

    Raises
    ------
    MissingPackageError
        tflite-micro, or for ONNX files onnx or onnxruntime, is not installed.
    ValueError
        The interpreters refuse the network, or the first does and LiteRT is not installed.
    """
    if format == "ONNX":
        return OnnxReference(content, graph)
    if any(_misread_in_micro(node) for node in graph.nodes):
        return LiteReference(_runnable(content, "ai-edge-litert", graph), graph)
    try:
        return MicroReference(_runnable(content, "tflite-micro", graph), graph)
    except ValueError as refusal:
        try:
            return LiteReference(_runnable(content, "ai-edge-litert", graph), graph)
        except (ValueError, ModuleNotFoundError) as error:
            raise UserError(f"{refusal}; {error}", hint=getattr(error, "hint", "")) from None


def _misread_in_micro(node: Node) -> bool:
    """Return whether TensorFlow Lite Micro would read an operator otherwise than Matloom does."""
    if node.op is not Op.REFERENCE:
        return False
    return INTERPRETERS[0] not in node.attributes_as(Reference).interpreters


def _runnable(content: bytes, package: str, graph: Graph) -> bytes:
    """Return the network as a file with all data inside, which an interpreter has run once.

    It ran in another process, because interpreters crash on some networks.

    Raises
    ------
    MissingPackageError
        The interpreter is not installed.
    UserError
        It refuses the network.
    """
    try:
        cut = cut_file(content, Reference(operators=(), reasons=()), package)
    except ImportError:
        raise MissingPackageError(package, "comparing") from None
    (reason,) = refusals(package, [cut])
    if reason:
        raise UserError(
            f"{INTERPRETER_NAMES[package]} refused {graph.name}: {reason}",
            hint="matloom explain NET says what each operator runs on here",
        )
    return cut.content


@contextmanager
def _failures_as_user_errors(name: str) -> Iterator[None]:
    """Turn an interpreter's exception for some inputs into an error for users."""
    try:
        yield
    except RuntimeError as error:
        raise UserError(
            f"{name} fails on these inputs: {error}", hint="give inputs that the network takes"
        ) from None


def _file_numbers(content: bytes, graph: Graph) -> dict[int, int]:
    """Return the number in the file of each computed tensor; the graph may have more tensors.

    A copy of an output has the number of the output.
    """
    subgraph = tflite.Model.GetRootAs(content).Subgraphs(0)
    count = subgraph.TensorsLength()
    outputs = (subgraph.Outputs(at) for at in range(subgraph.OutputsLength()))
    copies = dict(zip(graph.outputs, outputs, strict=True))
    found = {number: copies.get(number, number) for number in _computed_tensors(graph)}
    return {number: at for number, at in found.items() if at < count}


def _computed_tensors(graph: Graph) -> list[int]:
    """Return the numbers of the tensors that operators compute."""
    return [number for node in graph.nodes for number in node.outputs]


def _module(name: str, package: str) -> ModuleType:
    """Import a module; raise MissingPackageError with its package if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingPackageError(package, "comparing") from None
