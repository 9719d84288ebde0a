"""Writes operators without weights as operators of ONNX."""

from collections.abc import Callable
from typing import Any

import numpy as np

from matloom.frontend.onnx.values import Order, in_file_order, kept_axes
from matloom.frontend.onnx.writing.file import FIRST, OnnxFile
from matloom.frontend.onnx.writing.layers import apply_activation
from matloom.ir.attributes import (
    Arithmetic,
    Axis,
    BatchMatmul,
    Function,
    LeakyRelu,
    Pad,
    Reduce,
    Resize,
    Slice,
    Softmax,
    Split,
    Transpose,
)
from matloom.ir.graph import Node, Op
from matloom.kernels.expressions import STEPS, parse_step
from matloom.kernels.functions import FUNCTIONS

_Writer = Callable[[OnnxFile, Node], None]


def _inputs_in_one_order(file: OnnxFile, node: Node) -> tuple[list[str], Order]:
    """Return the names of a node's inputs, all in the same axis order, and that order."""
    order = file.order_of(node.inputs)
    return [file.value(number, order) for number in node.inputs], order


def _elementwise_writer(op: str) -> _Writer:
    """Return a writer of one elementwise ONNX operator, with its fused activation."""

    def write(file: OnnxFile, node: Node) -> None:
        """Write a node as this operator of ONNX and an activation; record the output's name."""
        names, order = _inputs_in_one_order(file, node)
        made = file.node(op, names)
        if isinstance(node.attributes, Arithmetic):
            tensor = file.graph.tensors[node.output]
            made = apply_activation(file, made, node.attributes.activation, tensor)
        file.record_output(node.output, order, made)

    return write


def _write_function(file: OnnxFile, node: Node) -> None:
    """Write a function of one value as the ONNX operators of its expression."""
    (name,), order = _inputs_in_one_order(file, node)
    kind = node.attributes_as(Function).function
    file.record_output(node.output, order, _write_expression(file, FUNCTIONS.get(kind, kind), name))


def _write_expression(file: OnnxFile, text: str, name: str) -> str:
    """Add the operators of an expression of the value `name`; return the name of the result.

    `text` is an expression as `parse_step` reads it.
    """
    match parse_step(text):
        case None:
            return name
        case float(number):
            return file.constant(np.array(number, np.float32), "number")
        case op, texts:
            parameters = STEPS[op][1]
            operands = texts[: len(texts) - len(parameters)]
            given = [float(each) for each in texts[len(operands) :]]
            options: dict[str, Any] = dict(zip(parameters, given, strict=True))
            return file.node(
                op, [_write_expression(file, each, name) for each in operands], **options
            )


def _write_leaky_relu(file: OnnxFile, node: Node) -> None:
    """Write a leaky ReLU as LeakyRelu."""
    names, order = _inputs_in_one_order(file, node)
    alpha = node.attributes_as(LeakyRelu).alpha
    file.record_output(node.output, order, file.node("LeakyRelu", names, alpha=alpha))


def _write_relu6(file: OnnxFile, node: Node) -> None:
    """Write a ReLU6 as Clip."""
    names, order = _inputs_in_one_order(file, node)
    limits = [file.constant(np.array(limit, np.float32), "limit") for limit in (0, 6)]
    file.record_output(node.output, order, file.node("Clip", [*names, *limits]))


def _write_product(file: OnnxFile, node: Node) -> None:
    """Write a product of computed matrices as MatMul, after transpositions if necessary."""
    attributes, names = node.attributes_as(BatchMatmul), []
    for number, transposed in zip(node.inputs, (attributes.adj_x, attributes.adj_y), strict=True):
        name = file.value(number)
        if transposed:
            *batch, rows, columns = range(len(file.graph.tensors[number].shape))
            name = file.node("Transpose", [name], perm=[*batch, columns, rows])
        names.append(name)
    rank = len(file.graph.tensors[node.output].shape)
    file.record_output(node.output, in_file_order(rank), file.node("MatMul", names))


