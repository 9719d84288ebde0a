"""Operators without a kernel here, run by an installed reference interpreter.

TensorFlow Lite Micro comes first; LiteRT's reference kernels take what that refuses. Either is
imported when a network needs it.
"""

import functools
import hashlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from matloom.ir.attributes import Reference
from matloom.ir.graph import Array, Graph, Node

__all__ = ["InterpreterError", "ReferenceRun"]

#: Takes the inputs of one run and gives its outputs.
_Run = Callable[[Sequence[Array]], list[Array]]

_PROBE = """
import sys
from tflite_micro.python.tflite_micro import runtime
content = sys.stdin.buffer.read()
runtime.Interpreter.from_bytes(content, arena_size=int(sys.argv[1])).invoke()
"""


class InterpreterError(ValueError):
    """Operators that no installed interpreter runs: one line that names them and the remedy."""


class ReferenceRun:
    """The operators of one REFERENCE node; what they remember stays from run to run.

    Errors
    ------
    InterpreterError
        No interpreter is installed, or none takes the operators.
    """

    def __init__(self, graph: Graph, node: Node) -> None:
        attributes = node.attributes_as(Reference)
        content = graph.tensors[node.inputs[-1]].data
        assert content is not None
        self._shapes = [graph.tensors[number].shape for number in node.outputs]
        self._run = _open(content.tobytes(), attributes)

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Return the outputs for the node's inputs, whose last is the file."""
        outputs = self._run([np.asarray(array, order="C") for array in inputs[:-1]])
        return tuple(
            np.array(array).reshape(shape)
            for array, shape in zip(outputs, self._shapes, strict=True)
        )


def _open(content: bytes, attributes: Reference) -> _Run:
    """Return what runs the operators, on the first interpreter that takes them."""
    refusals = []
    for name, extra, start in (
        ("tflite-micro", "reference", _micro),
        ("ai-edge-litert", "litert", _litert),
    ):
        try:
            return start(content, attributes)
        except ImportError:
            refusals.append(f'{name} is not installed (pip install "matloom[{extra}]")')
        except Exception as error:
            # A damaged file is found out by whatever meets it: struct.error, AttributeError.
            line = (str(error).strip().splitlines() or [""])[-1]
            refusals.append(f"{name} refuses: {line}")
    operators = ", ".join(dict.fromkeys(attributes.operators))
    raise InterpreterError(
        f"{operators} must run on a reference interpreter, but {refusals[0]}; {refusals[1]}"
    )


def _cut(schema: Any, content: bytes, attributes: Reference) -> tuple[Any, bytes]:
    """Return the file with the node's operators alone, as an object and as bytes."""
    import flatbuffers

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    if not attributes.positions:
        return model, content
    subgraph = model.subgraphs[0]
    subgraph.operators = [subgraph.operators[at] for at in attributes.positions]
    subgraph.inputs = np.array(attributes.inputs, np.int32)
    subgraph.outputs = np.array(attributes.outputs, np.int32)
    used = {0}
    for operator in subgraph.operators:
        used.update(subgraph.tensors[number].buffer for number in operator.inputs if number >= 0)
    for number, buffer in enumerate(model.buffers):
        if number not in used:
            buffer.data = None
    model.signatureDefs, model.metadata, model.metadataBuffer = None, None, None
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return model, bytes(builder.Output())


def _room(model: Any) -> int:
    """Return bytes that are enough for every tensor at once, twice, and for kernels' tables."""
    elements = sum(
        int(np.prod([1] if tensor.shape is None else tensor.shape, dtype=np.int64))
        for subgraph in model.subgraphs
        for tensor in subgraph.tensors
        if model.buffers[tensor.buffer].data is None or len(model.buffers[tensor.buffer].data) == 0
    )
    return int(16 * elements + 1024 * sum(len(graph.tensors) for graph in model.subgraphs) + 2**20)


def _probe(content: bytes, room: int) -> None:
    """Raise RuntimeError where TensorFlow Lite Micro refuses a network, or crashes on it."""
    refusal = _refusal(_Content(content), room)
    if refusal is not None:
        raise RuntimeError(refusal)


class _Content:
    """A file, equal to another of the same digest: what is remembered of it is small."""

    def __init__(self, content: bytes) -> None:
        self.content: bytes | None = content
        self.digest = hashlib.sha256(content).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@functools.lru_cache(maxsize=256)
def _refusal(file: _Content, room: int) -> str | None:
    """Return why TensorFlow Lite Micro does not run a network; None where it does.

    The attempt is a process of its own: the library writes its reasons to stderr, and some
    networks that it does not take (SVDF without a bias) end the process. It takes a good part of a
    second, so its outcome is remembered.
    """
    content, file.content = file.content, None
    command = [sys.executable, "-c", _PROBE, str(room)]
    done = subprocess.run(command, input=content, capture_output=True, check=False)
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode not in (0, 1):
        return "the library crashes"
    if done.returncode == 1:
        return lines[0] if lines else "without a reason"
    return None


def _micro(content: bytes, attributes: Reference) -> _Run:
    from tflite_micro.python.tflite_micro import runtime

    model, content = _cut(runtime.schema_fb, content, attributes)
    _probe(content, _room(model))
    interpreter = runtime.Interpreter.from_bytes(content, arena_size=_room(model))
    outputs = len(model.subgraphs[0].outputs)

    def run(inputs: Sequence[Array]) -> list[Array]:
        for at, array in enumerate(inputs):
            interpreter.set_input(array, at)
        interpreter.invoke()
        return [interpreter.get_output(at) for at in range(outputs)]

    return run


def _litert(content: bytes, attributes: Reference) -> _Run:
    from ai_edge_litert import schema_py_generated
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    _model, content = _cut(schema_py_generated, content, attributes)
    interpreter = Interpreter(
        model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    inputs = [detail["index"] for detail in interpreter.get_input_details()]
    outputs = [detail["index"] for detail in interpreter.get_output_details()]

    def run(arrays: Sequence[Array]) -> list[Array]:
        for number, array in zip(inputs, arrays, strict=True):
            interpreter.set_tensor(number, array)
        interpreter.invoke()
        return [interpreter.get_tensor(number) for number in outputs]

    return run
