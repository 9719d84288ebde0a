"""Converts SVDF of int8 to a convolution of the newest input, a memory of results, and a sum.

The memory holds the results of the last calls. It is a variable with time first, so that a call
moves whole rows. Filters are reordered: those of one unit, its ranks, become adjacent columns, and
a depthwise convolution over time and ranks computes the output of each unit.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tflite

from matloom.arch.numerics import quantize_multiplier
from matloom.frontend.errors import Unsupported
from matloom.frontend.tflite.additions import Additions, FileItem
from matloom.frontend.tflite.flatbuffer import options
from matloom.frontend.tflite.writer import NodeWriter, computed_like
from matloom.ir.attributes import Axis, Conv2D, DepthwiseConv2D, Slice
from matloom.ir.graph import Array, Node, Op, Tensor

SVDF = "SVDF"

#: Indices of the operator's inputs.
_DATA, _FEATURES, _TIME, _BIAS, _STATE = range(5)
#: Number of axes of the input and of the weights.
_RANK = 2
#: Maximum number of int8 parts into which weights of the memory are split. Each part reads the
#: memory once.
_MOST_PARTS = 8
#: Maximum number of rows of a kernel.
_MOST_ROWS = 255
#: Bound on the difference between the scale of the bias and that of the products, as in TensorFlow
#: Lite Micro.
_SCALE_TOLERANCE = 1e-5


def svdf_nodes(item: FileItem, additions: Additions) -> list[Node]:
    """Return the nodes that replace an SVDF; a variable keeps its memory between calls.

    Raises
    ------
    Unsupported
        The SVDF has another form than the one that converters write for int8, or its weights are
        too large or too many.
    """
    (output,) = item.outputs
    rank = options(item.table, tflite.SVDFOptions).Rank()
    inputs, made = _checked_inputs(item, additions, rank), additions.known[output]
    parts = _split_into_int8(_split_by_rank(_constant_data(inputs[_TIME]), rank))
    for number in (item.inputs[_DATA], output):
        additions.use(number)
    writer = NodeWriter(item, additions)
    memory = _add_memory(inputs, additions)
    kept = _add_shift(writer, memory, _add_features(writer, inputs, item.inputs[_DATA], rank))
    additions.hold(memory[1], memory[0], kept)
    sums = _add_time_sums(writer, inputs, (kept, memory[1]), made, parts)
    writer.node(Op.RESHAPE, (sums,), (output,))
    return writer.nodes


def _checked_inputs(item: FileItem, additions: Additions, rank: int) -> dict[int, Tensor]:
    """Return the input tensors by index; raise `Unsupported` if any has an unusual form.

    Raises
    ------
    Unsupported
        One of them has another form than the one that converters write.
    """
    known, numbers = additions.known, item.inputs
    # Without a bias, LiteRT alone runs it, whose products of scales are float32.
    if len(numbers) != _STATE + 1 or min(numbers) < 0:
        raise Unsupported("must have an input, two weights, a bias and a state")
    if any(known.is_computed(number) for number in numbers[1:]):
        raise Unsupported("must have constant weights, and a state of its own")
    inputs = {at: known[number] for at, number in enumerate(numbers)}
    output = known[item.outputs[0]]
    tensors = (*inputs.values(), output)
    for tensor, kind in zip(tensors, _expected_types_and_shapes(inputs, rank), strict=True):
        if (tensor.dtype, tensor.shape) != kind:
            raise Unsupported(f"must have {kind[0]} {kind[1]} for {tensor.name!r}")
        if tensor.dtype != "int32" and len(_scales(tensor)) != 1:
            raise Unsupported(f"must have one scale for {tensor.name!r}")
    # Versions of TensorFlow Lite Micro saturate a state with a zero point in different ways.
    for at in (_FEATURES, _TIME, _STATE):
        if inputs[at].zero_point:
            raise Unsupported(f"must have zero point 0 for {inputs[at].name!r}")
    _check_scales(inputs, output.scale)
    return inputs


def _check_scales(inputs: Mapping[int, Tensor], output: float) -> None:
    """Raise `Unsupported` if the kernel would refuse the scales; `output` is that of the output."""
    state, product = inputs[_STATE].scale, inputs[_STATE].scale * inputs[_TIME].scale
    if any(abs(scale - product) >= _SCALE_TOLERANCE for scale in _scales(inputs[_BIAS])):
        raise Unsupported(f"must have a bias of the scale {product}")
    try:
        quantize_multiplier(inputs[_DATA].scale * inputs[_FEATURES].scale / state)
        quantize_multiplier(product / output)
    except ValueError as error:
        raise Unsupported(f"does not fit its scales: {error}") from None


def _scales(tensor: Tensor) -> tuple[float, ...]:
    """Return a tensor's scales; none if it is not quantised."""
    return () if tensor.quantisation is None else tensor.quantisation.scale


