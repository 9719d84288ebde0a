"""The readers of model files, and the functions that choose one by the content of a file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matloom.frontend.declaration import Declaration
from matloom.frontend.errors import ModelError
from matloom.frontend.loops import LoopParts
from matloom.frontend.onnx.arithmetic import onnx_macs
from matloom.frontend.onnx.declaration import read_onnx_declaration
from matloom.frontend.onnx.inner_values import float_names, observe_values
from matloom.frontend.onnx.loops import onnx_loop
from matloom.frontend.onnx.read import floats_of_onnx, graph_of_onnx, resize_onnx
from matloom.frontend.onnx.recognise import is_onnx
from matloom.frontend.onnx.writing.write import write_onnx
from matloom.frontend.sizes import Dims, Shapes, check_sizes
from matloom.frontend.source import ModelFile, bytes_of, foreign_file, read_file
from matloom.frontend.tflite.arithmetic import file_macs
from matloom.frontend.tflite.declaration import read_tflite_declaration
from matloom.frontend.tflite.loops import tflite_loop
from matloom.frontend.tflite.read import graph_of_tflite, is_tflite, reshape_tflite
from matloom.frontend.tflite.write import write_tflite
from matloom.frontend.torch.exported import is_exported, is_module, onnx_of_exported
from matloom.ir.graph import Graph, Op

#: A path, bytes, or a torch.export program, whose class needs torch.
Source = str | Path | bytes | Any


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reader of one model file format.

    Members
    -------
    format:
        Name of the format in messages.
    recognises:
        Returns whether the content of a file has this format.
    graph:
        Returns the graph of a file. The flag says whether its results must be bit-exact with the
        format's own runtime. Raises `ModelError` for a damaged file.
    reshape:
        Returns the content of a file with other input shapes, by input name, with sizes for named
        dimensions, and with a mark that its graph must be exact. Raises `ModelError` if these do
        not fit.
    macs:
        Returns the number of multiply-accumulates of each operator of a file that is selected by
        its name and position, as in `Reference`.
    declared:
        Returns the declarations of a file; raises `ModelError` for a damaged file.
    loop:
        Returns the parts of a loop of a file, by the index of its operator; None if its body cannot
        be a network of its own.
    """

    format: str
    recognises: Callable[[bytes], bool]
    graph: Callable[[ModelFile, bool], Graph]
    reshape: Callable[[ModelFile, Shapes, Dims, bool], bytes]
    macs: Callable[[bytes, Sequence[str], Sequence[int]], list[int]]
    declared: Callable[[ModelFile], Declaration]
    loop: Callable[[bytes, int], LoopParts | None]


def _reshaped_tflite(file: ModelFile, shapes: Shapes, dims: Dims, _exact: bool) -> bytes:
    """Return a .tflite file's bytes with other input shapes; it has no named dimensions."""
    if dims:
        name = next(iter(dims))
        raise ModelError(
            f"{file.name} has no dimension {name!r}: those of TensorFlow Lite have no names",
            hint="give the shape of an input",
        )
    return reshape_tflite(file, shapes)


TFLITE = Reader(
    format="TensorFlow Lite",
    recognises=is_tflite,
    graph=lambda file, _exact: graph_of_tflite(file),
    reshape=_reshaped_tflite,
    macs=file_macs,
    declared=read_tflite_declaration,
    loop=tflite_loop,
)
ONNX = Reader(
    format="ONNX",
    recognises=is_onnx,
    graph=lambda file, exact: graph_of_onnx(file, exact=exact),
    reshape=resize_onnx,
    macs=onnx_macs,
    declared=read_onnx_declaration,
    loop=onnx_loop,
)
READERS = (TFLITE, ONNX)


def load(
    source: Source,
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    *,
    exact: bool = False,
) -> Graph:
    """Return the graph of a network.

    `source` is the path of a model file, its bytes, the name of a packaged network, or a program
    from torch.export, which is converted to ONNX first.

    Parameters
    ----------
    shapes:
        Input shapes by name, for networks of unknown height and width: ``{"image": (1, 96, 96,
        3)}``.
    dims:
        Sizes of named dimensions in ONNX files: ``{"batch": 1}``.
    exact:
        Leave a layer of an ONNX file to ONNX Runtime if some results could differ. Graphs of
        TensorFlow Lite files are always exact.

    Raises
    ------
    ModelError
        The file is missing, damaged or of an unknown format, or `shapes` or `dims` do not fit.
    UserTypeError
        `shapes` or `dims` is not a mapping.
    MissingPackageError
        A package that the format needs is not installed.
    """
    reader, file = _open_with_sizes(source, shapes, dims, exact=exact)
    return reader.graph(file, exact)


