"""TensorFlow Lite files to graphs."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from matloom.errors import MissingPackage
from matloom.frontend.errors import ModelError
from matloom.frontend.resize import resized
from matloom.frontend.source import read_network
from matloom.frontend.subgraph import SubgraphReader
from matloom.ir.graph import Graph
from matloom.ir.verify import verify

__all__ = ["load_tflite", "resized_tflite"]

IDENTIFIER = b"TFL3"


def load_tflite(
    source: str | Path | bytes, shapes: Mapping[str, Sequence[int]] | None = None
) -> Graph:
    """Return the graph of a TensorFlow Lite file, given its path, its bytes or a packaged name.

    `shapes` are other shapes for inputs, by name, as networks of unknown height and width need:
    ``{"image": (1, 96, 96, 3)}``. All other tensors get the shapes that follow, from LiteRT.

    Tensors keep their numbers, and their names unless two inputs or two outputs share one: those
    get their number after a colon. Constants of 4-bit integers become int8. Constants that only
    say how an operator works (axes, paddings) become its attributes; a bias that is absent is
    dropped. Operators that the graph does not know, or that break one of its rules, become
    REFERENCE nodes, which say why.

    Raises
    ------
    ModelError
        The file is missing, truncated or malformed, a tensor is read that nothing provides, or
        `shapes` do not fit it.
    MissingPackage
        There are `shapes`, and ai-edge-litert is not installed.
    """
    name, content = read_network(source, IDENTIFIER)
    if shapes:
        content = resized_tflite(source, shapes)
    try:
        graph = SubgraphReader(content).graph(name)
        verify(graph, name)
    except Exception as error:
        raise _refused(name, error) from None
    return graph


def resized_tflite(source: str | Path | bytes, shapes: Mapping[str, Sequence[int]]) -> bytes:
    """Return a TensorFlow Lite file whose inputs have other shapes; errors are `load_tflite`'s."""
    name, content = read_network(source, IDENTIFIER)
    try:
        return resized(content, shapes)
    except MissingPackage:
        raise
    except Exception as error:
        raise _refused(name, error) from None


def _refused(name: str, error: Exception) -> ModelError:
    """Return the error of a network, which may be any: readers stumble over damaged offsets."""
    if isinstance(error, ModelError):
        return ModelError(_line(f"{name}: {error}"), hint=error.hint)
    prefix = "" if str(error).startswith(f"{name}: ") else f"{name} is truncated or malformed: "
    return ModelError(_line(f"{prefix}{error}"))


def _line(sentence: str) -> str:
    """Return a sentence as one line of bounded length: a file may hold anything."""
    return textwrap.shorten(sentence, 300, placeholder=" ...")
