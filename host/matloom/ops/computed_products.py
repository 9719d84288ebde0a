"""Products of int8 arrays that are both inputs of the program, instead of compiled into it."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from matloom.arch.config import Config, load_config
from matloom.arch.numerics import quantize_multiplier
from matloom.device.driver import Driver
from matloom.ir.attributes import BatchMatmul
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Array, Graph, Op, Quantisation
from matloom.ir.shapes import MATRIX_RANK, batch_matmul_shape
from matloom.ops.sessions import SESSIONS

#: Range of int8.
_BYTES = range(-128, 128)

#: Inner size from which sums of products of 9-bit numbers might exceed 32 bits.
_MOST_INNER = 2**31 // 255**2


def batch_matmul(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    scale: float,
    zero_point: int = 0,
    input_zero_points: tuple[int, int] = (0, 0),
    adj: tuple[bool, bool] = (False, False),
    device: str | Driver = "model",
    config: Config | str | Path | None = None,
) -> Array:
    """Return the products, int8, of the matrices in the last two axes of `a` and `b`.

    Both are inputs of the program, so only other shapes need another compilation, not other values.
    The result is that of TensorFlow Lite Micro's BATCH_MATMUL, bit for bit, on every device::

        sums = (a - input_zero_points[0]) @ (b - input_zero_points[1])
        clip(multiply_by_quantized_multiplier(sums, *quantize_multiplier(scale)) + zero_point,
             -128, 127)

    Parameters
    ----------
    a, b:
        int8 arrays, (..., rows, inner) and (..., inner, columns); leading axes are broadcast as in
        NumPy.
    scale:
        Scale of the results: above 0 and at most 2**30.
    zero_point, input_zero_points:
        Zero point of the result, and zero points of `a` and of `b`, within int8.
    adj:
        Whether the matrices of `a`, and those of `b`, are transposed.
    device, config:
        As for `matmul`.

    Raises
    ------
    ValueError, TypeError
        A shape, dtype or range does not fit, or sums might not fit 32 bits.
    """
    left, right = _checked_operand("a", a), _checked_operand("b", b)
    _require_scales(scale, zero_point, input_zero_points)
    graph = _graph((left.shape, right.shape), scale, (*input_zero_points, zero_point), adj)
    inner = left.shape[-2 if adj[0] else -1]
    if inner >= _MOST_INNER:
        raise ValueError(f"the inner size must be below {_MOST_INNER}, not {inner}")
    if isinstance(device, Driver):
        chosen = device.config
    else:
        chosen = load_config("reference" if config is None else config)
    outputs: dict[str, Array] = SESSIONS.find(graph, chosen, device).run({"a": left, "b": right})
    (result,) = outputs.values()
    return result


def _require_scales(scale: float, zero_point: int, input_zero_points: tuple[int, int]) -> None:
    """Raise `ValueError` unless the scale and the zero points are in their ranges."""
    for name, zero in zip(
        ("zero_point", "input_zero_points", "input_zero_points"),
        (zero_point, *input_zero_points),
        strict=True,
    ):
        if not isinstance(zero, int | np.integer) or zero not in _BYTES:
            raise ValueError(f"{name} must be -128 to 127, not {zero!r}")
    if not 0 < scale <= 2**30:
        raise ValueError(f"scale must be above 0 and at most 2**30, not {scale}")


def _checked_operand(name: str, array: npt.ArrayLike) -> Array:
    """Return an operand as an array, which must be int8 with two axes or more."""
    operand = np.asarray(array)
    if operand.dtype != np.int8:
        raise TypeError(f"{name} must be int8, not {operand.dtype}")
    if operand.ndim < MATRIX_RANK or not operand.size:
        raise ValueError(
            f"{name} must have 2 axes or more and an element, not shape {operand.shape}"
        )
    return operand


def _graph(
    shapes: tuple[tuple[int, ...], ...],
    scale: float,
    zeros: tuple[int, ...],
    adj: tuple[bool, bool],
) -> Graph:
    """Return a network of one product, whose inputs have scale 1."""
    attributes = BatchMatmul(adj_x=bool(adj[0]), adj_y=bool(adj[1]))
    batch_matmul_shape(shapes, attributes)
    # Taking the reciprocal of a 31-bit number twice loses nothing.
    multiplier, shift = quantize_multiplier(scale)
    kinds = [
        Quantisation(scale=(of,), zero_point=(int(zero),))
        for of, zero in zip((1.0, 1.0, 2.0 ** (31 - shift) / multiplier), zeros, strict=True)
    ]
    builder = GraphBuilder("product")
    inputs = [
        builder.input(name, shape, "int8", kind)
        for name, shape, kind in zip("ab", shapes, kinds[:2], strict=True)
    ]
    return builder.graph(builder.add(Op.BATCH_MATMUL, inputs, attributes, quantisation=kinds[2]))
