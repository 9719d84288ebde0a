"""Stages of sums and means over axes."""

import math

import numpy as np

from matloom.arch.isa import Opcode, largest
from matloom.ir.attributes import Activation, Reduce
from matloom.ir.scales import reduction_multiplier
from matloom.select.build import Convolution, convolution_stage
from matloom.select.context import Context, NotOnEngine
from matloom.select.copies import split_into_planes
from matloom.select.pooling import sum_stage
from matloom.select.requantisation import Requantisation
from matloom.select.stage import ArrayStage, Stage
from matloom.select.window import Window, pointwise_window

#: Largest magnitude of int16.
_MAX_INT16 = 2**15

#: Maximum number of taps of a window in each direction.
_MAX_TAPS = min(largest(Opcode.EXEC, "kernel_rows"), largest(Opcode.EXEC, "kernel_cols"))


def _window_shape(count: int) -> tuple[int, int]:
    """Return the rows and columns of a pooling window of `count` elements.

    Raise `NotOnEngine` if no window fits.
    """
    for columns in range(-(-count // _MAX_TAPS), min(count, _MAX_TAPS) + 1):
        if count % columns == 0:
            return count // columns, columns
    raise NotOnEngine(f"the engine sums {_MAX_TAPS} times {_MAX_TAPS} elements, not {count}")


def reduction(context: Context) -> Stage:
    """Return the stage of SUM or MEAN over neighbouring axes.

    A sum over the innermost axes multiplies by weights of one; other sums use a pooling window.
    """
    context.check_words()
    shape = context.inputs[0].shape
    axes = [axis for axis in context.node.attributes_as(Reduce).axes if shape[axis] > 1]
    first, end = (axes[0], axes[-1] + 1) if axes else (0, 0)
    if any(shape[axis] > 1 and axis not in axes for axis in range(first, end)):
        raise NotOnEngine("the engine sums over neighbouring axes")
    outer, count, inner = (
        math.prod(part) for part in (shape[:first], shape[first:end], shape[end:])
    )
    scale = context.result(*reduction_multiplier(context.graph, context.node), Activation.NONE)
    zero = context.inputs[0].zero_point
    if count * _MAX_INT16 >= 2**31 and context.mode == "i16xi8":
        raise NotOnEngine(f"sums of words must fit 32 bits, and {count} might not")
    if inner == 1:
        return _sum_by_weights(context, outer, count, scale)
    height, width = _window_shape(count)
    window = Window(
        images=outer,
        in_height=height,
        in_width=width,
        depth=inner,
        out_height=1,
        out_width=1,
        kernel_height=height,
        kernel_width=width,
    )
    return sum_stage(context, window, -zero * count, scale)


def _sum_by_weights(context: Context, sums: int, count: int, scale: Requantisation) -> ArrayStage:
    """Return the stage that makes `sums` sums of `count` neighbouring elements by weights of 1."""
    images, rows = split_into_planes(sums)
    run = count * context.output.element_bytes
    return convolution_stage(
        Convolution(
            name=context.name,
            nodes=context.nodes,
            tensors=context.input_and_output,
            window=pointwise_window(images, (rows, 1), run),
            filters=np.ones((1, 1, 1, run), np.int8),
            bias=np.zeros(1, np.int32),
            input_zero=context.inputs[0].zero_point,
            scale=scale,
            config=context.config,
            macs=sums * count,
            mode=context.mode,
        )
    )