def _expected_types_and_shapes(
    inputs: Mapping[int, Tensor], rank: int
) -> list[tuple[str, tuple[int, ...]]]:
    """Return the type and the shape that each input and, as the last item, the output must have."""
    shapes = [inputs[at].shape for at in (_DATA, _FEATURES, _TIME)]
    if any(len(shape) != _RANK for shape in shapes) or rank < 1 or shapes[_FEATURES][0] % rank:
        raise Unsupported(f"must have matrices, and a multiple of {rank} filters, not {shapes}")
    (batch, depth), (filters, _), (_, length) = shapes
    wide = inputs[_STATE].dtype if inputs[_STATE].dtype == "int16" else "int8"
    return [
        ("int8", (batch, depth)),
        ("int8", (filters, depth)),
        (wide, (filters, length)),
        ("int32", (filters // rank,)),
        (wide, (batch, length * filters)),
        ("int8", (batch, filters // rank)),
    ]


def _add_memory(inputs: Mapping[int, Tensor], additions: Additions) -> tuple[int, Tensor]:
    """Add a tensor of SVDF's memory, (1, time, batch, filters), as it is before a call.

    Return the tensor's number and the tensor.
    """
    state, (filters, length) = inputs[_STATE], inputs[_TIME].shape
    shape = (1, length, state.shape[0], filters)
    tensor = computed_like(state, state.name, shape)
    return additions.add(tensor), tensor


def _split_by_rank(weights: Array, rank: int) -> Array:
    """Return weights (units * ranks, n) as (ranks, units, n)."""
    return weights.reshape(-1, rank, weights.shape[1]).swapaxes(0, 1)


def _constant_data(tensor: Tensor) -> Array:
    """Return the data of a constant."""
    assert tensor.data is not None
    return tensor.data


def _add_features(writer: NodeWriter, inputs: Mapping[int, Tensor], number: int, rank: int) -> int:
    """Add a CONV_2D of the newest input with the feature weights; return its output's number.

    `number` is the input's tensor number. The output is (1, 1, batch, filters).
    """
    data, state = inputs[_DATA], inputs[_STATE]
    weights = _split_by_rank(_constant_data(inputs[_FEATURES]), rank).reshape(
        -1, 1, 1, data.shape[1]
    )
    row = computed_like(data, "input", (1, 1, *data.shape))
    operands = (
        writer.add(Op.RESHAPE, (number,), row),
        writer.constant("feature weights", weights, inputs[_FEATURES].quantisation),
        writer.constant("feature bias", np.zeros(len(weights), np.int32)),
    )
    features = computed_like(state, "features", (1, 1, data.shape[0], len(weights)))
    return writer.add(Op.CONV_2D, operands, features, Conv2D())


def _add_shift(writer: NodeWriter, memory: tuple[int, Tensor], newest: int) -> int:
    """Drop the memory's oldest row and append tensor `newest`; return the new memory's number.

    Returns the tensor number of the memory after the call.
    """
    before, kind = memory
    one, length, *row = kind.shape
    if length == 1:
        return newest
    rest = (one, length - 1, *row)
    begin = Slice(begin=(0, 1, 0, 0), size=rest, step=(1, 1, 1, 1))
    younger = writer.add(Op.SLICE, (before,), computed_like(kind, "younger", rest), begin)
    kept = computed_like(kind, "memory", kind.shape)
    return writer.add(Op.CONCATENATION, (younger, newest), kept, Axis(axis=1))


def _add_time_sums(
    writer: NodeWriter,
    inputs: Mapping[int, Tensor],
    memory: tuple[int, Tensor],
    output: Tensor,
    parts: Sequence[Array],
) -> int:
    """Add a depthwise convolution of the memory along time; return its output's number.

    Its weights are the sum of `parts`, arrays of int8 (ranks, units, time). The output is (1, 1,
    batch, units).
    """
    number, state = memory
    _one, length, batch, filters = state.shape
    rank, units, _length = parts[0].shape
    rows = len(parts) * length
    if len(parts) > 1:
        whole = computed_like(state, "memory for each part", (1, rows, batch, filters))
        number = writer.add(Op.CONCATENATION, (number,) * len(parts), whole, Axis(axis=1))
    image = computed_like(state, "units", (1, rows, batch * rank, units))
    weights = np.concatenate([part.transpose(2, 0, 1) for part in parts])[np.newaxis]
    operands = (
        writer.add(Op.RESHAPE, (number,), image),
        writer.constant("time weights", weights, inputs[_TIME].quantisation),
        writer.constant("bias", _constant_data(inputs[_BIAS])),
    )
    made = computed_like(output, "row", (1, 1, batch, units))
    return writer.add(
        Op.DEPTHWISE_CONV_2D, operands, made, DepthwiseConv2D(stride=(1, rank), depth_multiplier=1)
    )


def _split_into_int8(weights: Array) -> list[Array]:
    """Return arrays of int8 whose sum is `weights`, (ranks, units, time).

    Raises
    ------
    Unsupported
        Too many parts would be needed, or their kernel would have too many rows.
    """
    parts: list[Array] = []
    rest = weights.astype(np.int32)
    while not parts or rest.any():
        if len(parts) == _MOST_PARTS:
            most = 127 * _MOST_PARTS
            raise Unsupported(f"must have weights of {most} at most, not {abs(weights).max()}")
        parts.append(np.clip(rest, -128, 127).astype(np.int8))
        rest = rest - parts[-1]
    rows = len(parts) * weights.shape[2]
    if rows > _MOST_ROWS:
        raise Unsupported(f"must have at most {_MOST_ROWS} rows of weights, not {rows}")
    return parts
