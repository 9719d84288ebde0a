"""Linear interpolation, as operators that the engine has."""

import numpy as np
import numpy.typing as npt

from matloom.frontend.onnx.floats.edges import extend
from matloom.frontend.onnx.floats.values import FloatValues
from matloom.ir.attributes import DepthwiseConv2D, Resize
from matloom.ir.graph import Op


def interpolate(values: FloatValues, number: int, size: Resize, name: str) -> int:
    """Return an image enlarged by whole factors, linearly interpolated; beyond it, edges repeat.

    To enlarge by a factor of f, each position is repeated f times, and then averaged with its
    neighbours: with f of them if f is odd, else with f + 1, of which the outer two count half.
    """
    shape = values.builder.tensors[number].shape
    factors = [size.size[at] // shape[at + 1] for at in range(2)]
    number = values.add(Op.RESIZE_NEAREST_NEIGHBOR, [number], size)
    for axis, factor in enumerate(factors, 1):
        last = values.builder.tensors[number].shape[axis] - 1
        number = extend(values, number, axis, [0] * (factor // 2), [last] * (factor // 2))
    taps = np.outer(*map(_average, factors)).astype(np.float32)
    filters = np.repeat(taps[np.newaxis, :, :, np.newaxis], shape[3], axis=3)
    operands = [number, values.builder.constant(filters)]
    return values.add(Op.DEPTHWISE_CONV_2D, operands, DepthwiseConv2D(), name=name)


def _average(factor: int) -> npt.NDArray[np.float64]:
    """Return the weights of neighbours along an axis."""
    weights = np.full(factor | 1, 1 / factor)
    if factor % 2 == 0:
        weights[[0, -1]] /= 2
    return weights
