"""Random networks of many operators: branches, residuals, concatenations, constants."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from matloom.data.growth import Growth
from matloom.data.streaming import accumulate, delay
from matloom.ir.attributes import (
    NO_PADDING,
    Activation,
    Arithmetic,
    Attributes,
    Axis,
    BatchMatmul,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    LeakyRelu,
    Pad,
    Pool2D,
    Reduce,
    Resize,
    Slice,
    Softmax,
    Split,
    Transpose,
    TransposeConv,
)
from matloom.ir.graph import Array, Graph, Op, Quantisation
from matloom.ir.shapes import same_padding
from matloom.ir.verify import verify

__all__ = ["MOST_OPERATORS", "Size", "random_network"]

#: Operators of the largest networks.
MOST_OPERATORS = 150


@dataclass(frozen=True, kw_only=True)
class Size:
    """Bounds of a random network: operators, tensor sizes, and total arithmetic."""

    operators: int
    tensor_bytes: int
    macs: int


def random_network(
    seed: int,
    size: Size,
    *,
    words: bool = False,
    state: bool = False,
    products: bool = False,
) -> Graph:
    """Return a network that `verify` accepts; equal arguments give equal networks.

    With `words` some tensors are int16; with `state` it has variables, with `products` it may
    multiply computed matrices, and keep the maximum of each block of 2 x 2 results.
    """
    network = _Network((seed, size.operators), size, words=words, products=products)
    while len(network.growth.nodes) < size.operators:
        if state and (not network.growth.variables or network.growth.chance(0.15)):
            network.remember()
        else:
            network.grow()
    graph = network.finish(f"random_{seed}")
    verify(graph, "random network")
    return graph


class _Network:
    """Chooses the place and the kind of the next operator."""

    def __init__(self, seed: tuple[int, ...], size: Size, *, words: bool, products: bool) -> None:
        self.growth, self.size, self.products, self.macs = Growth(seed), size, products, 0
        g = self.growth
        self.inputs = [g.input(self._shape(), "int8") for _ in range(g.choose((1, 1, 2)))]
        if words:
            self.inputs.append(g.input(self._shape(), "int16"))

    def _shape(self) -> tuple[int, ...]:
        g, most = self.growth, self.size.tensor_bytes
        channels = g.choose((1, 2, 3, 4, 7, 8, 16, 17, 24, 32))
        side = max(1, math.isqrt(most // channels))
        height, width = (g.integer(max(1, side // 3), side) for _ in range(2))
        return 1, min(height, 400), min(width, 400), channels

    def grow(self) -> None:
        """Add an operator, or several that belong together."""
        g = self.growth
        source = self._source()
        tensor = g.tensors[source]
        kinds = _WORDS if tensor.dtype == "int16" else _BYTES
        spatial = len(tensor.shape) == 4
        known = kinds["any"] + (kinds["image"] if spatial else ())
        if self.products and spatial and tensor.dtype == "int8":
            known += (("product", 3), ("blocks", 4), ("squares", 1))
        name, weight = zip(*known, strict=True)
        odds = np.array(weight, float) / sum(weight)
        kind = str(g.random.choice(np.array(name), p=odds))
        _KINDS[kind](self, source)

    def remember(self) -> None:
        """Add a variable with its reads and assignment."""
        source = self._source()
        tensor = self.growth.tensors[source]
        rows = self.growth.integer(1, 6)
        rows_known = len(tensor.shape) == 4 and tensor.shape[0] == 1
        added = rows * tensor.size // tensor.shape[1] if rows_known else 0
        if added and added + tensor.size <= self.size.tensor_bytes and self.growth.chance(0.7):
            delay(self.growth, source, rows)
        else:
            accumulate(self.growth, source)

    def _source(self) -> int:
        """Return an input for the next operator: mostly recent, often not read yet."""
        g = self.growth
        possible = [number for number in g.values if self._fits(number)]
        lively = [number for number in possible if self._has_many_values(number)]
        read = {number for node in g.nodes for number in node.inputs}
        unread = [number for number in lively if number not in read]
        chosen = float(g.random.random())
        if chosen < 0.5 and lively:
            return g.choose(lively[-4:])
        return g.choose(unread if chosen < 0.85 and unread else lively or possible)

    def _fits(self, number: int) -> bool:
        tensor = self.growth.tensors[number]
        return tensor.dtype in ("int8", "int16") and 0 < tensor.size <= self.size.tensor_bytes

    def _has_many_values(self, number: int) -> bool:
        """Return whether a sample has many values, so that mistakes after it show."""
        values = self.growth.values[number]
        return len(np.unique(values)) >= min(16, values.size // 3)

    def finish(self, name: str) -> Graph:
        """Return the network; its outputs are all unread tensors and some others."""
        g = self.growth
        read = {number for node in g.nodes for number in node.inputs}
        made = [number for node in g.nodes for number in node.outputs]
        read.update(variable.after for variable in g.variables)
        outputs = {number for number in made if number not in read}
        outputs |= {number for number in made if g.chance(0.02)}
        # An input that nothing reads is none.
        inputs = [number for number in self.inputs if number in read]
        return g.graph(name, inputs, sorted(outputs) or made[-1:])

    def activation(self) -> Activation:
        """Return an activation, mostly none or RELU."""
        choices: tuple[Activation, ...] = (Activation.NONE, Activation.NONE, *Activation)
        return self.growth.choose(choices)

    def alike(self, source: int) -> list[int]:
        """Return the tensors of the same shape and type, including the source."""
        g = self.growth
        wanted = (g.tensors[source].shape, g.tensors[source].dtype)
        return [at for at in g.values if (g.tensors[at].shape, g.tensors[at].dtype) == wanted]

    def requantise(self, source: int, like: int) -> int:
        """Return a tensor with the scale of another: itself, or its QUANTIZE."""
        g = self.growth
        if g.tensors[source].quantisation == g.tensors[like].quantisation:
            return source
        return g.requantise(source, like)

    def weights(self, shape: tuple[int, ...], axis: int) -> int:
        """Add weights with one scale or one per channel, sometimes of four bits.

        Their scales roughly preserve the size of numbers.
        """
        g = self.growth
        count = shape[axis] if g.chance(0.6) else 1
        base = g.random.uniform(0.7, 2) / (74 * (math.prod(shape) / shape[axis]) ** 0.5)
        scales = tuple(float(np.float32(base * g.random.uniform(0.3, 1))) for _ in range(count))
        data = g.values_of("int8", shape)
        if g.chance(0.2):
            data >>= 4
        quantisation = Quantisation(
            scale=scales, zero_point=(0,) * count, axis=axis if count > 1 else None
        )
        return g.constant(data, quantisation)

    def bias(self, channels: int, reduction: int, dtype: str) -> list[int]:
        """Add a bias of the size of the sums, or none."""
        g = self.growth
        if g.chance(0.2):
            return []
        reach = int(74 * 74 * max(1, reduction) ** 0.5) * (200 if dtype == "int16" else 1)
        data = g.random.integers(-reach, reach + 1, channels)
        kind = np.int64 if dtype == "int16" else np.int32
        return [g.constant(data.astype(kind), None)]

    def affordable(self, macs: int) -> bool:
        """Return whether the bound allows so many more multiply-accumulates, and count them."""
        if self.macs + macs > self.size.macs:
            return False
        self.macs += macs
        return True


def _window(network: _Network, image: tuple[int, int], most: int) -> tuple[int, int]:
    g = network.growth
    height, width = (min(length, g.choose((1, 2, 3, 3, 3, 5, most))) for length in image)
    return height, width


def _convolution(network: _Network, source: int) -> None:
    g = network.growth
    tensor = g.tensors[source]
    _batch, height, width, depth = tensor.shape
    kernel = (1, 1) if g.chance(0.4) else _window(network, (height, width), 4)
    stride = g.choose(((1, 1), (1, 1), (2, 2), (1, 2), (3, 1)))
    dilation = (1, 1)
    if g.chance(0.1) and max(kernel) * 2 <= min(height, width):
        dilation = g.choose(((2, 1), (1, 2), (2, 2)))
    padding = NO_PADDING
    if g.chance(0.5):
        padding = same_padding((height, width), kernel, stride, dilation)
    outputs = g.choose((1, 3, 4, 8, 8, 13, 16, 16, 24, 33))
    reduction = kernel[0] * kernel[1] * depth
    if not network.affordable(height * width // (stride[0] * stride[1]) * outputs * reduction):
        return
    inputs = [source, network.weights((outputs, *kernel, depth), 0)]
    inputs += network.bias(outputs, reduction, tensor.dtype)
    attributes = Conv2D(
        stride=stride, dilation=dilation, padding=padding, activation=network.activation()
    )
    g.operator(Op.CONV_2D, inputs, attributes)


def _depthwise(network: _Network, source: int) -> None:
    g = network.growth
    tensor = g.tensors[source]
    _batch, height, width, depth = tensor.shape
    kernel = g.choose(((3, 3), (3, 3), _window(network, (height, width), 5)))
    kernel = (min(kernel[0], height), min(kernel[1], width))
    step = g.choose((1, 1, 2, 3))
    padding = same_padding((height, width), kernel, (step, step)) if g.chance(0.6) else NO_PADDING
    multiplier = g.choose((1, 1, 1, 2, 3)) if depth <= 16 else 1
    channels, taps = depth * multiplier, kernel[0] * kernel[1]
    if not network.affordable(height * width // step**2 * channels * taps):
        return
    inputs = [source, network.weights((1, *kernel, channels), 3)]
    inputs += network.bias(channels, taps, tensor.dtype)
    attributes = DepthwiseConv2D(
        stride=(step, step),
        padding=padding,
        activation=network.activation(),
        depth_multiplier=multiplier,
    )
    g.operator(Op.DEPTHWISE_CONV_2D, inputs, attributes)


def _transposed(network: _Network, source: int) -> None:
    g = network.growth
    _batch, height, width, depth = g.tensors[source].shape
    kernel = (g.integer(1, 4), g.integer(1, 4))
    stride, outputs = (g.integer(1, 2), g.integer(1, 2)), g.choose((1, 4, 9))
    size = ((height - 1) * stride[0] + kernel[0], (width - 1) * stride[1] + kernel[1])
    work = height * width * depth * outputs * kernel[0] * kernel[1]
    too_large = size[0] * size[1] * outputs > network.size.tensor_bytes
    if too_large or not network.affordable(work):
        return
    inputs = [source, network.weights((outputs, *kernel, depth), 0)]
    inputs += network.bias(outputs, depth * kernel[0] * kernel[1], "int8")
    attributes = TransposeConv(stride=stride, size=size)
    g.operator(Op.TRANSPOSE_CONV, inputs, attributes)


def _dense(network: _Network, source: int) -> None:
    g = network.growth
    tensor = g.tensors[source]
    depth, units = tensor.shape[-1], g.choose((1, 4, 10, 16, 33))
    keep = True
    if g.chance(0.5) and tensor.size <= 4096:
        depth, keep = tensor.size, False
    if not network.affordable(tensor.size * units):
        return
    inputs = [source, network.weights((units, depth), 0)]
    inputs += network.bias(units, depth, tensor.dtype)
    attributes = FullyConnected(keep_num_dims=keep, activation=network.activation())
    g.operator(Op.FULLY_CONNECTED, inputs, attributes)


def _product(network: _Network, source: int) -> None:
    """Multiply matrices by matrices of the same shape, one of them transposed."""
    g = network.growth
    *batch, rows, columns = g.tensors[source].shape
    adj_y = g.chance(0.7)
    side, inner = (rows, columns) if adj_y else (columns, rows)
    positions = math.prod(batch) * side * side
    if positions > network.size.tensor_bytes or not network.affordable(positions * inner):
        return
    pair = [source, g.choose(network.alike(source))]
    g.operator(Op.BATCH_MATMUL, pair, BatchMatmul(adj_x=not adj_y, adj_y=adj_y))


def _other(network: _Network, source: int) -> int:
    """Return a second operand: computed, broadcast, a constant of the same shape, or smaller."""
    g = network.growth
    tensor = g.tensors[source]
    if g.chance(0.6):
        return g.choose(network.alike(source))
    shape = g.choose((tensor.shape, tensor.shape[-1:], (1,), ()))
    return g.constant(np.asarray(g.values_of(tensor.dtype, shape)), g.quantisation(tensor.dtype))


def _arithmetic(op: Op) -> Callable[[_Network, int], None]:
    def add(network: _Network, source: int) -> None:
        g = network.growth
        pair = [source, _other(network, source)]
        if g.chance(0.2):
            pair.reverse()
        g.operator(op, pair, Arithmetic(activation=network.activation()))

    return add


def _squares(network: _Network, source: int) -> None:
    g = network.growth
    g.operator(Op.SQUARED_DIFFERENCE, [source, _other(network, source)])


def _limit(network: _Network, source: int) -> None:
    g = network.growth
    tensor = g.tensors[source]
    level = np.asarray(g.values_of(tensor.dtype, (1,)))
    constant = g.constant(level, tensor.quantisation)
    g.operator(g.choose((Op.MAXIMUM, Op.MINIMUM)), [source, constant])


def _pool(network: _Network, source: int) -> None:
    g = network.growth
    tensor = g.tensors[source]
    image = (tensor.shape[1], tensor.shape[2])
    window = _window(network, image, 4)
    stride = g.choose((window, (1, 1), (2, 2)))
    padding = same_padding(image, window, stride) if g.chance(0.5) else NO_PADDING
    attributes = Pool2D(
        window=window, stride=stride, padding=padding, activation=network.activation()
    )
    g.operator(g.choose((Op.AVERAGE_POOL_2D, Op.MAX_POOL_2D)), [source], attributes)


def _blocks(network: _Network, source: int) -> None:
    """Add a convolution, or a depthwise layer, and MAX_POOL_2D of blocks of its results."""
    g = network.growth
    made = len(g.nodes)
    g.choose((_convolution, _depthwise))(network, source)
    if len(g.nodes) == made:
        return
    (output,) = g.nodes[-1].outputs
    if min(g.tensors[output].shape[1:3]) > 1:
        g.operator(Op.MAX_POOL_2D, [output], Pool2D(window=(2, 2), stride=(2, 2)))


#: Of inputs of LOGISTIC and TANH, the first that is too large.
_SIGMOID_SCALE = 8.0


def _unary(op: Op) -> Callable[[_Network, int], None]:
    def add(network: _Network, source: int) -> None:
        g = network.growth
        # Q4.27 has no multiplier for larger scales (`ir.scales.sigmoid_scale`).
        if op in (Op.LOGISTIC, Op.TANH) and g.tensors[source].scale >= _SIGMOID_SCALE:
            return
        g.operator(op, [source])

    return add


def _leaky(network: _Network, source: int) -> None:
    g = network.growth
    g.operator(Op.LEAKY_RELU, [source], LeakyRelu(alpha=g.scale(0.01, 1.5)))


def _softmax(network: _Network, source: int) -> None:
    network.growth.operator(Op.SOFTMAX, [source], Softmax(beta=1.0))


def _prelu(network: _Network, source: int) -> None:
    g = network.growth
    shape = g.tensors[source].shape
    slopes: Array = g.values_of("int8", (1, 1, shape[3]))
    g.operator(Op.PRELU, [source, g.constant(slopes, g.quantisation("int8"))])


def _reduce(network: _Network, source: int) -> None:
    g = network.growth
    rank = len(g.tensors[source].shape)
    first = g.integer(0, rank - 1)
    axes = (
        (1, 2)
        if rank == 4 and g.chance(0.6)
        else tuple(range(first, g.integer(first, rank - 1) + 1))
    )
    keep = g.chance(0.5) or len(axes) == rank
    g.operator(g.choose((Op.MEAN, Op.SUM)), [source], Reduce(axes=axes, keep_dims=keep))


def _reshape(network: _Network, source: int) -> None:
    g = network.growth
    shape = g.tensors[source].shape
    size, last = math.prod(shape), shape[-1]
    choices = [
        (1, size),
        (1, size // last, 1, last),
        (size // last, last),
        (1, 1, size // last, last),
    ]
    if size % 2 == 0:
        choices.append((1, 2, size // 2, 1))
    g.operator(Op.RESHAPE, [source], shape=g.choose(choices))


def _concatenation(network: _Network, source: int) -> None:
    g = network.growth
    parts = [source]
    parts += [
        network.requantise(g.choose(network.alike(source)), source) for _ in range(g.integer(1, 3))
    ]
    shape = g.tensors[source].shape
    if math.prod(shape) * len(parts) <= network.size.tensor_bytes:
        axis = g.choose((len(shape) - 1, len(shape) - 1, g.integer(0, len(shape) - 1)))
        g.operator(Op.CONCATENATION, parts, Axis(axis=axis))


def _split(network: _Network, source: int) -> None:
    g = network.growth
    shape = g.tensors[source].shape
    axis = g.choose((len(shape) - 1, g.integer(0, len(shape) - 1)))
    length = shape[axis]
    if length < 2:
        return
    if length % 2 == 0 and g.chance(0.5):
        parts = g.operator(Op.SPLIT, [source], Split(axis=axis, sizes=(length // 2,) * 2))
    else:
        first = g.integer(1, length - 1)
        parts = g.operator(Op.SPLIT_V, [source], Split(axis=axis, sizes=(first, length - first)))
    if g.chance(0.5):
        g.operator(Op.CONCATENATION, parts[::-1], Axis(axis=axis))


def _pack(network: _Network, source: int) -> None:
    g = network.growth
    shape = g.tensors[source].shape
    if len(shape) == 4:
        axis = min(range(4), key=lambda at: (shape[at], at))
        if shape[axis] <= 4:
            g.operator(Op.UNPACK, [source], Axis(axis=axis))
    elif 2 * math.prod(shape) <= network.size.tensor_bytes:
        other = network.requantise(g.choose(network.alike(source)), source)
        g.operator(Op.PACK, [source, other], Axis(axis=g.integer(0, len(shape))))


def _pad(network: _Network, source: int) -> None:
    g = network.growth
    shape = g.tensors[source].shape
    before, after = [0] * len(shape), [0] * len(shape)
    for axis in (1, 2) if len(shape) == 4 else (g.integer(0, len(shape) - 1),):
        before[axis], after[axis] = g.integer(0, 2), g.integer(0, 2)
    grown = math.prod(n + b + a for n, b, a in zip(shape, before, after, strict=True))
    if grown > network.size.tensor_bytes:
        return
    value = g.integer(-128, 127) if g.chance(0.3) else None
    if g.tensors[source].dtype == "int16":
        value = None
    op = Op.PAD if value is None else Op.PADV2
    g.operator(op, [source], Pad(before=tuple(before), after=tuple(after), value=value))


def _slice(network: _Network, source: int) -> None:
    g = network.growth
    shape = g.tensors[source].shape
    begin, size, step = [0] * len(shape), list(shape), [1] * len(shape)
    strided = g.chance(0.5)
    for axis in {g.integer(0, len(shape) - 1), g.integer(0, len(shape) - 1)}:
        begin[axis] = g.integer(0, shape[axis] // 2)
        left = shape[axis] - begin[axis]
        step[axis] = min(left, g.choose((1, 2, 3))) if strided else 1
        size[axis] = g.integer(1, (left - 1) // step[axis] + 1)
        step[axis] = 1 if size[axis] == 1 else step[axis]
    op = Op.STRIDED_SLICE if strided else Op.SLICE
    attributes = Slice(begin=tuple(begin), size=tuple(size), step=tuple(step))
    g.operator(op, [source], attributes)


def _transpose(network: _Network, source: int) -> None:
    g = network.growth
    rank = len(g.tensors[source].shape)
    if g.chance(0.7):
        first = g.integer(0, max(0, rank - 2))
        order = list(range(rank))
        order[first : first + 2] = order[first : first + 2][::-1]
    else:
        order = [int(axis) for axis in g.random.permutation(rank)]
    g.operator(Op.TRANSPOSE, [source], Transpose(permutation=tuple(order)))


def _resize(network: _Network, source: int) -> None:
    g = network.growth
    _batch, height, width, channels = g.tensors[source].shape
    factors = (g.integer(1, 3), g.integer(1, 3))
    size = (height * factors[0], width * factors[1])
    if size[0] * size[1] * channels <= network.size.tensor_bytes:
        attributes = Resize(size=size, align_corners=False, half_pixel_centers=g.chance(0.5))
        g.operator(Op.RESIZE_NEAREST_NEIGHBOR, [source], attributes)


def _to_bytes(network: _Network, source: int) -> None:
    network.growth.operator(Op.QUANTIZE, [source], Attributes(), dtype="int8")


def _residual(network: _Network, source: int) -> None:
    """Add convolution, depthwise layer and convolution, and the sum with their input."""
    g = network.growth
    _batch, height, width, depth = g.tensors[source].shape
    inner = g.choose((depth, 2 * depth))
    if height * width * inner > network.size.tensor_bytes:
        return
    if not network.affordable(height * width * (2 * depth * inner + 9 * inner)):
        return
    one = Conv2D(activation=Activation.RELU6)
    same = same_padding((height, width), (3, 3), (1, 1))
    (wide,) = g.operator(Op.CONV_2D, [source, network.weights((inner, 1, 1, depth), 0)], one)
    attributes = DepthwiseConv2D(padding=same, activation=Activation.RELU6)
    weights = network.weights((1, 3, 3, inner), 3)
    (windows,) = g.operator(Op.DEPTHWISE_CONV_2D, [wide, weights], attributes)
    (narrow,) = g.operator(Op.CONV_2D, [windows, network.weights((depth, 1, 1, inner), 0)], one)
    g.operator(Op.ADD, [source, narrow], Arithmetic())


_KINDS: dict[str, Callable[[_Network, int], None]] = {
    "add": _arithmetic(Op.ADD),
    "blocks": _blocks,
    "concatenation": _concatenation,
    "convolution": _convolution,
    "dense": _dense,
    "depthwise": _depthwise,
    "leaky": _leaky,
    "limit": _limit,
    "logistic": _unary(Op.LOGISTIC),
    "mul": _arithmetic(Op.MUL),
    "pack": _pack,
    "pad": _pad,
    "pool": _pool,
    "prelu": _prelu,
    "product": _product,
    "quantize": _unary(Op.QUANTIZE),
    "reduce": _reduce,
    "relu": _unary(Op.RELU),
    "relu6": _unary(Op.RELU6),
    "reshape": _reshape,
    "residual": _residual,
    "resize": _resize,
    "slice": _slice,
    "softmax": _softmax,
    "squares": _squares,
    "split": _split,
    "sub": _arithmetic(Op.SUB),
    "swish": _unary(Op.HARD_SWISH),
    "tanh": _unary(Op.TANH),
    "to_bytes": _to_bytes,
    "transpose": _transpose,
    "transposed": _transposed,
}

_Weights = dict[str, tuple[tuple[str, float], ...]]

#: Kinds and their weights: of any tensor, and those of images alone.
_BYTES: _Weights = {
    "any": (
        *(("add", 8), ("sub", 2), ("mul", 3), ("dense", 2), ("relu", 1), ("relu6", 1)),
        *(("leaky", 1), ("logistic", 1), ("tanh", 1), ("swish", 2), ("limit", 1)),
        *(("quantize", 1), ("reduce", 1), ("reshape", 2), ("concatenation", 4), ("split", 2)),
        *(("pack", 1), ("pad", 1), ("slice", 2), ("transpose", 1), ("softmax", 0.3)),
    ),
    "image": (
        *(("convolution", 16), ("depthwise", 8), ("residual", 4), ("pool", 3)),
        *(("prelu", 1), ("resize", 1), ("transposed", 1)),
    ),
}
_WORDS: _Weights = {
    "any": (
        *(("add", 4), ("dense", 1), ("relu", 1), ("relu6", 1), ("leaky", 1), ("limit", 1)),
        *(("reduce", 1), ("reshape", 1), ("split", 1), ("slice", 1), ("pad", 1), ("to_bytes", 4)),
        *(("transpose", 1), ("concatenation", 1)),
    ),
    "image": (("convolution", 5), ("depthwise", 3), ("pool", 2), ("resize", 1)),
}
