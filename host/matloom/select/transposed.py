"""Stages of transposed convolutions: one for each phase of the strides, or each row of phases."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from matloom.ir.attributes import TransposeConv
from matloom.ir.graph import Array
from matloom.select.build import Convolution, convolution_stage
from matloom.select.context import Context, NotOnEngine
from matloom.select.layers import layer_mode
from matloom.select.layout.base import OutputLayout
from matloom.select.layout.placed import interleaved_layout, strided_rows_layout
from matloom.select.stage import ArrayStage, Stage
from matloom.select.window import Window

#: Maximum number of stages of a transposed convolution.
_MAX_PHASES = 64

#: Function that returns the layout of a stage's outputs.
_Place = Callable[..., OutputLayout]


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """Outputs along an axis whose positions have the same remainder modulo the stride.

    Members
    -------
    first, count:
        Position of the first output, and number of outputs.
    taps:
        The taps that are multiplied by inputs, in the order of the inputs.
    pad:
        Padding before the image.
    """

    first: int
    count: int
    taps: list[int]
    pad: int


def _phases(length: int, kernel: int, stride: int, pad: int) -> list[_Phase]:
    """Return the phases of a transposed convolution along an axis (polyphase decomposition)."""
    phases = []
    for phase in range(min(stride, length)):
        remainder = (phase + pad) % stride
        taps = list(range(remainder, kernel, stride))[::-1]
        count = -(-(length - phase) // stride)
        before = max(len(taps), 1) - 1 - (phase + pad) // stride
        phases.append(_Phase(first=phase, count=count, taps=taps, pad=before))
    return phases


def transposed_convolution(context: Context) -> tuple[Stage, ...]:
    """Return the stages of TRANSPOSE_CONV: one convolution for each phase of the strides.

    If that streams fewer vectors, as with few channels, the phases of a row of outputs are channels
    of one convolution.
    """
    attributes = context.node.attributes_as(TransposeConv)
    filters = context.filters
    (height, width), pad = attributes.size, attributes.padding
    rows = _phases(height, filters.shape[1], attributes.stride[0], pad.top)
    columns = _phases(width, filters.shape[2], attributes.stride[1], pad.left)
    if len(rows) * len(columns) > _MAX_PHASES:
        raise NotOnEngine(f"its strides must make {_MAX_PHASES} phases at most")
    stages: list[Stage] = []
    for row in rows:
        size = context.output.size if row is rows[-1] else 0
        separate = _phase_stages(context, row, columns, size)
        joined = _joined_stages(context, row, columns, size)
        stages += (
            joined
            if joined and _streamed_vectors(joined) < _streamed_vectors(separate)
            else separate
        )
    return tuple(stages)


def _streamed_vectors(stages: list[ArrayStage]) -> int:
    """Return the number of vectors that stages stream."""
    return sum(
        each.steps
        * each.grid.blocks
        * each.loop_nest.vectors_per_step(each.grid.rows, each.grid.width)
        for each in stages
    )


def _phase_stages(
    context: Context, row: _Phase, columns: list[_Phase], size: int
) -> list[ArrayStage]:
    """Return a stage for each phase of columns, all of the phase `row` of rows.

    After the last stage, `size` bytes of the output are complete.
    """
    attributes = context.node.attributes_as(TransposeConv)
    outputs = context.filters.shape[0]
    stages = []
    for column in columns:
        taps = context.filters[:, row.taps][:, :, column.taps]
        if not taps.size:
            # No tap contributes to these outputs: they equal their biases.
            taps = np.zeros((outputs, 1, 1, taps.shape[3]), np.int8)
        first = row.first, column.first
        place = interleaved_layout(attributes.size, outputs, steps=attributes.stride, first=first)
        if place is None:
            raise NotOnEngine("outputs of one phase are too far apart for POST")
        place = partial(place, complete=size if column is columns[-1] else 0)
        stages.append(_phase_stage(context, row, column, taps, place))
    return stages


def _joined_stages(
    context: Context, row: _Phase, columns: list[_Phase], size: int
) -> list[ArrayStage]:
    """Return a list of one stage, which makes all phases of a row as channels of a position.

    The list is empty if phases differ in their number of outputs, if the array has too few columns
    for their channels, or if POST cannot write rows that far apart.
    """
    attributes = context.node.attributes_as(TransposeConv)
    outputs, count = context.filters.shape[0], len(columns)
    alike = len({column.count for column in columns}) == 1 and row.taps
    if not alike or count * outputs > context.config.columns:
        return []
    left = max(column.pad for column in columns)
    width = left + max(len(column.taps) - column.pad for column in columns)
    shape = (count, outputs, len(row.taps), max(1, width), context.filters.shape[3])
    taps = np.zeros(shape, np.int8)
    for number, column in enumerate(columns):
        start = left - column.pad
        across = slice(start, start + len(column.taps))
        taps[number, :, :, across] = context.filters[:, row.taps][:, :, column.taps]
    place = strided_rows_layout(
        attributes.size, outputs, step=attributes.stride[0], first=row.first
    )
    if place is None:
        return []
    every = replace(columns[0], pad=left)
    place = partial(place, complete=size)
    stage = _phase_stage(context, row, every, taps.reshape(-1, *shape[2:]), place, whole_rows=True)
    used = sum(len(column.taps) for column in columns)
    return [replace(stage, macs=stage.macs * used // (count * shape[3]))]


def _phase_stage(
    context: Context,
    row: _Phase,
    column: _Phase,
    taps: Array,
    place: _Place,
    *,
    whole_rows: bool = False,
) -> ArrayStage:
    """Return the convolution that makes the outputs of a phase of rows and a phase of columns.

    `taps` are its filters, which may be a set for each of several phases; `place` makes the layout
    of the outputs. `whole_rows` is as in `Convolution`.
    """
    attributes = context.node.attributes_as(TransposeConv)
    images, in_height, in_width, depth = context.inputs[0].shape
    sets = len(taps) // context.filters.shape[0]
    window = Window(
        images=images,
        in_height=in_height,
        in_width=in_width,
        depth=depth,
        out_height=row.count,
        out_width=column.count,
        kernel_height=taps.shape[1],
        kernel_width=taps.shape[2],
        pad_top=row.pad,
        pad_left=column.pad,
    )
    return convolution_stage(
        Convolution(
            name=context.name,
            nodes=context.nodes,
            tensors=context.input_and_output,
            window=window,
            filters=taps,
            bias=np.tile(context.bias(context.filters.shape[0]), sets),
            input_zero=context.inputs[0].zero_point,
            scale=context.result_by_channel(attributes.activation).repeat(sets),
            config=context.config,
            mode=layer_mode(context, context.filters, None),
            place=place,
            whole_rows=whole_rows,
        )
    )
