"""Converts pools, and reductions to means, sums and maxima."""

from collections.abc import Callable

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.layers import hold_image, image_of, padding_of, pair
from matloom.frontend.onnx.floats.values import FloatValues
from matloom.frontend.onnx.move_options import MoveOptions, reduce_max_steps
from matloom.frontend.onnx.values import in_file_order
from matloom.ir.attributes import NO_PADDING, Pad, Padding, Pool2D, Reduce
from matloom.ir.graph import Op


def _pool_converter(op: Op) -> Callable[[FloatValues, FileNode], None]:
    """Return a converter of pools of windows to an operator, such as MAX_POOL_2D."""

    def convert(values: FloatValues, node: FileNode) -> None:
        """Add operator `op` for a MaxPool or AveragePool of the file."""
        if len([name for name in node.outputs if name]) > 1 or pair(node, "dilations") != (1, 1):
            raise Unsupported("has indices, or gaps in its window")
        number = image_of(values, node.source)
        image, window = values.builder.tensors[number].shape, pair(node, "kernel_shape")
        stride = pair(node, "strides")
        padding = padding_of(node, image, window, stride, (1, 1))
        if node.options.get("ceil_mode", 0):
            whole = _extend_padding(image, window, stride, padding)
            if whole != padding and node.options.get("count_include_pad", 0):
                raise Unsupported("counts its padding, and has a size that is rounded up")
            padding = whole
        if op is Op.AVERAGE_POOL_2D and node.options.get("count_include_pad", 0):
            number, padding = _pad(values, number, padding), NO_PADDING
        attributes = Pool2D(window=window, stride=stride, padding=padding)
        hold_image(values, node, values.add(op, [number], attributes, name=node.output))

    return convert


def _pad(values: FloatValues, number: int, padding: Padding) -> int:
    """Return the tensor number of an image with zeros around it, which an average includes."""
    if padding == NO_PADDING:
        return number
    edges = Pad(
        before=(0, padding.top, padding.left, 0), after=(0, padding.bottom, padding.right, 0)
    )
    return values.add(Op.PAD, [number], edges)


def _extend_padding(
    image: tuple[int, ...], window: tuple[int, int], stride: tuple[int, int], padding: Padding
) -> Padding:
    """Return a padding that is extended at the end, such that the output's size is rounded up."""
    first = (padding.top, padding.left)
    last = [padding.bottom, padding.right]
    for axis in range(2):
        size = image[axis + 1] + first[axis] + last[axis]
        count = -(-(size - window[axis]) // stride[axis])
        # A window may not start in the padding behind the image.
        if count * stride[axis] >= image[axis + 1] + first[axis]:
            count -= 1
        last[axis] += max(0, count * stride[axis] + window[axis] - size)
    return Padding(top=first[0], left=first[1], bottom=last[0], right=last[1])


def _convert_global_pool(values: FloatValues, node: FileNode) -> None:
    """Convert GlobalAveragePool and GlobalMaxPool."""
    number = image_of(values, node.source)
    if node.op == "GlobalAveragePool":
        attributes = Reduce(axes=(1, 2), keep_dims=True)
        hold_image(values, node, values.add(Op.MEAN, [number], attributes, name=node.output))
        return
    window = values.builder.tensors[number].shape[1:3]
    pool = Pool2D(window=(window[0], window[1]))
    hold_image(values, node, values.add(Op.MAX_POOL_2D, [number], pool, name=node.output))


def _options(values: FloatValues, node: FileNode) -> MoveOptions:
    """Return the reader of a node's axes and other options."""
    return MoveOptions(node, values.shape(node.source), values.constant)


def _reduction_converter(op: Op) -> Callable[[FloatValues, FileNode], None]:
    """Return a converter of reductions over axes to an operator, such as MEAN."""

    def convert(values: FloatValues, node: FileNode) -> None:
        """Add operator `op` for a reduction of the file."""
        rank = len(values.shape(node.source))
        axes, keep = _options(values, node).reduced_axes()
        order = values.order_of([node.source])
        kept = [axis for axis in order if axis not in axes]
        if not keep and kept != sorted(kept):
            order, kept = in_file_order(rank), sorted(kept)
        places = tuple(sorted(order.index(axis) for axis in axes))
        number = values.tensor_in_order(node.source, order)
        attributes = Reduce(axes=places, keep_dims=keep)
        output = values.add(op, [number], attributes, name=node.output)
        values.hold(node.output, order if keep else in_file_order(len(kept)), output)

    return convert


def _convert_reduce_max(values: FloatValues, node: FileNode) -> None:
    """Convert ReduceMax to a MAX_POOL_2D whose window covers the reduced axes."""
    order, steps, made = reduce_max_steps(
        values.shape(node.source),
        values.order_of([node.source]),
        _options(values, node).reduced_axes(),
    )
    number = values.tensor_in_order(node.source, order)
    for op, shape, attributes in steps:
        number = values.add(op, [number], attributes, shape=shape)
    values.hold(node.output, made, number)


#: Converters by operator name.
POOLS: dict[str, Callable[[FloatValues, FileNode], None]] = {
    "AveragePool": _pool_converter(Op.AVERAGE_POOL_2D),
    "GlobalAveragePool": _convert_global_pool,
    "GlobalMaxPool": _convert_global_pool,
    "MaxPool": _pool_converter(Op.MAX_POOL_2D),
    "ReduceMax": _convert_reduce_max,
    "ReduceMean": _reduction_converter(Op.MEAN),
    "ReduceSum": _reduction_converter(Op.SUM),
}
