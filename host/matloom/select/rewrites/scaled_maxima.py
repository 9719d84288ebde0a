"""Fuses the MAXIMUM of a tensor and its per-channel products, a form of PReLU, into one stage."""

from dataclasses import replace

import numpy as np

from matloom.arch.isa import Destination, Opcode, Source, largest
from matloom.ir.graph import Array, Graph, Node, Op
from matloom.ir.scales import has_explicit_multipliers, product_multiplier
from matloom.ir.shapes import IMAGE_RANK
from matloom.kernels.kernels import kernel_of
from matloom.select.context import bias_post
from matloom.select.copies import split_into_planes
from matloom.select.layout.base import Grid
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.limited_scales import ROUNDINGS, LimitedScales, limited_scales
from matloom.select.operand import constant_weights
from matloom.select.post_input import PostInput
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import ArrayStage, OutputRegion, Stage
from matloom.select.weights import block_diagonal, parameter_blocks
from matloom.select.window import pointwise_window, tap_loop_nest

_BY_CHANNEL = {"channel_bias": 1, "channel_scale": 1}

#: The POST that sets the accumulators to the scaled input.
_LIMITS = {
    "source": Source.SPAD,
    "destination": Destination.ACC_SET,
    "rounding": ROUNDINGS[0],
    **_BY_CHANNEL,
}

#: Maximum number of bytes of an input row.
_LONGEST_ROW = largest(Opcode.EXEC, "input_row_bytes")


def fuse_scaled_maxima(staged: StagedRun) -> StagedRun:
    """Return a run in which one stage computes the MAXIMUM of a tensor and its products by channel.

    POST writes bytes of the tensor, scaled, to the accumulators, and EXEC keeps the larger of these
    and the products. The products then need no place in the scratchpad.
    """
    config = staged.config
    if not config.maximum or not set(ROUNDINGS) <= set(config.roundings):
        return staged
    groups: list[tuple[Stage, ...]] = list(staged.stages)
    places = {number: at for at, node in enumerate(staged.run.nodes) for number in node.outputs}
    for at, node in enumerate(staged.run.nodes):
        for product, other in (node.inputs, node.inputs[::-1]) if node.op is Op.MAXIMUM else ():
            before = places.get(product)
            if before is None or not groups[before] or not _is_private(staged, product):
                continue
            stage = _maximum_stage(staged, staged.run.nodes[before], node, other)
            if stage is not None:
                groups[before], groups[at] = (), (stage,)
                break
    return staged if groups == list(staged.stages) else staged.with_stages(groups)


def _is_private(staged: StagedRun, number: int) -> bool:
    """Return whether only one operator reads a tensor, and the tensor does not leave the run."""
    graph = staged.graph
    outside = (*graph.leaving, *staged.run.produced, *staged.placed)
    return len(graph.consumers[number]) == 1 and number not in outside


def _maximum_stage(staged: StagedRun, producer: Node, node: Node, other: int) -> ArrayStage | None:
    """Return the stage of a MAXIMUM of a tensor and its products by channel.

    Return None if `node` and `producer` are not a MAXIMUM of tensor `other` and a MUL of it, or if
    no scales are exact.
    """
    graph, names = staged.graph, staged.names
    if producer.op is not Op.MUL or has_explicit_multipliers(producer):
        return None
    computed = [number for number in producer.inputs if graph.tensors[number].data is None]
    output = graph.tensors[node.output]
    if len(computed) != 1 or names[computed[0]] != names[other] or output.dtype != "int8":
        return None
    same = {graph.tensors[number].quantisation for number in (*computed, *node.inputs, node.output)}
    if len(same) > 1 or graph.tensors[computed[0]].shape != output.shape:
        return None
    products = _products(graph, producer, output.shape[-1])
    if products is None:
        return None
    _multiplier, shift = product_multiplier(graph, producer)
    scales = limited_scales(*products, output.zero_point, shift)
    if scales is None:
        return None
    return _stage(staged, node, names[other], scales)


def _products(graph: Graph, node: Node, depth: int) -> tuple[Array, Array] | None:
    """Return the products of all bytes by each channel's factor (256, channels), and the factors.

    Return None if the constant has neither one value nor one for each channel.
    """
    arrays, slopes = [], np.zeros(depth)
    for number in node.inputs:
        tensor = graph.tensors[number]
        if tensor.data is None:
            arrays.append(np.arange(-128, 128, dtype=np.int8).reshape(-1, 1))
            continue
        if tensor.size not in (1, *tensor.shape[-1:]):
            return None
        arrays.append(tensor.data.reshape(1, -1))
        slopes += (arrays[-1].reshape(-1).astype(float) - tensor.zero_point) * tensor.scale
    made = kernel_of(node, arrays)(graph, node, arrays)
    assert isinstance(made, np.ndarray)
    return np.broadcast_to(made, (len(made), depth)), slopes


def _stage(staged: StagedRun, node: Node, source: str, scales: LimitedScales) -> ArrayStage | None:
    """Return the stage that keeps the larger of a tensor and its products by channel.

    Return None if a row is too long for EXEC.
    """
    config, output = staged.config, staged.graph.tensors[node.output]
    shape, zero, blocks = output.shape, output.zero_point, -(-config.columns // config.rows)
    channels = shape[-1]
    images, rows, width = shape[:-1] if len(shape) == IMAGE_RANK else (1, 1, 0)
    if not width:
        (images, rows), width = split_into_planes(output.size // channels), 1
    if width * channels > _LONGEST_ROW:
        return None
    grid = Grid(
        images=images,
        rows=rows,
        width=width,
        position_bytes=channels,
        block_bytes=config.columns,
    )
    window = pointwise_window(images, (rows, width), channels)
    filters = scales.weights.reshape(1, 1, channels)
    post = {**bias_post(), "rounding": scales.rounding, "output_zero": zero, **_BY_CHANNEL}
    params = [
        parameter_blocks(bias, (multiplier, shift), config)
        for bias, multiplier, shift in (scales.results, scales.limits)
    ]
    return ArrayStage(
        name=f"{node.op}_{node.index}",
        nodes=(node.index,),
        inputs=(source,),
        output=staged.names[node.output],
        input_layout=DenseInput(rows=rows, row_bytes=width * channels),
        output_layout=Dense(grid=grid),
        loop_nest=replace(
            tap_loop_nest(window, 0, blocks=blocks, oc_step=config.columns), maximum=True
        ),
        regions=(OutputRegion.whole(grid, post),),
        weights=constant_weights(block_diagonal(filters, channels, config), "i8xi8", config),
        params=np.concatenate(params, axis=1),
        macs=0,
        post_input=PostInput(post=_LIMITS),
    )
