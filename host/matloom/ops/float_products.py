"""Floating-point matrix products, each run as graphs of one MATRIX_PRODUCT."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.arch.config import Config
from matloom.arch.floats import FLOAT_FORMATS, FP32, FloatFormat, narrow
from matloom.arch.isa import Opcode, largest
from matloom.arch.modes import MODES
from matloom.device.driver import Driver
from matloom.ir.attributes import MatrixProduct
from matloom.ir.graph import Array, Graph, Node, Op, Tensor
from matloom.ops.sessions import SESSIONS
from matloom.select.float_posts import limit_pattern

_Patterns = npt.NDArray[np.int64]

#: Floating-point formats, by the names of their dtypes in NumPy and ml_dtypes.
_DTYPES = {"float32": FP32} | {MODES[mode].weight: form for mode, form in FLOAT_FORMATS.items()}

#: Maximum number of rows of a program, because EXEC counts input rows.
_MAX_ROWS = largest(Opcode.EXEC, "input_rows")

#: Maximum number of columns of a program, because POST counts the bytes of a row of results.
_MAX_COLUMNS = 8192

#: fp32 -0, the neutral element of addition.
_NEGATIVE_ZERO = np.float32(-0.0)


@dataclass(frozen=True, kw_only=True)
class Epilogue:
    """Computes results from sums: ``limit((sums + residual) + bias, low, high)`` as `output`.

    Members
    -------
    bias:
        float32 (columns,); None for none.
    residual:
        Array with the format and shape of the result; None for none.
    low, high:
        Limits, which float8_e5m2 must represent exactly.
    output:
        The dtype of the result.
    """

    bias: npt.NDArray[np.float32] | None = None
    residual: npt.NDArray[Any] | None = None
    low: float = -np.inf
    high: float = np.inf
    output: npt.DTypeLike = np.float32


def _format_of(dtype: npt.DTypeLike) -> FloatFormat:
    """Return the number format of a NumPy type, or raise `TypeError`."""
    name = np.dtype(dtype).name
    if name not in _DTYPES:
        raise TypeError(f"a dtype must be one of {', '.join(_DTYPES)}, not {name}")
    return _DTYPES[name]


def _patterns_of(array: npt.NDArray[Any], number_format: FloatFormat) -> _Patterns:
    """Return the bit patterns of numbers in a format, to which float32 numbers are rounded.

    Raises `TypeError` for numbers of another dtype.
    """
    own = _format_of(array.dtype)
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    raw = little.view(f"<u{own.bytes}").astype(np.int64)
    if own is number_format:
        return raw
    if own is not FP32:
        raise TypeError(f"numbers must be float32 or {number_format.name}, not {array.dtype}")
    return np.asarray(narrow(raw, number_format))


def _graph(
    left: Tensor, right: Tensor, bias: Array, result: FloatFormat, attributes: MatrixProduct
) -> Graph:
    """Return a network of one product without a residual."""
    shape = (left.shape[0], right.shape[0])
    tensors = {
        0: left,
        1: right,
        2: Tensor(name="bias", shape=bias.shape, dtype="float32", data=bias),
        3: _tensor("result", shape, result),
    }
    node = Node(
        op=Op.MATRIX_PRODUCT, inputs=(0, 1, 2), outputs=(3,), attributes=attributes, index=0
    )
    return Graph(name="product", inputs=(0,), outputs=(3,), tensors=tensors, nodes=(node,))


def _with_residual(graph: Graph) -> Graph:
    """Return the network of a product with a second input: the residual, which is added."""
    (node,), result = graph.nodes, graph.tensors[3]
    residual = replace(result, name="residual")
    node = replace(node, inputs=(*node.inputs, 4))
    tensors = {**graph.tensors, 4: residual}
    return replace(graph, inputs=(0, 4), tensors=tensors, nodes=(node,))


def _tensor(
    name: str, shape: tuple[int, ...], number_format: FloatFormat, data: _Patterns | None = None
) -> Tensor:
    """Return a tensor of a number format, whose bits unsigned integers hold."""
    dtype = f"uint{number_format.bits}"
    stored = None if data is None else data.astype(dtype)
    return Tensor(
        name=name, shape=shape, dtype=dtype, data=stored, number_format=number_format.name
    )


def _slices(size: int, max_length: int) -> Iterator[slice]:
    """Yield slices of at most `max_length` elements that together cover `size` elements."""
    return (slice(at, min(at + max_length, size)) for at in range(0, size, max_length))


def float_product(
    left: npt.NDArray[Any],
    right: npt.NDArray[Any],
    mode: str,
    epilogue: Epilogue,
    device: str | Driver,
    config: Config,
) -> npt.NDArray[Any]:
    """Return the product of (rows, inner) and (inner, columns) in a floating-point mode.

    For each result, `float_rows` products at a time are added in a balanced tree, low indices
    first, and these sums are added one after another. The inner size is padded with +0.
    """
    form, out = FLOAT_FORMATS[mode], _format_of(epilogue.output)
    if out is not FP32 and out.name not in config.mac_modes:
        raise TypeError(
            f"a result must be float32 or the format of a supported mode, not {out.name}"
        )
    for value in (epilogue.low, epilogue.high):
        limit_pattern(value)
    attributes = MatrixProduct(mode=mode, low=epilogue.low, high=epilogue.high)
    rows, filters = _patterns_of(left, form), _patterns_of(right, form).T
    bias = np.full(len(filters), _NEGATIVE_ZERO) if epilogue.bias is None else epilogue.bias
    residual = None if epilogue.residual is None else _patterns_of(epilogue.residual, out)
    patterns = np.empty((len(rows), len(filters)), f"<u{out.bytes}")
    for across in _slices(len(filters), _MAX_COLUMNS):
        weights = _tensor("right", filters[across].shape, form, filters[across])
        for down in _slices(len(rows), _MAX_ROWS):
            operand = _tensor("left", rows[down].shape, form)
            inputs = {"left": rows[down].astype(operand.dtype)}
            graph = _graph(operand, weights, bias[across], out, attributes)
            if residual is not None:
                graph = _with_residual(graph)
                inputs["residual"] = residual[down, across].astype(patterns.dtype)
            session = SESSIONS.find(graph, config, device)
            patterns[down, across] = session.run(inputs)["result"]
    return patterns.view(np.dtype(epilogue.output))
