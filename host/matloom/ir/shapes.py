"""Output shapes of operators, from the shapes of inputs and from attributes."""

import math
from collections.abc import Callable, Sequence

from matloom.ir.attributes import (
    Attributes,
    BatchMatmul,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    LstmCell,
    Padding,
    Pool2D,
)

#: Number of axes of an image (batch, height, width, channels), and of a matrix.
IMAGE_RANK, MATRIX_RANK = 4, 2
#: Indices of the optional inputs of a layer with weights.
BIAS, MULTIPLIERS = 2, 3

#: Maximum number of elements that a window covers. No network needs more, and padding for larger
#: windows would fill the memory.
MAX_REACH = 2**20

Shape = tuple[int, ...]
ShapeRule = Callable[[Sequence[Shape], Attributes], Shape]


def _extent(kernel: int, dilation: int) -> int:
    """Return the number of elements from the first to the last tap, inclusive."""
    return (kernel - 1) * dilation + 1


def same_padding(
    image: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> Padding:
    """Return the padding that TensorFlow calls SAME, with ``ceil(image / stride)`` outputs.

    If the number of added elements is odd, there is one more at the bottom or at the right.
    """
    totals = []
    for axis in range(2):
        outputs = -(-image[axis] // stride[axis])
        reach = _extent(kernel[axis], dilation[axis])
        totals.append(max((outputs - 1) * stride[axis] + reach - image[axis], 0))
    top, left = (total // 2 for total in totals)
    return Padding(top=top, bottom=totals[0] - top, left=left, right=totals[1] - left)


def window_shape(
    image: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: Padding,
) -> tuple[int, int]:
    """Return the numbers of window positions, vertically and horizontally.

    Raises
    ------
    ValueError
        The window is larger than the padded image, or covers more than `MAX_REACH` elements.
    """
    reach = _extent(kernel[0], dilation[0]), _extent(kernel[1], dilation[1])
    if reach[0] * reach[1] > MAX_REACH:
        raise ValueError(f"a window must cover at most {MAX_REACH} elements, not {reach}")
    height = image[0] + padding.top + padding.bottom - reach[0]
    width = image[1] + padding.left + padding.right - reach[1]
    if height < 0 or width < 0:
        raise ValueError(f"a kernel of {kernel} must fit the padded image {image}")
    return height // stride[0] + 1, width // stride[1] + 1


def require_ranks(shapes: Sequence[Shape], *ranks: int) -> None:
    """Raise `ValueError` unless the first inputs have these numbers of dimensions.

    There may be fewer or more inputs than ranks.
    """
    for shape, rank in zip(shapes, ranks, strict=False):
        if len(shape) != rank:
            raise ValueError(f"an input must have {rank} dimensions, not {shape}")


def require_bias(shapes: Sequence[Shape], channels: int) -> None:
    """Raise `ValueError` unless inputs 2 and 3 of a layer, if present, fit its output channels.

    Input 2 is the bias; input 3 has multipliers and shifts.
    """
    if len(shapes) > MULTIPLIERS and shapes[MULTIPLIERS] != (2, channels):
        wrong = shapes[MULTIPLIERS]
        raise ValueError(f"the multipliers must have the shape {(2, channels)}, not {wrong}")
    if len(shapes) > BIAS and math.prod(shapes[BIAS]) != channels:
        raise ValueError(f"the bias must have the shape {(channels,)}, not {shapes[BIAS]}")


def _window_layer_shape(
    shapes: Sequence[Shape], kernel: tuple[int, int], attributes: Conv2D, outputs: int
) -> Shape:
    """Return the shape of `outputs` channels at all window positions of an image."""
    batch, height, width, _channels = shapes[0]
    steps = attributes.stride, attributes.dilation
    return (batch, *window_shape((height, width), kernel, *steps, attributes.padding), outputs)


def convolution_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the output shape of CONV_2D; weights are (outputs, height, width, channels)."""
    assert isinstance(attributes, Conv2D)
    require_ranks(shapes, 4, 4)
    channels, (outputs, rows, columns, depth) = shapes[0][3], shapes[1]
    if depth != channels:
        raise ValueError(f"the weights must have {channels} input channels, not {depth}")
    require_bias(shapes, outputs)
    return _window_layer_shape(shapes, (rows, columns), attributes, outputs)


def depthwise_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the output shape of DEPTHWISE_CONV_2D; weights are (1, height, width, outputs)."""
    assert isinstance(attributes, DepthwiseConv2D)
    require_ranks(shapes, 4, 4)
    one, rows, columns, outputs = shapes[1]
    expected = shapes[0][3] * attributes.depth_multiplier
    if (one, outputs) != (1, expected):
        raise ValueError(
            f"the weights must have the shape (1, {rows}, {columns}, {expected}), not {shapes[1]}"
        )
    require_bias(shapes, outputs)
    return _window_layer_shape(shapes, (rows, columns), attributes, outputs)


def dense_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the output shape for weights (units, depth) and an input of ``n * depth`` elements."""
    assert isinstance(attributes, FullyConnected)
    require_ranks(shapes[1:], 2)
    units, depth = shapes[1]
    require_bias(shapes, units)
    size = 1
    for length in shapes[0]:
        size *= length
    if attributes.keep_num_dims:
        if shapes[0][-1:] != (depth,):
            raise ValueError(f"the input's last dimension must be {depth}, not {shapes[0]}")
        return (*shapes[0][:-1], units)
    if size % depth:
        raise ValueError(f"the input's size must be a multiple of {depth}, not {size}")
    return (size // depth, units)


def _operands(shapes: Sequence[Shape]) -> Sequence[Shape]:
    """Return the shapes of both factors of a product, after checking a multiplier and shift."""
    stated = shapes[2:]
    if any(shape != (2, 1) for shape in stated):
        raise ValueError(f"the multiplier and shift must have the shape (2, 1), not {stated[0]}")
    return shapes[:2]


def product_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the shape of an element-wise product."""
    return broadcast_shape(_operands(shapes), attributes)


def batch_matmul_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the shape of (..., rows, inner) times (..., inner, columns), after transposition."""
    assert isinstance(attributes, BatchMatmul)
    shapes = _operands(shapes)
    if min(map(len, shapes)) < MATRIX_RANK:
        raise ValueError(f"the inputs must have 2 dimensions or more, not {shapes[0]}, {shapes[1]}")
    (rows, inner), (depth, columns) = (
        shape[: -MATRIX_RANK - 1 : -1] if adjoint else shape[-MATRIX_RANK:]
        for shape, adjoint in zip(shapes, (attributes.adj_x, attributes.adj_y), strict=True)
    )
    if depth != inner:
        raise ValueError(f"the right side must have {inner} rows, not {depth}")
    batch = broadcast_shape([shape[:-MATRIX_RANK] for shape in shapes], attributes)
    return (*batch, rows, columns)


def lstm_shapes(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    """Return the shapes of the output and of the next state of one step: (batch, cells) each.

    The inputs are sums of all inputs (1, batch and time in any order, 4 * cells), sums of the step
    (1, batch, 1, 4 * cells), the state (batch, cells), and scales (2, 12).
    """
    assert isinstance(attributes, LstmCell)
    require_ranks(shapes, 4, 4, 2, 2)
    if attributes.axis not in (1, 2):
        raise ValueError(f"time must be axis 1 or 2, not {attributes.axis}")
    sums, again, (batch, cells), scales = shapes
    wanted = [1, batch, batch, 4 * cells]
    wanted[attributes.axis] = sums[attributes.axis]
    if sums != tuple(wanted) or not 0 <= attributes.time < sums[attributes.axis]:
        raise ValueError(f"step {attributes.time} of {tuple(wanted)} must be among {sums}")
    if (again, scales) != ((1, batch, 1, 4 * cells), (2, 12)):
        raise ValueError(f"sums and scales must fit a state of {shapes[2]}, not {again}, {scales}")
    return [shapes[2]] * 2


def matrix_product_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the shape (rows, columns) of (rows, inner) times the transpose of (columns, inner).

    Raises
    ------
    ValueError
        The shapes of the two matrices, of the bias or of the residual do not fit.
    """
    require_ranks(shapes, 2, 2, 1, 2)
    (rows, inner), (columns, depth), *others = shapes
    if depth != inner:
        raise ValueError(f"the right side must have rows of {inner}, not {depth}")
    result = (rows, columns)
    for name, shape, wanted in zip(
        ("bias", "residual"), others, (result[1:], result), strict=False
    ):
        if shape != wanted:
            raise ValueError(f"the {name} must have the shape {wanted}, not {shape}")
    return result


def pooling_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the output shape of pooling an image (batch, height, width, channels)."""
    assert isinstance(attributes, Pool2D)
    require_ranks(shapes, 4)
    batch, height, width, channels = shapes[0]
    positions = window_shape(
        (height, width), attributes.window, attributes.stride, (1, 1), attributes.padding
    )
    return (batch, *positions, channels)


def broadcast_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the output shape of an element-wise operator, with broadcasting as in NumPy."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for lengths in zip(*padded, strict=True):
        longest = max(lengths)
        if any(length not in (1, longest) for length in lengths):
            raise ValueError(f"the inputs must broadcast, unlike {' and '.join(map(str, shapes))}")
        result.append(longest)
    return tuple(result)


def same_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the input's shape."""
    return shapes[0]


def row_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the input's shape; it must have a last axis."""
    if not shapes[0]:
        raise ValueError("an input must have 1 dimension or more, not ()")
    return shapes[0]
