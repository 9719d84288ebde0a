"""Names and float values inside ONNX networks, to compare two networks value by value."""

from collections import Counter
from typing import Any

from matloom.frontend.onnx.model import DTYPES, open_model
from matloom.frontend.onnx.shapes import infer_shapes
from matloom.frontend.onnx.sizes import set_sizes
from matloom.frontend.source import ModelFile
from matloom.kernels.onnx_model import values_read

#: Ends of names that ONNX Runtime's quantiser makes: of quantised values in files of QLinear
#: operators, and of the float values from which QuantizeLinear makes outputs.
QUANTISED, REAL_OUTPUT = "_quantized", "_QuantizeLinear_Input"
_CLIPPING = ("Relu", "Clip")


def float_names(file: ModelFile) -> dict[str, str]:
    """Return the name of the float value that each quantised value of a file stands for.

    It is that of QuantizeLinear's input. Values of QLinear operators have the same name with
    ``_quantized`` appended, as ONNX Runtime's quantiser names them.

    Raises
    ------
    ModelError
        The file is damaged.
    """
    found = {}
    for node in open_model(file).graph.node:
        if node.op_type == "QuantizeLinear":
            found[node.output[0]] = node.input[0].removesuffix(REAL_OUTPUT)
            continue
        for name in node.output:
            if name.endswith(QUANTISED):
                found[name] = name.removesuffix(QUANTISED)
    return found


def observe_values(file: ModelFile) -> tuple[bytes, dict[str, str]]:
    """Return the content of a float file, read before, with all its float values as outputs.

    They follow the file's own outputs. The dictionary maps each value that only a Relu or Clip
    reads to the result of that operator: quantisers leave these operators out, because integers can
    have the same limits.
    """
    model = open_model(file)
    set_sizes(model.graph, {}, {})
    model = infer_shapes(model)
    graph = model.graph
    made = {name for node in graph.node for name in node.output}
    ends = {value.name for value in graph.output}
    inner = [value for value in graph.value_info if value.name in made - ends]
    graph.output.extend(value for value in inner if _is_float(value))
    readers = Counter(name for node in graph.node for name in values_read(node))
    clipped = {
        node.input[0]: node.output[0]
        for node in graph.node
        if node.op_type in _CLIPPING and readers[node.input[0]] == 1 and node.input[0] not in ends
    }
    return model.SerializeToString(deterministic=True), clipped


def _is_float(value: Any) -> bool:
    """Return whether a value (`onnx.ValueInfoProto`) is float32 and has a known shape."""
    kind = value.type.tensor_type
    sizes = [dim.dim_value for dim in kind.shape.dim]
    return DTYPES.get(kind.elem_type) == "float32" and kind.HasField("shape") and all(sizes)
