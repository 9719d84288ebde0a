"""Results of ONNX Runtime for all bytes, or all pairs of bytes, of small operator groups."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.quantised import Model
from matloom.ir.graph import Array
from matloom.kernels.onnx_sessions import onnx_session


def every_byte(dtype: str) -> Array:
    """Return all bytes of a type, in ascending order."""
    limits = np.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1, dtype=np.int64).astype(dtype)


def bytes_as_int8(data: Array) -> Array:
    """Return int8 or uint8 data as int8, 128 less where it was uint8."""
    if data.dtype == np.int8:
        return data
    moved: Array = (data.astype(np.int16) - 128).astype(np.int8)
    return moved


@lru_cache
def every_pair(dtypes: tuple[str, str]) -> tuple[Array, Array]:
    """Return all pairs of bytes, as two arrays (65536,)."""
    first, second = map(every_byte, dtypes)
    return np.repeat(first, 256), np.tile(second, 256)


def run_alone(
    model: Any, nodes: Sequence[Any], inputs: dict[str, Array], output: str, dtype: str
) -> Array:
    """Return an output of some operators of a model, run by themselves on inputs of any shape.

    Raises
    ------
    Unsupported
        ONNX Runtime is not installed, or refuses the operators.
    """
    import onnx

    def value(name: str, kind: str, shape: tuple[int, ...] | None) -> Any:
        number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
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


def known_numbers(model: Model, name: str) -> Array | None:
    """Return a constant, which may come from DequantizeLinear; None for a computed value."""
    if name in model.constants:
        return model.constant(name)
    node = model.producer(name)
    if node is None or node.op_type != "DequantizeLinear" or node.input[0] not in model.constants:
        return None
    return run_alone(model.proto, [node], {}, name, "float32")
