"""Which operators the engine runs, and the stage of each; the rest is for the host, with reason."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from matloom.arch.config import Config
from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Pool2D,
)
from matloom.ir.graph import Array, Graph, Node, Op, Tensor
from matloom.ir.scales import activation_range, addition, channel_multipliers, rescale_multiplier
from matloom.schedule.build import (
    Requantisation,
    Window,
    add_stage,
    average_stage,
    convolution_stage,
    depthwise_stage,
    maximum_stage,
    requantise_stage,
)
from matloom.schedule.interleave import fastest
from matloom.schedule.reduction import narrowed, read_bytes
from matloom.schedule.stage import ArrayStage, Stage
from matloom.schedule.weights import depthwise_as_dense

__all__ = ["Unfit", "stage_of"]

#: Largest value of the fields that a stage sets directly, by what they stand for.
_LARGEST = {
    "kernel rows": 255,
    "kernel row step": 255,
    "kernel columns": 255,
    "row stride": 255,
    "blocks of the reduction": 4095,
    "output blocks": 4095,
    "bytes of an input row": 2**20 - 1,
    "bytes of an output row": 2**20 - 1,
    "input rows": 4095,
    "bytes between input positions": 2**16 - 1,
    "bytes between taps": 2**16 - 1,
    "bytes of an output position": 2**16 - 1,
}


class Unfit(ValueError):
    """An operator that the engine cannot run; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class _Context:
    """A node, its tensors, and the names of the buffers that hold them."""

    node: Node
    graph: Graph
    names: tuple[str, ...]
    config: Config
    #: The first input is the network's.
    external: bool

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(self.graph.tensors[number] for number in self.node.inputs)

    @property
    def output(self) -> Tensor:
        return self.graph.tensors[self.node.output]

    @property
    def name(self) -> str:
        return f"{self.node.op}_{self.node.index}"

    @property
    def nodes(self) -> tuple[int, ...]:
        return (self.node.index,)

    @property
    def ends(self) -> tuple[str, str]:
        return self.names[0], self.names[-1]

    @property
    def granule(self) -> int:
        """Bytes of a row of the output, or all of them where it has no rows."""
        shape = self.output.shape
        return self.output.size // (shape[0] * shape[1]) if len(shape) == 4 else self.output.size

    def constant(self, index: int) -> Array:
        data = self.inputs[index].data
        assert data is not None
        return data

    def bias(self, channels: int) -> Array:
        return self.constant(2).reshape(-1) if len(self.inputs) > 2 else np.zeros(channels, int)

    def result(
        self, multiplier: Array | int, shift: Array | int, activation: Activation
    ) -> Requantisation:
        low, high = activation_range(activation, self.output)
        zero = self.output.zero_point
        return Requantisation(multiplier=multiplier, shift=shift, zero=zero, low=low, high=high)

    def by_channel(self, activation: Activation) -> Requantisation:
        return self.result(*channel_multipliers(self.graph, self.node), activation)


def _window(context: _Context, attributes: Conv2D | Pool2D, kernel: tuple[int, int]) -> Window:
    images, in_height, in_width, depth = context.inputs[0].shape
    dilation = attributes.dilation if isinstance(attributes, Conv2D) else (1, 1)
    return Window(
        images=images,
        in_height=in_height,
        in_width=in_width,
        depth=depth,
        out_height=context.output.shape[1],
        out_width=context.output.shape[2],
        kernel_height=kernel[0],
        kernel_width=kernel[1],
        stride_y=attributes.stride[0],
        stride_x=attributes.stride[1],
        dilation_y=dilation[0],
        dilation_x=dilation[1],
        pad_top=attributes.padding.top,
        pad_left=attributes.padding.left,
    )


def _convolution(context: _Context) -> Stage:
    attributes = context.node.attributes_as(Conv2D)
    weights = context.inputs[1]
    window = _window(context, attributes, (weights.shape[1], weights.shape[2]))
    return _dense_convolution(context, window, context.constant(1), attributes.activation)


def _dense_convolution(
    context: _Context, window: Window, filters: Array, activation: Activation
) -> Stage:
    """Return a convolution whose filters (channels, rows, columns, depth) see all the depth."""

    def make(window: Window, filters: Array, tensor: str) -> ArrayStage:
        return convolution_stage(
            name=context.name,
            nodes=context.nodes,
            tensors=(tensor, context.ends[1]),
            window=window,
            filters=filters,
            bias=context.bias(filters.shape[0]),
            input_zero=zero,
            scale=context.by_channel(activation),
            config=context.config,
        )

    tensor, zero = context.ends[0], context.inputs[0].zero_point
    if not context.external:
        return make(window, filters, tensor)
    return fastest(
        make, window=window, filters=filters, tensor=tensor, zero=zero, config=context.config
    )


def _depthwise(context: _Context) -> Stage:
    attributes = context.node.attributes_as(DepthwiseConv2D)
    data, weights = context.inputs[:2]
    if data.shape[3] == 1:
        window = _window(context, attributes, (weights.shape[1], weights.shape[2]))
        filters = depthwise_as_dense(context.constant(1)[0], 1)
        return _dense_convolution(context, window, filters, attributes.activation)
    return depthwise_stage(
        name=context.name,
        nodes=context.nodes,
        tensors=context.ends,
        window=_window(context, attributes, (weights.shape[1], weights.shape[2])),
        filters=context.constant(1)[0],
        bias=context.bias(weights.shape[3]),
        input_zero=data.zero_point,
        scale=context.by_channel(attributes.activation),
        config=context.config,
    )


