"""Writes a graph as an ONNX file."""

from typing import Any

import numpy as np

from matloom.frontend.onnx.values import in_file_order
from matloom.frontend.onnx.writing.file import FORMAT, OPSET, OnnxFile
from matloom.frontend.onnx.writing.layers import LAYERS
from matloom.frontend.onnx.writing.others import OTHERS
from matloom.ir.graph import Graph, Tensor

_WRITERS = {**LAYERS, **OTHERS}


def write_onnx(graph: Graph) -> bytes:
    """Return the content of an ONNX file that holds `graph`.

    Its inputs and outputs are float32, or indices; they keep their shapes, while images have
    channels first inside the file. Tensors of 8-bit integers are written between QuantizeLinear and
    DequantizeLinear, which ONNX Runtime and Matloom turn into integer operators.

    Raises
    ------
    ValueError
        The graph has an operator or a type that such a file cannot express.
    """
    import onnx

    file = OnnxFile(graph)
    for number in graph.inputs:
        tensor = graph.tensors[number]
        file.record_output(number, in_file_order(len(tensor.shape)), tensor.name)
    for node in graph.nodes:
        if node.op not in _WRITERS:
            raise ValueError(f"{node} has no counterpart in ONNX")
        _WRITERS[node.op](file, node)
    for number in graph.outputs:
        file.node("Identity", [file.value(number)], name=graph.tensors[number].name)
    made = onnx.helper.make_graph(
        file.nodes,
        graph.name,
        [_value_info(graph.tensors[number]) for number in graph.inputs],
        [_value_info(graph.tensors[number]) for number in graph.outputs],
        initializer=file.constants,
    )
    imports = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(
        made, producer_name="matloom", opset_imports=imports, ir_version=FORMAT
    )
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _value_info(tensor: Tensor) -> Any:
    """Return the declaration of an input or output; quantised tensors are float32 there."""
    import onnx

    shape = list(tensor.shape)
    dtype = "float32" if tensor.quantisation else tensor.dtype
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return onnx.helper.make_tensor_value_info(tensor.name, kind, shape)