def load_floats(source: Source) -> Graph:
    """Return the graph of a network to quantise: like `load`, but also converts float ONNX files.

    The graph of a float ONNX file has channels last, and only operators that also exist for
    integers. Its results differ from ONNX Runtime's by rounding.

    Raises
    ------
    ModelError
        As `load`; or an operator of a float ONNX file has no counterpart.
    """
    reader, file = _open_source(source)
    floats = floats_of_onnx(file) if reader is ONNX else None
    return reader.graph(file, False) if floats is None else floats


def load_with_inner_values(
    source: Source, shapes: Shapes | None = None
) -> tuple[Graph, dict[str, str]]:
    """Return a graph like `load`, but with the values inside a float ONNX network as outputs.

    Otherwise ONNX Runtime would run such a network as one operator. The values follow the network's
    own outputs, under their names in the file. The dictionary maps those that only a Relu or Clip
    reads to the name of its result. It is empty for all other networks.
    """
    reader, file = _open_with_sizes(source, shapes)
    graph = reader.graph(file, False)
    if reader is not ONNX or [node.op for node in graph.nodes] != [Op.REFERENCE]:
        return graph, {}
    content, clipped = observe_values(file)
    return reader.graph(replace(file, content=content), False), clipped


def float_value_names(source: Source) -> dict[str, str]:
    """Return the name of the float value that each quantised value of an ONNX file stands for.

    The result is empty for other formats, in which quantised tensors keep their names.
    """
    reader, file = _open_source(source)
    return float_names(file) if reader is ONNX else {}


def reshape(
    source: Source,
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    *,
    exact: bool = False,
) -> bytes:
    """Return the content of a model file with `shapes`, `dims` and `exact` written into it.

    The parameters and errors are those of `load`.
    """
    sizes = check_sizes(shapes, dims)
    reader, file = _open_source(source)
    return reader.reshape(file, *sizes, exact)


def declaration(source: Source) -> Declaration:
    """Return the declarations of a model file; raises the same errors as `load`.

    Sizes may be open, so `shapes` and `dims` are not needed.
    """
    reader, file = _open_source(source)
    return reader.declared(file)


def macs(content: bytes, names: Sequence[str], positions: Sequence[int]) -> list[int]:
    """Return the number of multiply-accumulates of each operator in `names`; 0 if unknown.

    `positions` are the operators' indices in the model file `content`. If it is empty, `names`
    lists all operators of the file. If `content` is no model file, as for registered operators, all
    results are 0.
    """
    for reader in READERS:
        if reader.recognises(content):
            return reader.macs(content, names, positions)
    return [0] * len(names)


def loop(content: bytes, positions: Sequence[int]) -> LoopParts | None:
    """Return the parts of the loop whose index in a model file is in `positions`.

    The result is None if there is not exactly one position, or the loop must stay whole.
    """
    readers = [reader for reader in READERS if reader.recognises(content)]
    return readers[0].loop(content, *positions) if readers and len(positions) == 1 else None


def load_complete(source: Source) -> tuple[str, bytes]:
    """Return the name of a model file's format, and its bytes with all external data included."""
    reader, file = _open_source(source)
    content = file.content if reader is TFLITE else reader.reshape(file, {}, {}, False)
    return reader.format, content


def write(graph: Graph, suffix: str = ".tflite") -> tuple[str, bytes]:
    """Return `suffix`, and the bytes of a model file that contains a graph.

    Parameters
    ----------
    suffix:
        ``.tflite``; or ``.onnx`` for a file with inputs and outputs of floats, in which 8-bit
        tensors lie between QuantizeLinear and DequantizeLinear.

    Raises
    ------
    ValueError, KeyError, AttributeError
        The format cannot represent the graph.
    """
    return suffix, (write_onnx if suffix == ".onnx" else write_tflite)(graph)


def _open_with_sizes(
    source: Source, shapes: Shapes | None, dims: Dims | None = None, *, exact: bool = False
) -> tuple[Reader, ModelFile]:
    """Open a model file and set the sizes given for its inputs; return its reader and the file."""
    sizes = check_sizes(shapes, dims)
    reader, file = _open_source(source)
    if any(sizes):
        file = replace(file, content=reader.reshape(file, *sizes, exact))
    return reader, file


def _open_source(source: Source) -> tuple[Reader, ModelFile]:
    """Return the reader for a source's format, and the file's content."""
    if is_exported(source):
        content = onnx_of_exported(source)
        return ONNX, ModelFile(
            name="exported", display_name="the exported program", content=content, folder=None
        )
    if is_module(source):
        raise ModelError(
            f"{type(source).__name__} is a module of PyTorch, which must be exported first",
            hint="give torch.export.export(module.eval(), (example_input,))",
        )
    file = read_file(bytes_of(source))
    for reader in READERS:
        if reader.recognises(file.content):
            return reader, file
    raise foreign_file(file)
