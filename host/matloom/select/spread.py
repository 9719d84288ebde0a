"""Repeats the elements of operands that element-wise operators broadcast along their last axes."""

import math
from dataclasses import replace

import numpy as np

from matloom.ir.graph import Tensor
from matloom.select.build import Convolution, convolution_stage
from matloom.select.context import BROADCASTING, SAME_SCALE, Context
from matloom.select.copies import split_into_planes
from matloom.select.stage import Stage
from matloom.select.window import pointwise_window


def repeat_operands(context: Context) -> tuple[tuple[Stage, ...], Context]:
    """Return stages that repeat elements of operands, and the context of the operator after them.

    An operand of int8 with trailing axes of one, such as the mean of each row, gets the lengths of
    the output there. A convolution with weights of 1 copies each element to that many channels.
    """
    if context.node.op not in BROADCASTING:
        return (), context
    stages: list[Stage] = []
    sources, tensors = list(context.sources), dict(context.graph.tensors)
    for at, (number, tensor) in enumerate(zip(context.node.inputs, context.inputs, strict=True)):
        copies = repetitions(tensor, context.output.shape)
        if tensor.data is not None or tensor.dtype != "int8" or copies == 1:
            continue
        sources[at] = context.buffer_name(f"operand {at}")
        stages.append(
            _repeating_stage(context, (context.sources[at], sources[at]), tensor.size, copies)
        )
        kept = len(tensor.shape) - _trailing_ones(tensor.shape)
        shape = (*tensor.shape[:kept], *context.output.shape[-_trailing_ones(tensor.shape) :])
        tensors[number] = replace(tensor, shape=shape)
    graph = replace(context.graph, tensors=tensors)
    return tuple(stages), replace(context, graph=graph, sources=tuple(sources))


def _trailing_ones(shape: tuple[int, ...]) -> int:
    """Return the number of trailing axes of a shape whose length is 1."""
    return next((at for at, length in enumerate(reversed(shape)) if length != 1), len(shape))


def repetitions(tensor: Tensor, shape: tuple[int, ...]) -> int:
    """Return how often each element follows itself in the broadcast of a tensor to `shape`.

    The result is 1 for a scalar, because it can repeat as a whole. Other axes of one repeat the
    tensor, or part of it.
    """
    ones = 0 if tensor.size == 1 else _trailing_ones(tensor.shape)
    return math.prod(shape[len(shape) - ones :])


def _repeating_stage(context: Context, tensors: tuple[str, str], count: int, copies: int) -> Stage:
    """Return the stage that writes each of `count` bytes `copies` times in succession."""
    images, rows = split_into_planes(count)
    return convolution_stage(
        Convolution(
            name=context.name,
            nodes=context.nodes,
            tensors=tensors,
            window=pointwise_window(images, (rows, 1), 1),
            filters=np.ones((copies, 1, 1, 1), np.int8),
            bias=np.zeros(copies, np.int32),
            input_zero=0,
            scale=SAME_SCALE,
            config=context.config,
            macs=0,
        )
    )
