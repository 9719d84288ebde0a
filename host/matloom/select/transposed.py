"""Stages of transposed convolutions: one for each phase of the strides."""

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np

from matloom.ir.attributes import TransposeConv
from matloom.ir.graph import Array
from matloom.select.build import Convolution, convolution_stage
from matloom.select.context import Context, NotOnEngine
from matloom.select.layers import layer_mode
from matloom.select.layout.base import OutputLayout
from matloom.select.layout.placed import interleaved
from matloom.select.stage import ArrayStage, Stage
from matloom.select.window import Window

#: Maximum number of stages of a transposed convolution.
_MAX_PHASES = 64


def _phases(
    length: int, kernel: int, stride: int, pad: int
) -> list[tuple[int, int, list[int], int]]:
    """Return the phases of a transposed convolution along an axis (polyphase decomposition).

    A phase is the set of outputs whose positions have the same remainder modulo the stride. It
    consists of the first output and their number, the taps that are multiplied by inputs, in the
    order of the inputs, and the padding before the image.
    """
    phases = []
    for phase in range(min(stride, length)):
        remainder = (phase + pad) % stride
        taps = list(range(remainder, kernel, stride))[::-1]
        count = -(-(length - phase) // stride)
        phases.append((phase, count, taps, max(len(taps), 1) - 1 - (phase + pad) // stride))
    return phases


def transposed_convolution(context: Context) -> tuple[Stage, ...]:
    """Return the stages of TRANSPOSE_CONV: one convolution for each phase of the strides."""
    attributes = context.node.attributes_as(TransposeConv)
    filters = context.filters
    images, in_height, in_width, depth = context.inputs[0].shape
    (height, width), outputs = attributes.size, filters.shape[0]
    rows = _phases(height, filters.shape[1], attributes.stride[0], attributes.padding.top)
    columns = _phases(width, filters.shape[2], attributes.stride[1], attributes.padding.left)
    if len(rows) * len(columns) > _MAX_PHASES:
        raise NotOnEngine(f"its strides must make {_MAX_PHASES} phases at most")
    stages = []
    phases = list(itertools.product(rows, columns))
    for phase in phases:
        (y, out_height, down, top), (x, out_width, across, left) = phase
        taps = filters[:, down][:, :, across]
        if not taps.size:
            # No tap contributes to these outputs: they equal their biases.
            taps = np.zeros((outputs, 1, 1, depth), np.int8)
        window = Window(
            images=images,
            in_height=in_height,
            in_width=in_width,
            depth=depth,
            out_height=out_height,
            out_width=out_width,
            kernel_height=taps.shape[1],
            kernel_width=taps.shape[2],
            pad_top=top,
            pad_left=left,
        )
        place = interleaved(attributes.size, outputs, steps=attributes.stride, first=(y, x))
        if place is None:
            raise NotOnEngine("outputs of one phase are too far apart for POST")
        place = partial(place, complete=context.output.size if phase is phases[-1] else 0)
        stages.append(_phase_stage(context, window, taps, place))
    return tuple(stages)


def _phase_stage(
    context: Context, window: Window, taps: Array, place: Callable[..., OutputLayout]
) -> ArrayStage:
    """Return the convolution of a phase."""
    attributes = context.node.attributes_as(TransposeConv)
    return convolution_stage(
        Convolution(
            name=context.name,
            nodes=context.nodes,
            tensors=context.ends,
            window=window,
            filters=taps,
            bias=context.bias(taps.shape[0]),
            input_zero=context.inputs[0].zero_point,
            scale=context.by_channel(attributes.activation),
            config=context.config,
            mode=layer_mode(context, context.filters, None),
            place=place,
        )
    )
