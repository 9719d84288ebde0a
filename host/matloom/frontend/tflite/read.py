"""Converts TensorFlow Lite files to graphs."""

from collections.abc import Mapping, Sequence

from matloom.frontend.errors import unreadable_file
from matloom.frontend.source import ModelFile
from matloom.frontend.tflite.resize import resize
from matloom.frontend.tflite.subgraph import SubgraphReader
from matloom.frontend.tflite.unroll import unroll_control_flow
from matloom.ir.graph import Graph
from matloom.ir.verify import verify


def is_tflite(content: bytes) -> bool:
    """Return whether the content of a file is a TensorFlow Lite model, by its identifier."""
    return content[4:8] == b"TFL3"


def graph_of_tflite(file: ModelFile) -> Graph:
    """Return the graph of a TensorFlow Lite file.

    Tensors keep their numbers, and their names unless two inputs or two outputs share one; then a
    colon and the number are appended. Constants of 4-bit integers become int8. Constants that are
    parameters of an operator (axes, paddings) become attributes; an absent bias is dropped.
    Operators that the graph does not know, or that break one of its rules, become REFERENCE nodes
    with the reason. Branches and loops with quantised layers are written out.

    Raises
    ------
    ModelError
        The file is truncated or malformed, or a tensor is read that nothing provides.
    """
    try:
        graph = SubgraphReader(unroll_control_flow(file.content)).graph(file.name)
        verify(graph, file.name)
    # Damage surfaces as any exception: struct.error, IndexError, TypeError.
    except Exception as error:
        raise unreadable_file(f"{file.name}:", error) from None
    return graph


def reshape_tflite(file: ModelFile, shapes: Mapping[str, Sequence[int]]) -> bytes:
    """Return the content of a TensorFlow Lite file with other input shapes.

    LiteRT infers the shapes of all other tensors.

    Raises
    ------
    ModelError
        The file is truncated or malformed, or `shapes` do not fit it.
    MissingPackageError
        ai-edge-litert is not installed.
    """
    try:
        return resize(file.content, shapes)
    # A damaged file, as in the reader above.
    except Exception as error:
        raise unreadable_file(f"{file.name}:", error) from None
