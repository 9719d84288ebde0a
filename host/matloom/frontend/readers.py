"""The readers of model files, and which of them takes a file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matloom.frontend.source import ModelFile, foreign_file, read_file
from matloom.frontend.tflite.arithmetic import file_macs
from matloom.frontend.tflite.read import graph_of_tflite, is_tflite, reshaped_tflite
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.graph import Graph

__all__ = ["READERS", "Reader", "load", "macs", "reshaped", "write"]

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """What a format of model files needs.

    Members
    -------
    takes:
        Whether a file is of the format, by its content.
    graph:
        The graph of a file; raises `ModelError` for one that is damaged.
    reshaped:
        The file with other shapes for its inputs, by name; raises `ModelError` where they do not
        fit.
    macs:
        Multiply-accumulates of operators of a file, by their names and positions (`Reference`).
    """

    takes: Callable[[bytes], bool]
    graph: Callable[[ModelFile], Graph]
    reshaped: Callable[[ModelFile, Shapes], bytes]
    macs: Callable[[bytes, Sequence[str], Sequence[int]], list[int]]


TFLITE = Reader(takes=is_tflite, graph=graph_of_tflite, reshaped=reshaped_tflite, macs=file_macs)
READERS = (TFLITE,)


def load(source: str | Path | bytes, shapes: Shapes | None = None) -> Graph:
    """Return the graph of a model file: a path, its bytes or the name of a packaged network.

    Parameters
    ----------
    shapes:
        Other shapes for inputs, by name, as networks of unknown height and width need:
        ``{"image": (1, 96, 96, 3)}``.

    Raises
    ------
    ModelError
        The file is missing, damaged or of a format that no reader takes, or `shapes` do not fit.
    MissingPackageError
        There are `shapes`, and the package that follows them is not installed.
    """
    reader, file = _opened(source)
    if shapes:
        file = ModelFile(
            name=file.name,
            shown=file.shown,
            content=reader.reshaped(file, shapes),
            folder=file.folder,
        )
    return reader.graph(file)


def reshaped(source: str | Path | bytes, shapes: Shapes) -> bytes:
    """Return a model file whose inputs have other shapes; the errors are those of `load`."""
    reader, file = _opened(source)
    return reader.reshaped(file, shapes)


def macs(content: bytes, names: Sequence[str], positions: Sequence[int]) -> list[int]:
    """Return the multiply-accumulates of operators of a model file, 0 where none are known.

    `names` are theirs, `positions` their places in the file; none stands for all.
    """
    (reader,) = (each for each in READERS if each.takes(content))
    return reader.macs(content, names, positions)


def write(graph: Graph) -> tuple[str, bytes]:
    """Return the suffix and the bytes of a model file that holds a graph.

    Raises
    ------
    ValueError, KeyError, AttributeError
        No format holds it.
    """
    return ".tflite", write_tflite(graph)


def _opened(source: str | Path | bytes) -> tuple[Reader, ModelFile]:
    file = read_file(source)
    for reader in READERS:
        if reader.takes(file.content):
            return reader, file
    raise foreign_file(file)
