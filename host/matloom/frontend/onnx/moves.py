"""Converts ONNX operators that move bytes between operators on the engine."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.move_options import MoveOptions, reduce_max_steps
from matloom.frontend.onnx.parts import add_gather, add_split
from matloom.frontend.onnx.quantised import Model, attribute
from matloom.frontend.onnx.values import LAST, LINE, Order, Values, in_file_order, kept_axes
from matloom.frontend.onnx.weighted import spatial_padding
from matloom.ir.attributes import Attributes, Pool2D, Transpose
from matloom.ir.graph import Op

#: An operator of the graph, the shape of its result, and its attributes.
_Step = tuple[Op, tuple[int, ...], Attributes]


def convert_reshape(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert Reshape, Flatten, Squeeze, Unsqueeze and Identity.

    These keep the elements in the file's order. A value that is held in another order of axes is
    transposed only when a reader needs the output.
    """
    value, wanted = values.known[source], values.known[output]
    wanted.quantisation, wanted.flattened = value.quantisation, source
    plain = kept_axes(in_file_order(len(value.shape)), value.shape)
    if not value.held or any(kept_axes(order, value.shape) == plain for order in value.held):
        values.bytes_of(output, in_file_order(len(wanted.shape)))


def convert_transpose(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert Transpose: the output is the same tensor, registered with another order of axes."""
    value = values.known[source]
    rank = len(value.shape)
    permutation = list(attribute(node, "perm", list(reversed(range(rank)))))
    if not value.held:
        values.bytes_of(source, in_file_order(rank))
    for order, number in value.held.items():
        values.hold(output, tuple(permutation.index(axis) for axis in order), number)


def convert_max_pool(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert MaxPool of images; data with one spatial axis become images of one row."""
    value, wanted = values.known[source], values.known[output]
    window = tuple(attribute(node, "kernel_shape", []))
    strides = tuple(attribute(node, "strides", [1] * len(window)))
    dilations = tuple(attribute(node, "dilations", [1] * len(window)))
    if len(window) not in (1, 2) or set(dilations) != {1} or any(node.output[1:]):
        raise Unsupported("has a window of three dimensions or more, or gaps in it, or indices")
    if attribute(node, "ceil_mode", 0) or attribute(node, "storage_order", 0):
        raise Unsupported("has an output whose size is rounded up")
    image = list(value.shape[2:])
    padding = spatial_padding(node, image, window, (strides, dilations), wanted.shape[2:])
    order = LINE if len(window) == 1 else LAST
    rows = (1,) if order == LINE else ()
    attributes = Pool2D(
        window=(*rows, *window)[-2:], stride=(*rows, *strides)[-2:], padding=padding
    )
    shape = tuple(wanted.shape[axis] for axis in order)
    steps: list[_Step] = [(Op.MAX_POOL_2D, (shape[0], *rows, *shape[1:]), attributes)]
    if order == LINE:
        images, positions, channels = (value.shape[axis] for axis in order)
        steps.insert(0, (Op.RESHAPE, (images, 1, positions, channels), Attributes()))
        steps.append((Op.RESHAPE, shape, Attributes()))
    values.hold(output, order, _add_steps(values, (source, output), order, steps))


def convert_reduce_max(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert ReduceMax to a MAX_POOL_2D whose window covers the reduced axes."""
    shape = values.known[source].shape
    attributes = _options(values, model, node, source).reduced_axes()
    order, steps, made = reduce_max_steps(shape, values.order_of(source), attributes)
    values.hold(output, made, _add_steps(values, (source, output), order, steps))


def _add_steps(values: Values, names: tuple[str, str], order: Order, steps: Sequence[_Step]) -> int:
    """Add a chain of operators from value `names[0]` to `names[1]`; return the output's number.

    `names` has the name of the first operator's input, whose axes are read in `order`, and of the
    output.
    """
    source, output = names
    number = values.bytes_of(source, order)
    for op, shape, attributes in steps:
        quantisation = values.tensors[number].quantisation
        number = values.add_operator(op, [number], shape, quantisation, output, attributes)
    return number


def _options(values: Values, model: Model, node: Any, source: str) -> MoveOptions:
    """Return the reader of a node's axes, sizes and other options."""
    file_node = FileNode.from_proto(node, model.opset)
    return MoveOptions(file_node, values.known[source].shape, model.constant)


def convert_split(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert Split into parts of bytes along one axis."""
    axis, sizes = _options(values, model, node, source).split()
    order = values.order_of(source)
    number = values.bytes_of(source, order)
    parts = add_split(values, number, order.index(axis), sizes, node.output)
    for name, part in zip(node.output, parts, strict=True):
        if name in values.known:
            values.hold(name, order, part)


def convert_slice(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert Slice of bytes, with a step for each axis."""
    order = values.order_of(source)
    attributes = _options(values, model, node, source).slice(order)
    _add_move(values, Op.STRIDED_SLICE, attributes, order, (source, output))


def convert_pad(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert Pad of bytes, with a constant or with copies of the edges.

    A padding constant is a byte of the file's type; between DequantizeLinear and QuantizeLinear, it
    must be 0. In the modes `edge` and `reflect`, Pad copies elements of the tensor.
    """
    order, options = values.order_of(source), _options(values, model, node, source)
    if options.copies_edges:
        number = values.bytes_of(source, order)
        for axis, before, after in options.edges(order):
            size = values.tensors[number].shape[axis]
            places = [*before, *range(size), *after]
            number = add_gather(values, number, axis, places, output)
        values.hold(output, order, number)
        return
    attributes = options.pad(order)
    number = values.bytes_of(source, order)
    zero = values.tensors[number].zero_point
    value = int(attributes.value or 0) - (128 if values.known[source].dtype == "uint8" else 0)
    # Between DequantizeLinear and QuantizeLinear, the operator reads another value: floats.
    if node.input[0] != source:
        if attributes.value:
            raise Unsupported("pads floats with another number than 0")
        value = zero
    op, given = (Op.PAD, None) if value == zero else (Op.PADV2, value)
    _add_move(values, op, replace(attributes, value=given), order, (source, output))


def convert_gather(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert Gather with constant indices along one axis."""
    axis, places = _options(values, model, node, source).gather()
    listed = [int(place) for place in places.reshape(-1)]
    order = (
        values.order_of(source)
        if places.ndim == 1
        else in_file_order(len(values.known[source].shape))
    )
    number = values.bytes_of(source, order)
    number = add_gather(values, number, order.index(axis), listed, output)
    if places.ndim != 1:
        shape, quantisation = values.known[output].shape, values.tensors[number].quantisation
        order = in_file_order(len(shape))
        number = values.add_operator(Op.RESHAPE, [number], shape, quantisation, output)
    values.hold(output, order, number)


def convert_resize(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert Resize by whole factors that takes the nearest neighbour."""
    attributes = _options(values, model, node, source).resize()
    _add_move(values, Op.RESIZE_NEAREST_NEIGHBOR, attributes, LAST, (source, output))


def _add_move(
    values: Values, op: Op, attributes: Attributes, order: Order, names: tuple[str, str]
) -> None:
    """Add an operator on the first of `names` (axes in `order`); register its output as the second.

    `names` are the names of the input and the output.
    """
    source, made = names
    number = values.bytes_of(source, order)
    shape = tuple(values.known[made].shape[axis] for axis in order)
    quantisation = values.tensors[number].quantisation
    values.hold(
        made, order, values.add_operator(op, [number], shape, quantisation, made, attributes)
    )


def convert_block_exchange(
    values: Values, model: Model, node: Any, source: str, output: str
) -> None:
    """Convert DepthToSpace and SpaceToDepth, which exchange channels and positions of an image."""
    number = values.bytes_of(source, LAST)
    quantisation = values.tensors[number].quantisation
    steps, shape = _options(values, model, node, source).exchange_blocks()
    attributes = Transpose(permutation=(0, 2, 1, 3))
    for first, one, other, last in steps:
        before, after = (first, one, other, last), (first, other, one, last)
        number = values.add_operator(Op.RESHAPE, [number], before, quantisation, output)
        number = values.add_operator(
            Op.TRANSPOSE, [number], after, quantisation, output, attributes
        )
    values.hold(
        output, LAST, values.add_operator(Op.RESHAPE, [number], shape, quantisation, output)
    )


#: Converters by operator name. Their last two arguments are the names of the first input and the
#: first output.
MOVES: dict[str, Callable[[Values, Model, Any, str, str], None]] = {
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), convert_block_exchange),
    **dict.fromkeys(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"), convert_reshape),
    "Gather": convert_gather,
    "MaxPool": convert_max_pool,
    "ReduceMax": convert_reduce_max,
    "Pad": convert_pad,
    "Resize": convert_resize,
    "Slice": convert_slice,
    "Split": convert_split,
    "Transpose": convert_transpose,
}
