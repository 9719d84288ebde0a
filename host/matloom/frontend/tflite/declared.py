"""Checks declared output shapes of operators that only interpreters support.

TensorFlow Lite Micro trusts the output shape that the file declares. LiteRT computes it from the
inputs.
"""

import math
from collections.abc import Sequence

import numpy as np

from matloom.frontend.errors import Contradiction, Unsupported
from matloom.frontend.tflite.tensors import FileTensors

#: Operators whose output has the shape of their first input.
_SAME_SHAPE = frozenset({"CUMSUM", "L2_NORMALIZATION", "LOG_SOFTMAX", "REVERSE_V2"})

#: Operators whose output has the same number of axes as their first input.
_SAME_RANK = frozenset(
    {
        *("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH"),
        *("L2_POOL_2D", "MIRROR_PAD", "RESIZE_BILINEAR"),
    }
)

#: Operators that broadcast two inputs to the shape of the output.
_BROADCAST = frozenset(
    {
        *("DIV", "FLOOR_DIV", "FLOOR_MOD", "LOGICAL_AND", "LOGICAL_OR"),
        *("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"),
    }
)

#: Reductions, which write as many elements as the file declares.
_REDUCTIONS = frozenset({"REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"})


def unknown_operator(
    name: str, tensors: FileTensors, inputs: Sequence[int], outputs: Sequence[int]
) -> Unsupported:
    """Return the error that says why an interpreter must run an operator.

    The graph does not know the operator. The error is a `Contradiction` if the operator computes
    another shape than the declared one, otherwise `Unsupported`.

    Parameters
    ----------
    inputs, outputs:
        Numbers of the operator's inputs and outputs.
    """
    checked = _SAME_SHAPE | _SAME_RANK | _REDUCTIONS | _BROADCAST
    if name in checked and inputs and outputs and -1 not in (inputs[0], outputs[0]):
        shape, declared = (
            tensors.opaque_tensor(inputs[0]).shape,
            tensors.opaque_tensor(outputs[0]).shape,
        )
        if name in _REDUCTIONS:
            return _reduction_error(shape, declared, tensors, inputs)
        if name in _BROADCAST:
            return _broadcast_error(shape, declared, tensors, inputs)
        wanted = shape if name in _SAME_SHAPE else None
        if name == "MIRROR_PAD":
            wanted = _mirror_padded_shape(shape, tensors, inputs)
        if wanted is not None and declared != wanted:
            return Contradiction(f"must have an output of shape {wanted}, not {declared}")
        if len(declared) != len(shape):
            return Contradiction(f"must have an output of {len(shape)} axes, not {declared}")
    return Unsupported("has no kernel here")


def _reduction_error(
    shape: tuple[int, ...], declared: tuple[int, ...], tensors: FileTensors, inputs: Sequence[int]
) -> Unsupported:
    """Return the error for a reduction, which may keep or drop the reduced axes.

    It is a `Contradiction` if the number of elements is wrong. If the axes are known only at run
    time, nothing is checked.
    """
    axes = tensors.opaque_tensor(inputs[1]).data if len(inputs) > 1 and inputs[1] >= 0 else None
    if axes is not None:
        left = {int(axis) % len(shape) for axis in axes.reshape(-1)} if shape else set()
        size = math.prod(length for axis, length in enumerate(shape) if axis not in left)
        if size != math.prod(declared):
            return Contradiction(f"must have an output of {size} elements, not shape {declared}")
    return Unsupported("has no kernel here")


def _broadcast_error(
    shape: tuple[int, ...], declared: tuple[int, ...], tensors: FileTensors, inputs: Sequence[int]
) -> Unsupported:
    """Return the error for an operator that broadcasts.

    It is a `Contradiction` if the inputs do not fit each other or, if their shapes differ, the
    output does not fit them.
    """
    other = tensors.opaque_tensor(inputs[1]).shape if len(inputs) > 1 and inputs[1] >= 0 else shape
    try:
        wanted = np.broadcast_shapes(shape, other)
    except ValueError:
        return Contradiction(f"must have inputs that fit each other, not {shape} and {other}")
    if other != shape and declared != wanted:
        return Contradiction(f"must have an output of shape {wanted}, not {declared}")
    return Unsupported("has no kernel here")


def _mirror_padded_shape(
    shape: tuple[int, ...], tensors: FileTensors, inputs: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the output shape of MIRROR_PAD; None if the padding is computed or malformed."""
    pads = tensors.opaque_tensor(inputs[1]).data if len(inputs) > 1 and inputs[1] >= 0 else None
    if pads is None or pads.shape != (len(shape), 2):
        return None
    return tuple(map(int, np.add(shape, pads.sum(1))))
