"""Real numbers as the integers of a tensor, and back."""

import numpy as np

from matloom.ir.graph import Array, Tensor
from matloom.program import Quantised, TensorInfo
from matloom.program.quantise import quantise


def real(tensor: Tensor, integers: Array) -> Array:
    """Return the float32 numbers that integers of a tensor represent.

    If the tensor has no scale, they are returned unchanged.
    """
    if tensor.quantisation is None:
        return integers
    centred = integers.astype(np.float32) - np.float32(tensor.zero_point)
    return centred * np.float32(tensor.scale)


def integers_of(tensor: Tensor, values: Array) -> Array:
    """Return real numbers as the integers of a tensor, rounded as QUANTIZE does.

    If the tensor has no scale, the values are returned unchanged.
    """
    if tensor.quantisation is None:
        return values
    scale = Quantised(scale=tensor.scale, zero_point=tensor.zero_point)
    info = TensorInfo(name=tensor.name, shape=tensor.shape, dtype=tensor.dtype, quantised=scale)
    return quantise(info, values)
