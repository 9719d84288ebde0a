"""Converts ONNX files to graphs."""

from collections.abc import Mapping, Sequence

from matloom.frontend.errors import unreadable_file
from matloom.frontend.onnx.floats.read import float_graph
from matloom.frontend.onnx.graph import GraphReader
from matloom.frontend.onnx.model import is_exact, mark_exact, open_model
from matloom.frontend.onnx.shapes import infer_shapes
from matloom.frontend.onnx.sizes import set_sizes
from matloom.frontend.source import ModelFile
from matloom.ir.graph import Graph
from matloom.ir.verify import verify


def graph_of_onnx(file: ModelFile, *, exact: bool = False) -> Graph:
    """Return the graph of an ONNX file.

    Inputs, outputs and their axes stay as in the file. Operators that the graph does not support
    become REFERENCE nodes, which ONNX Runtime runs. For all others, the graph's remarks say that
    results equal ONNX Runtime's, or how many sums can differ. If `exact`, or if the file says so,
    operators with results that can differ become REFERENCE nodes as well.

    Raises
    ------
    ModelError
        The file is damaged, a dimension of an input has no size, or an input or output is not a
        tensor of a NumPy type.
    MissingPackageError
        The package onnx is not installed, or onnxruntime if a shape can only be found by running.
    """
    try:
        model = open_model(file)
        set_sizes(model.graph, {}, {})
        exact = exact or is_exact(model)
        graph = GraphReader(infer_shapes(model), file.name, exact=exact).graph()
        verify(graph, file.name)
    # Damage surfaces as any exception: IndexError, KeyError, ValueError.
    except Exception as error:
        raise unreadable_file(file.name, error) from None
    return graph


def floats_of_onnx(file: ModelFile) -> Graph | None:
    """Return the graph of a float ONNX network; None if the file is quantised already.

    Operators become those of `matloom.ir`, with channels last, as the quantiser needs; inputs and
    outputs keep the file's shapes. Results differ from ONNX Runtime's only by rounding.

    Raises
    ------
    ModelError
        The file cannot be read, as for `graph_of_onnx`; an operator has no counterpart; or an input
        is not float32.
    MissingPackageError
        The package onnx is not installed.
    """
    try:
        return float_graph(file)
    # A damaged file, as in `graph_of_onnx`.
    except Exception as error:
        raise unreadable_file(file.name, error) from None


def resize_onnx(
    file: ModelFile, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int], exact: bool
) -> bytes:
    """Return the content of an ONNX file with sizes set for its inputs.

    `shapes` are input shapes by name, `dims` sizes by dimension name. If `exact`, the metadata
    record that results must equal ONNX Runtime's. The errors are those of `graph_of_onnx`.
    """
    try:
        model = open_model(file)
        set_sizes(model.graph, shapes, dims)
        if exact:
            mark_exact(model)
        content: bytes = model.SerializeToString(deterministic=True)
    # A damaged file, as in `graph_of_onnx`.
    except Exception as error:
        raise unreadable_file(file.name, error) from None
    return content