def _dense(context: _Context) -> Stage:
    attributes = context.node.attributes_as(FullyConnected)
    data, weights = context.inputs[:2]
    channels, depth = weights.shape
    batch = data.size // depth
    # Samples side by side where a few channels leave columns idle, else one above the other.
    wide = 2 * channels <= context.config.columns
    height, width = (1, batch) if wide else (batch, 1)
    return convolution_stage(
        name=context.name,
        nodes=context.nodes,
        tensors=context.ends,
        window=Window(
            images=1,
            in_height=height,
            in_width=width,
            depth=depth,
            out_height=height,
            out_width=width,
            kernel_height=1,
            kernel_width=1,
        ),
        filters=context.constant(1).reshape(channels, 1, 1, depth),
        bias=context.bias(channels),
        input_zero=data.zero_point,
        scale=context.by_channel(attributes.activation),
        config=context.config,
    )


def _pooling(
    make: Callable[..., ArrayStage],
) -> Callable[[_Context], Stage]:
    def pool(context: _Context) -> Stage:
        attributes = context.node.attributes_as(Pool2D)
        low, high = activation_range(attributes.activation, context.output)
        return make(
            name=context.name,
            nodes=context.nodes,
            tensors=context.ends,
            window=_window(context, attributes, attributes.window),
            low=low,
            high=high,
            config=context.config,
        )

    return pool


def _add(context: _Context) -> Stage:
    attributes = context.node.attributes_as(Arithmetic)
    first, second = context.inputs
    for tensor in (first, second):
        # A constant is broadcast when it is put into the program.
        if tensor.data is None and tensor.shape != context.output.shape:
            raise Unfit(f"it broadcasts {tensor.shape} to {context.output.shape}")
    scales = addition(context.graph, context.node)
    return add_stage(
        name=context.name,
        nodes=context.nodes,
        inputs=(context.names[0], context.names[1]),
        output=context.names[-1],
        size=context.output.size,
        granule=context.granule,
        zeros=(first.zero_point, second.zero_point),
        scales=scales.inputs,
        left_shift=scales.left_shift,
        result=context.result(*scales.output, attributes.activation),
    )


def _quantize(context: _Context) -> Stage:
    data = context.inputs[0]
    return requantise_stage(
        name=context.name,
        nodes=context.nodes,
        tensors=context.ends,
        size=data.size,
        granule=context.granule,
        input_zero=data.zero_point,
        scale=context.result(*rescale_multiplier(data, context.output), Activation.NONE),
    )


_STAGES: dict[Op, Callable[[_Context], Stage]] = {
    Op.ADD: _add,
    Op.AVERAGE_POOL_2D: _pooling(average_stage),
    Op.CONV_2D: _convolution,
    Op.DEPTHWISE_CONV_2D: _depthwise,
    Op.FULLY_CONNECTED: _dense,
    Op.MAX_POOL_2D: _pooling(maximum_stage),
    Op.QUANTIZE: _quantize,
}


def _check(stage: Stage, config: Config) -> None:
    """Raise `Unfit` where a number does not fit its field, or no tile the scratchpad."""
    if not isinstance(stage, ArrayStage):
        return
    fields = stage.walk.fields((0, 1), (0, 1), 0)
    values = {
        "kernel rows": fields["kernel_rows"],
        "kernel row step": fields["kernel_row_step"],
        "kernel columns": fields["kernel_cols"],
        "row stride": fields["y_step"],
        "blocks of the reduction": fields["blocks"],
        "output blocks": stage.oc_blocks,
        "bytes of an input row": stage.in_row_bytes,
        "bytes of an output row": stage.row_bytes,
        "input rows": stage.in_rows,
        "bytes between input positions": fields["x_step"],
        "bytes between taps": fields["kernel_col_step"],
        "bytes of an output position": stage.position_bytes,
    }
    for name, value in values.items():
        if value > _LARGEST[name]:
            raise Unfit(f"{name} must be at most {_LARGEST[name]}, not {value}")
    step = narrowed(fields, 0, 1, config.rows)
    least, most = read_bytes(step, config.rows), config.spad_bytes // 2
    if least > most:
        raise Unfit(f"a step must read at most {most} bytes of input, not {least}")


def stage_of(node: Node, graph: Graph, names: dict[int, str], config: Config) -> Stage:
    """Return the stage of a node; raise `Unfit` with the reason where the host must run it.

    `names` gives each tensor the name of its buffer: tensors that share bytes share a name.
    """
    inputs = tuple(graph.tensors[number] for number in node.inputs)
    output = graph.tensors[node.output]
    if node.op not in _STAGES:
        raise Unfit(f"the engine has no {node.op}")
    for tensor in (inputs[0], output):
        if tensor.dtype != "int8":
            raise Unfit(f"the engine computes in int8, not {tensor.dtype}")
    streamed = [
        number for number in node.inputs if graph.tensors[number].data is None or node.op is Op.ADD
    ]
    context = _Context(
        node=node,
        graph=graph,
        names=(*(names[number] for number in streamed), names[node.output]),
        config=config,
        external=names[node.inputs[0]] in {names[number] for number in graph.inputs},
    )
    stage = _STAGES[node.op](context)
    _check(stage, config)
    return stage
