"""Inputs and outputs that an ONNX file declares, with the names of open dimensions."""

from collections.abc import Set
from typing import Any

from matloom.frontend.declaration import Declaration, DeclaredTensor, ModelInfo
from matloom.frontend.errors import ModelError, unreadable_file
from matloom.frontend.onnx.model import DTYPES, open_model
from matloom.frontend.onnx.shapes import infer_shapes
from matloom.frontend.onnx.sizes import inputs_of
from matloom.frontend.source import ModelFile


def read_onnx_declaration(file: ModelFile) -> Declaration:
    """Return the declarations of an ONNX file, with output shapes inferred if possible.

    Raises
    ------
    ModelError
        The file is damaged.
    MissingPackageError
        The package onnx is not installed.
    """
    try:
        model = open_model(file)
        inferred_outputs = {value.name: value for value in infer_shapes(model).graph.output}
    except ModelError as error:
        raise unreadable_file(file.name, error) from None
    graph_inputs = inputs_of(model.graph)
    ends = (*graph_inputs, *model.graph.output)
    named = {dim.dim_param for value in ends for dim in value.type.tensor_type.shape.dim}
    inputs = tuple(_declared_tensor(value, at, named) for at, value in enumerate(graph_inputs))
    outputs = tuple(
        _declared_tensor(inferred_outputs.get(value.name, value), at, named)
        for at, value in enumerate(model.graph.output, start=len(graph_inputs))
    )
    return Declaration(
        inputs=inputs, outputs=outputs, tensors=(*inputs, *outputs), info=_model_info(model)
    )


def _declared_tensor(value: Any, number: int, dim_names: Set[str]) -> DeclaredTensor:
    """Return the declaration of an input or output, an ONNX ValueInfoProto.

    `dim_names` holds the dimension names of the file; a name that shape inference invented becomes
    None.
    """
    tensor = value.type.tensor_type
    return DeclaredTensor(
        name=value.name,
        key=value.name,
        number=number,
        shape=tuple(_size(dim, dim_names) for dim in tensor.shape.dim),
        dtype=DTYPES.get(tensor.elem_type, "object"),
    )


def _size(dim: Any, dim_names: Set[str]) -> int | str | None:
    """Return the size of a dimension, its name if that is in `dim_names`, or None if unknown."""
    if dim.HasField("dim_value"):
        # Exporters write -1 for a dimension without a size.
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return str(dim.dim_param) if dim.dim_param and dim.dim_param in dim_names else None


def _model_info(model: Any) -> ModelInfo:
    """Return the descriptive fields of an ONNX model, such as its producer."""
    return ModelInfo(
        producer=model.producer_name,
        graph=model.graph.name,
        domain=model.domain,
        description=model.doc_string,
        graph_description=model.graph.doc_string,
        version=model.model_version,
        metadata={item.key: item.value for item in model.metadata_props},
    )
