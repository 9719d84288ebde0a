"""Stages of operators that move elements: pad, join, split, slice, resize, transpose."""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

from matloom.ir.attributes import Axis, Pad, Resize, Slice, Split, Transpose
from matloom.ir.graph import Array, Op
from matloom.ir.scales import nearest_positions
from matloom.ir.swaps import Swap, fastest_swaps, merge_neighbours
from matloom.select.context import Context, NotOnEngine
from matloom.select.copies import (
    CopiedAxis,
    Copy,
    copy_of_axes,
    copy_of_lines,
    copy_stage,
    split_into_planes,
)
from matloom.select.layout.base import OutputLayout
from matloom.select.layout.dense import Dense
from matloom.select.layout.placed import Placed
from matloom.select.matrix_transposes import MatrixTranspose, transpose_matrices
from matloom.select.stage import ArrayStage

#: Maximum number of stages of a resize.
_MAX_PHASES = 64


def _whole_axes(shape: Sequence[int]) -> list[CopiedAxis]:
    """Return the axes of a shape, each to be read in full."""
    return [CopiedAxis(length=length, first=0, size=length) for length in shape]


def _copy_of_axes(context: Context, axes: Sequence[CopiedAxis], pad_value: int = 0) -> Copy:
    """Return the copy of some elements of each axis; the bytes of int16 form an additional axis."""
    size = context.output.element_bytes
    inner = _whole_axes((size,)) if size > 1 else []
    return copy_of_axes([*axes, *inner], pad_value, context.config)


def _pad_byte(value: int, size: int) -> int:
    """Return the signed byte that fills an element of `size` bytes with `value`.

    Raise `NotOnEngine` if the bytes of the value differ.
    """
    first, *others = value.to_bytes(size, "little", signed=True)
    if any(other != first for other in others):
        raise NotOnEngine(f"the engine pads with equal bytes, not with {value}")
    return (first ^ 128) - 128


def _copy_stage(
    context: Context,
    copy: Copy,
    source: int = 0,
    result: int = 0,
    place: Callable[..., OutputLayout] = Dense,
    *,
    tensors: tuple[str, str] | None = None,
) -> ArrayStage:
    """Return the stage that copies input number `source` of the operator to output number `result`.

    `tensors` names an input and an output to use instead.
    """
    return copy_stage(
        name=context.name,
        nodes=context.nodes,
        tensors=tensors or (context.sources[source], context.results[result]),
        copy=copy,
        config=context.config,
        place=place,
    )


def pad_stages(context: Context) -> tuple[ArrayStage, ...]:
    """Return the stages of PAD and PADV2: a copy with the value as padding."""
    attributes = context.node.attributes_as(Pad)
    value = context.output.zero_point if attributes.value is None else int(attributes.value)
    axes = [
        CopiedAxis(length=length, first=-before, size=before + length + after)
        for length, before, after in zip(
            context.inputs[0].shape, attributes.before, attributes.after, strict=True
        )
    ]
    value = _pad_byte(value, context.output.element_bytes)
    return (_copy_stage(context, _copy_of_axes(context, axes, value)),)


def slice_stages(context: Context) -> tuple[ArrayStage, ...]:
    """Return the stages of SLICE and STRIDED_SLICE."""
    attributes = context.node.attributes_as(Slice)
    axes = [
        CopiedAxis(length=length, first=begin, size=size, step=step if size > 1 else 1)
        for length, begin, size, step in zip(
            context.inputs[0].shape,
            attributes.begin,
            attributes.size,
            attributes.step,
            strict=True,
        )
    ]
    return (_copy_stage(context, _copy_of_axes(context, axes)),)


def split_stages(context: Context) -> tuple[ArrayStage, ...]:
    """Return the stages of SPLIT, SPLIT_V and UNPACK: a slice for each output."""
    shape = context.inputs[0].shape
    if context.node.op is Op.UNPACK:
        axis = context.node.attributes_as(Axis).axis
        sizes: tuple[int, ...] = (1,) * shape[axis]
    else:
        attributes = context.node.attributes_as(Split)
        axis, sizes = attributes.axis, attributes.sizes
    stages, first = [], 0
    for result, size in enumerate(sizes):
        axes = _whole_axes(shape)
        axes[axis] = CopiedAxis(length=shape[axis], first=first, size=size)
        stages.append(_copy_stage(context, _copy_of_axes(context, axes), result=result))
        first += size
    return tuple(stages)


def join_stages(context: Context) -> tuple[ArrayStage, ...]:
    """Return the stages of CONCATENATION and PACK: each input is copied into the output."""
    axis = context.node.attributes_as(Axis).axis
    outer = math.prod(context.inputs[0].shape[:axis])
    total = context.output.size_bytes // outer
    stages, offset = [], 0
    for source, tensor in enumerate(context.inputs):
        size = tensor.size_bytes // outer
        copy = copy_of_lines(outer, size, context.config)
        last = source + 1 == len(context.inputs)
        place = partial(
            Placed,
            offset=offset,
            x_step=copy.position_bytes,
            row_step=total,
            image_step=copy.out_rows * total,
            complete=context.output.size_bytes if last else 0,
            line=size,
        )
        stages.append(_copy_stage(context, copy, source=source, place=place))
        offset += size
    return tuple(stages)


