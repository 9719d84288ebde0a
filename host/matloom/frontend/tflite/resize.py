"""Changes the input shapes of a model file, and the shapes of all tensors that depend on them."""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tflite

from matloom.arch.program_file import TENSOR_LIMIT
from matloom.errors import MissingPackageError, did_you_mean
from matloom.frontend.errors import ShapeError
from matloom.frontend.tflite.flatbuffer import enum_name, numbers, operator_number, records, text
from matloom.ir.graph import Array
from matloom.ir.names import input_and_output_names
from matloom.ir.shapes import IMAGE_RANK
from matloom.kernels.cut import plain_model, serialise
from matloom.kernels.probe import tensor_shapes

Shape = tuple[int, ...]
_PACKAGE = "ai-edge-litert"


def resize(content: bytes, shapes: Mapping[str, Sequence[int]]) -> bytes:
    """Return the content of a TensorFlow Lite file whose inputs have the given shapes, by name.

    LiteRT infers the shapes of all other tensors. Values that depend only on shapes (SHAPE, and
    arithmetic on its result) become constants.

    Raises
    ------
    ShapeError
        No input has this name, the input cannot have this rank or size, or the network does not
        work with these shapes.
    MissingPackageError
        ai-edge-litert is not installed.
    """
    model = tflite.Model.GetRootAs(content)
    subgraph = model.Subgraphs(0)
    new_shapes = dict(_shapes_to_change(subgraph, shapes))
    try:
        objects = plain_model(content, _PACKAGE)
    except ImportError:
        raise MissingPackageError(_PACKAGE, "giving inputs other shapes") from None
    follows = list(_shape_only_operators(model, subgraph))
    produced = [
        int(number) for at in follows for number in numbers(subgraph.Operators(at), "Outputs")
    ]
    try:
        found, values = tensor_shapes(serialise(objects), new_shapes, produced)
    except ValueError as error:
        listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ShapeError(f"inputs of {listed} do not fit the network: {error}") from None
    _set_shapes(objects, found, values)
    graph = objects.subgraphs[0]
    graph.operators = [item for at, item in enumerate(graph.operators) if at not in follows]
    return serialise(objects)


def _shapes_to_change(
    subgraph: Any, shapes: Mapping[str, Sequence[int]]
) -> Iterator[tuple[int, Shape]]:
    """Yield the tensor number and the new shape of each input in `shapes`, which are by name."""
    inputs = numbers(subgraph, "Inputs").tolist()
    names = {
        number: text(subgraph.Tensors(number).Name()) or f"tensor_{number}"
        for number in range(subgraph.TensorsLength())
    }
    known = {name: number for number, name in input_and_output_names(names, (inputs,)).items()}
    for name, shape in shapes.items():
        if name not in known:
            raise ShapeError(
                f"a shape must be of an input ({', '.join(known)}), not {name!r}",
                hint=did_you_mean(name, known),
            )
        yield known[name], _check_shape(name, shape, subgraph.Tensors(known[name]))


def _check_shape(name: str, shape: Sequence[int], tensor: Any) -> Shape:
    """Return the new shape of an input; raise `ShapeError` if the input cannot have it."""
    sizes = tuple(shape)
    declared = numbers(tensor, "ShapeSignature").tolist() or numbers(tensor, "Shape").tolist()
    if len(sizes) != len(declared):
        raise ShapeError(
            f"the shape of input {name!r} must have {len(declared)} dimensions, not {sizes}"
        )
    if any(length < 1 for length in sizes):
        raise ShapeError(
            f"the shape of input {name!r} must have dimensions of at least 1, not {sizes}"
        )
    if math.prod(sizes) > TENSOR_LIMIT:
        raise ShapeError(
            f"the shape of input {name!r} must have at most {TENSOR_LIMIT} elements, not {sizes}"
        )
    # Weights fix the channels of an image; LiteRT would take twice the number for two groups.
    if len(sizes) == IMAGE_RANK and declared[3] not in (-1, sizes[3]):
        raise ShapeError(f"input {name!r} must have {declared[3]} channels, not {sizes[3]}")
    return sizes


def _shape_only_operators(model: Any, subgraph: Any) -> Iterator[int]:
    """Yield the indices of operators whose results depend only on the inputs' shapes."""
    codes = [
        enum_name(tflite.BuiltinOperator, operator_number(code))
        for code in records(model, "OperatorCodes")
    ]
    results = set(numbers(subgraph, "Outputs").tolist())
    produced = {
        int(number)
        for item in records(subgraph, "Operators")
        for number in numbers(item, "Outputs")
    }
    free = produced | set(numbers(subgraph, "Inputs").tolist())
    known: set[int] = set()
    for at, item in enumerate(records(subgraph, "Operators")):
        read = [number for number in numbers(item, "Inputs").tolist() if number >= 0]
        written = numbers(item, "Outputs").tolist()
        derived = any(number in known for number in read) and all(
            number in known or number not in free for number in read
        )
        if (codes[item.OpcodeIndex()] in ("SHAPE", "RANK") or derived) and not results & {*written}:
            known.update(written)
            yield at


def _set_shapes(model: Any, shapes: Mapping[int, Shape], values: Mapping[int, Array]) -> None:
    """Set the shapes of tensors, and make tensors with known values constant, in place.

    `shapes` and `values` are by tensor number.
    """
    graph = model.subgraphs[0]
    graph.tensors = [copy.copy(tensor) for tensor in graph.tensors]
    model.buffers, empty = list(model.buffers), type(model.buffers[0])
    for number, tensor in enumerate(graph.tensors):
        if number in shapes:
            tensor.shape, tensor.shapeSignature = np.array(shapes[number], np.int32), None
        if number in values:
            tensor.buffer = len(model.buffers)
            buffer = empty()
            buffer.data = np.frombuffer(values[number].tobytes(), np.uint8)
            model.buffers.append(buffer)
