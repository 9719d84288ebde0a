"""Loads ONNX files, including weights stored in external files."""

from collections.abc import Iterator
from typing import Any

from matloom.errors import MissingPackageError
from matloom.frontend.errors import ModelError
from matloom.frontend.onnx.ends import widen_inputs_and_outputs
from matloom.frontend.source import ModelFile

#: NumPy's names of the types in `onnx.TensorProto.DataType`.
DTYPES = {
    **{1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64"},
    **{9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64"},
}


#: Metadata key that marks a model whose graph must give exactly ONNX Runtime's results.
_EXACT_KEY = "matloom.exact"


def is_exact(model: Any) -> bool:
    """Return whether a ModelProto is marked by `mark_exact`."""
    return any(each.key == _EXACT_KEY for each in model.metadata_props)


def mark_exact(model: Any) -> None:
    """Mark a ModelProto, in place, as one whose graph must give exactly ONNX Runtime's results."""
    if not is_exact(model):
        model.metadata_props.add(key=_EXACT_KEY, value="1")


def open_model(file: ModelFile) -> Any:
    """Return the complete ModelProto of a file, with inputs and outputs of NumPy types.

    Raises
    ------
    ModelError
        The file is malformed, or one of its external weight files cannot be read.
    MissingPackageError
        The package onnx is not installed.
    """
    try:
        import onnx
        from google.protobuf.message import DecodeError
        from onnx.external_data_helper import load_external_data_for_model, uses_external_data
    except ImportError:
        raise MissingPackageError("onnx", "reading ONNX files") from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(file.content)
    except DecodeError:
        raise ModelError("is truncated or malformed: a message does not end in it") from None
    if any(isinstance(name, bytes) for name in _all_names(model.graph)):
        raise ModelError("is truncated or malformed: a name in it is not UTF-8")
    widen_inputs_and_outputs(model.graph)
    outside = [each.name for each in model.graph.initializer if uses_external_data(each)]
    if outside and file.folder is None:
        raise ModelError(
            f"keeps {outside[0]!r} in another file, which bytes cannot refer to",
            hint="give the path of the .onnx file",
        )
    try:
        load_external_data_for_model(model, str(file.folder or ""))
    # Each fault has its own class: missing files, short files, files outside the folder.
    except Exception as error:
        line = " ".join(str(error).split())
        raise ModelError(f"keeps weights in other files, which cannot be read: {line}") from None
    return model


def _all_names(graph: Any) -> Iterator[Any]:
    """Yield the names in a GraphProto, but none in branches and bodies; damaged ones are bytes."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    yield from (each.name for each in graph.initializer)
    yield from (each.values.name for each in graph.sparse_initializer)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (each.name for each in node.attribute)
