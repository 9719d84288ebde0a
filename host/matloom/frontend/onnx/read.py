"""ONNX files to graphs."""

import textwrap
from collections.abc import Mapping, Sequence

from matloom.errors import MissingPackageError
from matloom.frontend.errors import ModelError
from matloom.frontend.onnx.graph import GraphReader
from matloom.frontend.onnx.model import open_model
from matloom.frontend.onnx.shapes import inferred
from matloom.frontend.onnx.sizes import set_sizes
from matloom.frontend.source import ModelFile
from matloom.ir.graph import Graph
from matloom.ir.verify import verify

__all__ = ["graph_of_onnx", "resized_onnx"]


def graph_of_onnx(file: ModelFile) -> Graph:
    """Return the graph of an ONNX file.

    Inputs, outputs and their axes are the file's. Operators that are no operators of the graph,
    in every bit, become REFERENCE nodes, which ONNX Runtime runs.

    Raises
    ------
    ModelError
        The file is damaged, a dimension of an input has no size, or an input or output is no
        tensor of a type that NumPy has.
    MissingPackageError
        The package onnx is not installed, or onnxruntime where only a run tells a shape.
    """
    try:
        model = open_model(file)
        set_sizes(model.graph, {}, {})
        graph = GraphReader(inferred(model), file.name).graph()
        verify(graph, file.name)
    # A damaged file is found out by whatever meets it: IndexError, KeyError, ValueError.
    except Exception as error:
        raise _refused(file.name, error) from None
    return graph


def resized_onnx(
    file: ModelFile, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int]
) -> bytes:
    """Return an ONNX file whose inputs have sizes: by input, or by the name of a dimension.

    The errors are those of `graph_of_onnx`.
    """
    try:
        model = open_model(file)
        set_sizes(model.graph, shapes, dims)
        content: bytes = model.SerializeToString(deterministic=True)
    # Of a damaged file, as in `graph_of_onnx`.
    except Exception as error:
        raise _refused(file.name, error) from None
    return content


def _refused(name: str, error: Exception) -> Exception:
    """Return the error of a network, which may be any: readers stumble over damaged messages."""
    if isinstance(error, MissingPackageError):
        return error
    if isinstance(error, ModelError):
        return ModelError(_line(f"{name} {error}"), hint=error.hint)
    prefix = "" if str(error).startswith(f"{name}: ") else f"{name} is truncated or malformed: "
    return ModelError(_line(f"{prefix}{error}"))


def _line(sentence: str) -> str:
    """Return a sentence as one line of bounded length: a file may hold anything."""
    return textwrap.shorten(sentence, 300, placeholder=" ...")