def _write_softmax(file: OnnxFile, node: Node) -> None:
    """Write a softmax or its logarithm; a factor `beta` becomes a Mul."""
    name = file.value(node.inputs[0])
    if node.op is Op.SOFTMAX and node.attributes_as(Softmax).beta != 1.0:
        beta = file.constant(np.array(node.attributes_as(Softmax).beta, np.float32), "beta")
        name = file.node("Mul", [name, beta])
    op = "Softmax" if node.op is Op.SOFTMAX else "LogSoftmax"
    rank = len(file.graph.tensors[node.output].shape)
    file.record_output(node.output, in_file_order(rank), file.node(op, [name], axis=-1))


def _write_reduction(file: OnnxFile, node: Node) -> None:
    """Write a mean or a sum over axes."""
    attributes, shape = node.attributes_as(Reduce), file.graph.tensors[node.inputs[0]].shape
    if node.op is Op.MEAN and attributes == Reduce(axes=(1, 2), keep_dims=True):
        made = file.node("GlobalAveragePool", [file.value(node.inputs[0], FIRST)])
        file.record_output(node.output, FIRST, made)
        return
    name, keep = file.value(node.inputs[0]), int(attributes.keep_dims)
    if node.op is Op.MEAN:
        made = file.node("ReduceMean", [name], axes=list(attributes.axes), keepdims=keep)
    else:
        axes = file.constant(np.array(attributes.axes, np.int64), "axes")
        made = file.node("ReduceSum", [name, axes], keepdims=keep)
    kept = len(shape) if keep else len(shape) - len(attributes.axes)
    file.record_output(node.output, in_file_order(kept), made)


def _write_reshape(file: OnnxFile, node: Node) -> None:
    """Write a Reshape, of a value in the file's order of axes."""
    source, target = file.graph.tensors[node.inputs[0]], file.graph.tensors[node.output]
    plain = kept_axes(in_file_order(len(source.shape)), source.shape)
    same = [o for o in file.names_by_order(node.inputs[0]) if kept_axes(o, source.shape) == plain]
    name = file.value(node.inputs[0], same[0] if same else None)
    shape = file.constant(np.array(target.shape, np.int64), "shape")
    file.record_output(
        node.output, in_file_order(len(target.shape)), file.node("Reshape", [name, shape])
    )


def _write_transpose(file: OnnxFile, node: Node) -> None:
    """Record the input's names, with other axis orders, as those of the output.

    No operator is added: `OnnxFile.value` transposes when a reader needs another order.
    """
    permutation = node.attributes_as(Transpose).permutation
    file.value(node.inputs[0], next(iter(file.names_by_order(node.inputs[0])), None))
    for order, name in file.names_by_order(node.inputs[0]).items():
        file.names_by_order(node.output)[tuple(permutation.index(axis) for axis in order)] = name


def _write_concatenation(file: OnnxFile, node: Node) -> None:
    """Write a concatenation as Concat, in the inputs' common order of axes."""
    names, order = _inputs_in_one_order(file, node)
    axis = order.index(node.attributes_as(Axis).axis)
    file.record_output(node.output, order, file.node("Concat", names, axis=axis))


def _write_gather(file: OnnxFile, node: Node) -> None:
    """Write a lookup of elements by index as Gather."""
    names, axis = [file.value(number) for number in node.inputs], node.attributes_as(Axis).axis
    rank = len(file.graph.tensors[node.output].shape)
    file.record_output(node.output, in_file_order(rank), file.node("Gather", names, axis=axis))


def _write_split(file: OnnxFile, node: Node) -> None:
    """Write a split as one Slice for each part."""
    attributes, (names, order) = node.attributes_as(Split), _inputs_in_one_order(file, node)
    axis, begin = order.index(attributes.axis), 0
    for number, size in zip(node.outputs, attributes.sizes, strict=True):
        _add_slice(file, names[0], (axis, begin, begin + size), number, order)
        begin += size


def _add_slice(
    file: OnnxFile, name: str, part: tuple[int, int, int], number: int, order: Order
) -> None:
    """Add a Slice by `part` (axis, begin, end), and record it as the value of tensor `number`.

    `part` is the axis in `order`, the begin, and the end, which is exclusive.
    """
    axis, *ends = part
    operands = [file.constant(np.array([each], np.int64), "end") for each in (*ends, axis)]
    file.record_output(number, order, file.node("Slice", [name, *operands]))


