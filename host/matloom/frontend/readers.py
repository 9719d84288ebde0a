"""The readers of model files, and which of them takes a file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matloom.frontend.declaration import Declaration
from matloom.frontend.errors import ModelError
from matloom.frontend.onnx.arithmetic import onnx_macs
from matloom.frontend.onnx.declaration import declared_by_onnx
from matloom.frontend.onnx.read import graph_of_onnx, resized_onnx
from matloom.frontend.onnx.recognise import is_onnx
from matloom.frontend.source import ModelFile, foreign_file, read_file
from matloom.frontend.tflite.arithmetic import file_macs
from matloom.frontend.tflite.declaration import declared_by_tflite
from matloom.frontend.tflite.read import graph_of_tflite, is_tflite, reshaped_tflite
from matloom.frontend.tflite.write import write_tflite
from matloom.frontend.torch.exported import is_exported, is_module, onnx_of_exported
from matloom.ir.graph import Graph

__all__ = ["READERS", "Reader", "complete", "declaration", "load", "macs", "reshaped", "write"]

Shapes = Mapping[str, Sequence[int]]
Dims = Mapping[str, int]
#: A path, bytes, or a program of torch.export, whose class only torch has.
Source = str | Path | bytes | Any


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reader of one format of model files.

    Members
    -------
    format:
        What messages call it.
    takes:
        Whether a file is of the format, by its content.
    graph:
        The graph of a file, and whether its results must be the format's own runtime's in every
        bit; raises `ModelError` for a file that is damaged.
    reshaped:
        The file with other shapes for its inputs, by name, and sizes for dimensions that have a
        name, and the wish that its graph be exact; raises `ModelError` where they do not fit.
    macs:
        Multiply-accumulates of operators of a file, by their names and positions (`Reference`).
    declared:
        The tensors that a file declares; raises `ModelError` for one that is damaged.
    """

    format: str
    takes: Callable[[bytes], bool]
    graph: Callable[[ModelFile, bool], Graph]
    reshaped: Callable[[ModelFile, Shapes, Dims, bool], bytes]
    macs: Callable[[bytes, Sequence[str], Sequence[int]], list[int]]
    declared: Callable[[ModelFile], Declaration]


def _reshaped_tflite(file: ModelFile, shapes: Shapes, dims: Dims, _exact: bool) -> bytes:
    if dims:
        name = next(iter(dims))
        raise ModelError(
            f"{file.name} has no dimension {name!r}: those of TensorFlow Lite have no names",
            hint="give the shape of an input",
        )
    return reshaped_tflite(file, shapes)


TFLITE = Reader(
    format="TensorFlow Lite",
    takes=is_tflite,
    graph=lambda file, _exact: graph_of_tflite(file),
    reshaped=_reshaped_tflite,
    macs=file_macs,
    declared=declared_by_tflite,
)
ONNX = Reader(
    format="ONNX",
    takes=is_onnx,
    graph=lambda file, exact: graph_of_onnx(file, exact=exact),
    reshaped=resized_onnx,
    macs=onnx_macs,
    declared=declared_by_onnx,
)
READERS = (TFLITE, ONNX)


def load(
    source: Source,
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    *,
    exact: bool = False,
) -> Graph:
    """Return the graph of a model file: a path, its bytes or the name of a packaged network.

    A program of torch.export is read as the ONNX model of the same operators.

    Parameters
    ----------
    shapes:
        Other shapes for inputs, by name, as networks of unknown height and width need:
        ``{"image": (1, 96, 96, 3)}``.
    dims:
        Sizes of dimensions that ONNX files have names for: ``{"batch": 1}``.
    exact:
        Leave to ONNX Runtime the layers of an ONNX file some of whose results can differ from its.
        Graphs of TensorFlow Lite files are exact.

    Raises
    ------
    ModelError
        The file is missing, damaged or of a format that no reader takes, or `shapes` and `dims` do
        not fit.
    MissingPackageError
        A package that the format needs is not installed.
    """
    reader, file = _opened(source)
    if shapes or dims:
        file = replace(file, content=reader.reshaped(file, shapes or {}, dims or {}, exact))
    return reader.graph(file, exact)


def reshaped(
    source: Source,
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    *,
    exact: bool = False,
) -> bytes:
    """Return a model file that is read with other shapes, or exactly, by itself: see `load`."""
    reader, file = _opened(source)
    return reader.reshaped(file, shapes or {}, dims or {}, exact)


def declaration(source: Source) -> Declaration:
    """Return the tensors that a model file declares, in the file's own terms; errors as of `load`.

    Sizes may be open, so it reads files that `load` needs `shapes` or `dims` for.
    """
    reader, file = _opened(source)
    return reader.declared(file)


def macs(content: bytes, names: Sequence[str], positions: Sequence[int]) -> list[int]:
    """Return the multiply-accumulates of operators of a model file, 0 if none are known.

    `names` and `positions`, places in the file, select operators; none selects all. Registered
    operators have no file.
    """
    for reader in READERS:
        if reader.takes(content):
            return reader.macs(content, names, positions)
    return [0] * len(names)


def complete(source: Source) -> tuple[str, bytes]:
    """Return the format of a model file, and its bytes with all that lies in other files."""
    reader, file = _opened(source)
    content = file.content if reader is TFLITE else reader.reshaped(file, {}, {}, False)
    return reader.format, content


def write(graph: Graph) -> tuple[str, bytes]:
    """Return the suffix and the bytes of a model file that holds a graph.

    Raises
    ------
    ValueError, KeyError, AttributeError
        No format holds it.
    """
    return ".tflite", write_tflite(graph)


def _opened(source: Source) -> tuple[Reader, ModelFile]:
    if is_exported(source):
        content = onnx_of_exported(source)
        return ONNX, ModelFile(
            name="exported", shown="the exported program", content=content, folder=None
        )
    if is_module(source):
        raise ModelError(
            f"{type(source).__name__} is a module of PyTorch, which must be exported first",
            hint="give torch.export.export(module.eval(), (example_input,))",
        )
    file = read_file(source)
    for reader in READERS:
        if reader.takes(file.content):
            return reader, file
    raise foreign_file(file)
