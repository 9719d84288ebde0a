"""MUL by an operand that repeats along the last axes: the array repeats it, POST multiplies."""

from dataclasses import replace

import numpy as np

from matloom.ir.graph import Tensor
from matloom.select.build import Convolution, convolution_stage
from matloom.select.context import SAME_SCALE, Context
from matloom.select.copies import split_into_planes
from matloom.select.post_input import PostInput
from matloom.select.scaled_channels import product_scale
from matloom.select.spread import repetitions
from matloom.select.stage import ArrayStage
from matloom.select.window import pointwise_window

#: Number of passes of POST if repeated elements are written first.
_PASSES = 3
#: Largest int8 value.
_MAX_INT8 = 127


def spread_product(context: Context) -> ArrayStage | None:
    """Return the stage of a MUL in which the array repeats the elements of one operand.

    A sum is an element minus its zero point. POST multiplies it by a byte of the other operand, so
    that repeated elements are never written. None for any other MUL.
    """
    factor = _repeated_factor(context)
    if factor is None:
        return None
    other, tensor = context.inputs[1 - factor], context.inputs[factor]
    names = context.sources[factor], context.results[0]
    copies = context.output.size // tensor.size
    stage = convolution_stage(_repeated_differences(context, names, copies, tensor))
    post = {"product": 1, "factor_zero": other.zero_point, **product_scale(context).post()}
    return replace(
        stage,
        inputs=(names[0], context.sources[1 - factor]),
        regions=tuple(replace(region, post=post) for region in stage.regions),
        params=np.zeros((stage.grid.blocks, 0), np.uint8),
        post_input=PostInput(multiplies=True),
    )


def _repeated_factor(context: Context) -> int | None:
    """Return the index of the operand that is broadcast along its trailing axes only.

    None if neither operand is, if the engine or the operands' types do not allow it, or if the
    copies of an element would fill too few of the array's columns.
    """
    columns, inputs = context.config.columns, context.inputs
    bytes_alone = all(tensor.data is None and tensor.dtype == "int8" for tensor in inputs)
    if not (context.config.products and bytes_alone):
        return None
    for at, tensor in enumerate(inputs):
        copies = repetitions(tensor, context.output.shape)
        every = tensor.size * copies == inputs[1 - at].size == context.output.size
        if copies > 1 and every and -(-copies // columns) * columns < _PASSES * copies:
            return at
    return None


def _repeated_differences(
    context: Context, tensors: tuple[str, str], copies: int, tensor: Tensor
) -> Convolution:
    """Return the convolution that repeats the elements of a tensor, minus its zero point.

    Its kernel also covers the padding behind each element, which supplies the zero point.
    """
    padding, weight = _byte_factors(-tensor.zero_point)
    images, rows = split_into_planes(tensor.size)
    taps = np.array([1, weight] if padding else [1], np.int8)
    window = replace(pointwise_window(images, (rows, 1), 1), kernel_width=len(taps))
    return Convolution(
        name=context.name,
        nodes=context.nodes,
        tensors=tensors,
        window=window,
        filters=np.tile(taps[:, np.newaxis], (copies, 1, 1, 1)),
        bias=np.zeros(copies, np.int32),
        input_zero=padding,
        scale=SAME_SCALE,
        config=context.config,
        macs=0,
    )


def _byte_factors(value: int) -> tuple[int, int]:
    """Return two bytes whose product is `value`, from -127 to 128."""
    return (value, 1) if value <= _MAX_INT8 else (value // 2, 2)
