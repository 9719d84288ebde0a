"""Results of ONNX Runtime for small groups of operators on all bytes, or all pairs of bytes."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.quantised import Model
from matloom.ir.graph import Array
from matloom.kernels.onnx_sessions import onnx_session


def every_byte(dtype: str) -> Array:
    """Return all values of int8 or uint8 (256,), in ascending order."""
    limits = np.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1, dtype=np.int64).astype(dtype)


def bytes_as_int8(data: Array) -> Array:
    """Return int8 data unchanged, and uint8 data minus 128, as int8."""
    if data.dtype == np.int8:
        return data
    moved: Array = (data.astype(np.int16) - 128).astype(np.int8)
    return moved


@lru_cache
def every_pair(dtypes: tuple[str, str]) -> tuple[Array, Array]:
    """Return all pairs of bytes, as two arrays (65536,); the second byte changes fastest."""
    first, second = map(every_byte, dtypes)
    return np.repeat(first, 256), np.tile(second, 256)


def run_alone(
    model: Any, nodes: Sequence[Any], inputs: dict[str, Array], output: str, dtype: str
) -> Array:
    """Return the value `output` that ONNX Runtime computes with some operators of a model.

    The operators run by themselves on `inputs`, by name, whose shapes may differ from the file's;
    `dtype` is the type of the output.

    Raises
    ------
    Unsupported
        ONNX Runtime is not installed, or refuses the operators.
    """
    import onnx

    def value(name: str, dtype: str, shape: tuple[int, ...] | None) -> Any:
        """Return the declaration of an input or output of the model that ONNX Runtime runs."""
        number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return onnx.helper.make_tensor_value_info(name, number, shape)

    alone = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    graph = alone.graph
    graph.name = "alone"
    graph.node.extend(nodes)
    graph.input.extend(value(name, each.dtype.name, each.shape) for name, each in inputs.items())
    graph.output.append(value(output, dtype, None))
    read = {name for node in nodes for name in node.input}
    graph.initializer.extend(
        each for each in model.graph.initializer if each.name in read and each.name not in inputs
    )
    try:
        (only_output,) = onnx_session(alone.SerializeToString()).run(None, inputs)
    except ImportError:
        raise Unsupported("needs ONNX Runtime to be compared with") from None
    # ONNX Runtime has its own exception classes.
    except Exception as error:
        line = " ".join(str(error).split())
        raise Unsupported(f"is refused by ONNX Runtime: {line}") from None
    result: Array = only_output
    return result


def constant_value(model: Model, name: str) -> Array | None:
    """Return the value of a constant, or of a constant after DequantizeLinear; None for others."""
    if name in model.constants:
        return model.constant(name)
    node = model.producer(name)
    if node is None or node.op_type != "DequantizeLinear" or node.input[0] not in model.constants:
        return None
    return run_alone(model.proto, [node], {}, name, "float32")