def _write_slice(file: OnnxFile, node: Node) -> None:
    """Write a slice as Slice, and a Reshape if it drops axes."""
    attributes, name = node.attributes_as(Slice), file.value(node.inputs[0])
    axes = list(zip(attributes.begin, attributes.size, attributes.step, strict=True))
    # An end before the first element needs a very small number.
    ends = [b + n * s if b + n * s >= 0 else -(2**31) for b, n, s in axes]
    rows = (attributes.begin, ends, range(len(axes)), attributes.step)
    operands = [file.constant(np.array(list(row), np.int64), "slice") for row in rows]
    made = file.node("Slice", [name, *operands])
    tensor = file.graph.tensors[node.output]
    if attributes.dropped:
        shape = file.constant(np.array(tensor.shape, np.int64), "shape")
        made = file.node("Reshape", [file.requantise(tensor, made), shape])
    file.record_output(node.output, in_file_order(len(tensor.shape)), made)


def _write_pad(file: OnnxFile, node: Node) -> None:
    """Write a padding with a constant, which is dequantised, as Pad."""
    attributes, (names, order) = node.attributes_as(Pad), _inputs_in_one_order(file, node)
    tensor, value = file.graph.tensors[node.output], attributes.value or 0.0
    if attributes.value is not None and tensor.quantisation is not None:
        value = (attributes.value - tensor.zero_point) * tensor.scale
    edges = [side[axis] for side in (attributes.before, attributes.after) for axis in order]
    operands = [
        file.constant(np.array(edges, np.int64), "pads"),
        file.constant(np.array(value, np.float32), "value"),
    ]
    file.record_output(node.output, order, file.node("Pad", [*names, *operands]))


def _write_resize(file: OnnxFile, node: Node) -> None:
    """Write a resize to the nearest element as Resize."""
    attributes, tensor = node.attributes_as(Resize), file.graph.tensors[node.inputs[0]]
    if attributes.align_corners or attributes.half_pixel_centers:
        raise ValueError(f"{node} has a grid that needs a .tflite file")
    sizes = np.array([tensor.shape[0], tensor.shape[3], *attributes.size], np.int64)
    output = file.node(
        "Resize",
        [file.value(node.inputs[0], FIRST), "", "", file.constant(sizes, "sizes")],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    file.record_output(node.output, FIRST, output)


def _write_requantise(file: OnnxFile, node: Node) -> None:
    """Record the input as the output; `record_output` quantises it if necessary."""
    names, order = _inputs_in_one_order(file, node)
    file.record_output(node.output, order, names[0])


#: Functions that write a node, by operator.
OTHERS: dict[Op, _Writer] = {
    Op.ADD: _elementwise_writer("Add"),
    Op.BATCH_MATMUL: _write_product,
    Op.CONCATENATION: _write_concatenation,
    **dict.fromkeys((Op.DEQUANTIZE, Op.QUANTIZE), _write_requantise),
    **dict.fromkeys((Op.EXPAND_DIMS, Op.RESHAPE, Op.SQUEEZE), _write_reshape),
    Op.FUNCTION: _write_function,
    Op.GATHER: _write_gather,
    Op.HARD_SWISH: _elementwise_writer("HardSwish"),
    Op.LEAKY_RELU: _write_leaky_relu,
    Op.LOGISTIC: _elementwise_writer("Sigmoid"),
    **dict.fromkeys((Op.LOG_SOFTMAX, Op.SOFTMAX), _write_softmax),
    Op.MAXIMUM: _elementwise_writer("Max"),
    **dict.fromkeys((Op.MEAN, Op.SUM), _write_reduction),
    Op.MINIMUM: _elementwise_writer("Min"),
    Op.MUL: _elementwise_writer("Mul"),
    **dict.fromkeys((Op.PAD, Op.PADV2), _write_pad),
    Op.PRELU: _elementwise_writer("PRelu"),
    Op.RELU: _elementwise_writer("Relu"),
    Op.RELU6: _write_relu6,
    Op.RESIZE_NEAREST_NEIGHBOR: _write_resize,
    **dict.fromkeys((Op.SLICE, Op.STRIDED_SLICE), _write_slice),
    **dict.fromkeys((Op.SPLIT, Op.SPLIT_V), _write_split),
    Op.SUB: _elementwise_writer("Sub"),
    Op.TANH: _elementwise_writer("Tanh"),
    Op.TRANSPOSE: _write_transpose,
}