def _resize_factor(places: Array, length: int) -> tuple[int, int, int]:
    """Return the factor by which an axis grows, the first position to read, and the step.

    `places` has the position that each output reads, of an axis of `length`.

    Raises
    ------
    NotOnEngine
        The positions are neither all repeated equally often nor at equal steps.
    """
    size = len(places)
    if size % length == 0 and all(places == [at // (size // length) for at in range(size)]):
        return size // length, 0, 1
    steps = {int(step) for step in places[1:] - places[:-1]}
    if len(steps) == 1 and min(steps) > 0:
        return 1, int(places[0]), steps.pop()
    if size == 1:
        return 1, int(places[0]), 1
    raise NotOnEngine(f"the engine resizes by whole factors, not from {length} to {size}")


def resize_stages(context: Context) -> tuple[ArrayStage, ...]:
    """Return RESIZE_NEAREST_NEIGHBOR as stages: copies, the form in which the engine runs it.

    Enlarging repeats each position; one copy stage writes each of the repetitions (four for a
    factor of 2 x 2). Shrinking needs a single stage, which skips positions.
    """
    attributes = context.node.attributes_as(Resize)
    images, height, width, depth = context.inputs[0].shape
    depth *= context.output.element_bytes
    out_height, out_width = attributes.size
    down, first_row, row_step = _resize_factor(
        nearest_positions(attributes, height, out_height), height
    )
    across, first_x, x_step = _resize_factor(nearest_positions(attributes, width, out_width), width)
    if down * across > _MAX_PHASES:
        raise NotOnEngine(f"the engine resizes up to {_MAX_PHASES}-fold, not {down * across}-fold")
    copy = Copy(
        images=images,
        in_rows=height,
        in_row_bytes=width * depth,
        out_rows=out_height // down,
        width=out_width // across,
        position_bytes=depth,
        x_step=x_step * depth,
        first_row=first_row,
        row_step=row_step,
        first_byte=first_x * depth,
    )
    row = out_width * depth
    places = list(itertools.product(range(down), range(across)))
    return tuple(
        _copy_stage(
            context,
            copy,
            place=partial(
                Placed,
                offset=y * row + x * depth,
                x_step=across * depth,
                row_step=down * row,
                image_step=out_height * row,
                complete=context.output.size_bytes if (y, x) == places[-1] else 0,
            ),
        )
        for y, x in places
    )


def transpose_stages(context: Context) -> tuple[ArrayStage, ...]:
    """Return the stages of TRANSPOSE: one swap of two neighbouring groups of axes after another."""
    shape, size = context.inputs[0].shape, context.output.element_bytes
    permutation = context.node.attributes_as(Transpose).permutation
    swaps = fastest_swaps(*merge_neighbours(permutation, shape), size)
    if swaps is None:
        raise NotOnEngine("the engine permutes up to six groups of axes")
    if not swaps:
        return (_copy_stage(context, copy_of_lines(1, context.output.size_bytes, context.config)),)
    between = [context.buffer_name(f"swap {at}") for at in range(len(swaps) - 1)]
    names = [context.sources[0], *between, context.results[0]]
    return tuple(
        stage
        for swap, ends in zip(swaps, itertools.pairwise(names), strict=True)
        for stage in _swap_stages(context, swap, ends)
    )


def _swap_stages(context: Context, swap: Swap, tensors: tuple[str, str]) -> tuple[ArrayStage, ...]:
    """Return the stages that swap axes of the first tensor and write the second."""
    inner = swap.inner * context.output.element_bytes
    task = MatrixTranspose(
        images=swap.before, in_rows=swap.high, row_bytes=swap.low, rows=swap.high
    )
    if inner == 1 and (stages := transpose_matrices(context, tensors, task)):
        return stages
    return (_swap_copy(context, tensors, swap, inner),)


def _swap_copy(context: Context, tensors: tuple[str, str], swap: Swap, inner: int) -> ArrayStage:
    """Return the copy that swaps axes, with elements of `inner` bytes."""
    before, high, low = swap.before, swap.high, swap.low
    # The rows of a single image may be split into several images, dense on both sides.
    images, rows = split_into_planes(high) if before == 1 else (before, high)
    copy = Copy(
        images=images,
        in_rows=rows,
        in_row_bytes=low * inner,
        out_rows=rows,
        width=low,
        position_bytes=inner,
        x_step=inner,
    )
    place = partial(
        Placed,
        offset=0,
        x_step=high * inner,
        row_step=inner,
        image_step=rows * inner if before == 1 else high * low * inner,
        complete=context.output.size_bytes,
        swap=(high, low, inner),
    )
    return _copy_stage(context, copy, place=place, tensors=tensors)
