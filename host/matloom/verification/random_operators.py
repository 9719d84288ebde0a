"""Draws random networks of one operator, to compare with other runtimes."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

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
    Padding,
    Pool2D,
    Reduce,
    Resize,
    Slice,
    Softmax,
    Split,
    Transpose,
    TransposeConv,
)
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.operators import OPERATORS
from matloom.ir.shapes import same_padding
from matloom.ir.verify import verify

#: Scale and zero point of outputs that the operator fixes, by operator and type.
FIXED = {
    (Op.LOG_SOFTMAX, "int8"): (1 / 16, 127),
    (Op.SOFTMAX, "int8"): (1 / 256, -128),
    (Op.SOFTMAX, "uint8"): (1 / 256, 0),
    (Op.LOGISTIC, "int8"): (1 / 256, -128),
    (Op.LOGISTIC, "int16"): (2.0**-15, 0),
    (Op.LOGISTIC, "uint8"): (1 / 256, 0),
    (Op.TANH, "int8"): (1 / 128, 0),
    (Op.TANH, "int16"): (2.0**-15, 0),
    (Op.TANH, "uint8"): (1 / 128, 128),
}
#: Operators whose outputs have their input's scale and zero point.
KEPT = {
    *(Op.AVERAGE_POOL_2D, Op.MAX_POOL_2D, Op.PAD, Op.PADV2, Op.CONCATENATION, Op.PACK),
    *(Op.UNPACK, Op.SPLIT, Op.SPLIT_V, Op.SLICE, Op.STRIDED_SLICE, Op.TRANSPOSE, Op.RESHAPE),
    *(Op.GATHER, Op.SQUEEZE, Op.EXPAND_DIMS, Op.RESIZE_NEAREST_NEIGHBOR, Op.MAXIMUM),
    *(Op.MINIMUM, Op.RELU6),
}
#: Operators that multiply matrices or kernels, whose outputs get larger scales.
WEIGHTED = {
    Op.BATCH_MATMUL,
    Op.CONV_2D,
    Op.DEPTHWISE_CONV_2D,
    Op.FULLY_CONNECTED,
    Op.TRANSPOSE_CONV,
}


class RandomOperators:
    """Draws random networks of one operator; equal seeds give equal networks.

    With `engine`, attributes are limited to those that the engine supports, and channels range up
    to 40, so that many tensors are wider than a vector.
    """

    def __init__(
        self, seed: int | Sequence[int], dtype: str = "int8", *, engine: bool = False
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.dtype, self.engine = dtype, engine

    def make(self, op: Op) -> Graph:
        """Return a network of one operator, which `verify` accepts."""
        inputs, attributes = getattr(self, f"_{KINDS[op]}")(op)
        return self.network(op, inputs, attributes)

    def _integer(self, low: int, high: int) -> int:
        """Return a random integer from `low` to `high`, both included."""
        return int(self.random.integers(low, high, endpoint=True))

    def _pair(self, low: int, high: int) -> tuple[int, int]:
        """Return two random integers from `low` to `high`, both included."""
        return self._integer(low, high), self._integer(low, high)

    def _shape(self, rank: int | None = None, longest: int = 6) -> tuple[int, ...]:
        """Return a random shape, of 1 to 4 axes if `rank` is None, with lengths up to `longest`."""
        rank = self._integer(1, 4) if rank is None else rank
        shape = [self._length(longest) for _ in range(rank)]
        if self.engine and self._integer(0, 1):
            shape[-1] = self._channels(longest)
        return tuple(shape)

    def _length(self, most: int) -> int:
        """Return a random length of an axis, from 1 to `most`."""
        return self._integer(1, most)

    def _matrix(self, rows: int) -> tuple[int, int]:
        """Return a matrix shape with about `rows` rows, for an operator that works on any shape."""
        return rows, 50

    def _kernel(self, most: int) -> tuple[int, int]:
        """Return a random kernel height and width, from 1 to `most`."""
        return self._pair(1, most)

    def _strides(self) -> tuple[int, int]:
        """Return random strides from 1 to 3, vertical and horizontal."""
        return self._pair(1, 3)

    def _dilations(self) -> tuple[int, int]:
        """Return random dilations of 1 or 2, vertical and horizontal."""
        return self._pair(1, 2)

    def _channels(self, most: int) -> int:
        """Return a random number of channels, from 1 to `most`, or to 40 for the engine."""
        return self._integer(1, 40 if self.engine else most)

    def _constant(self, tensor: Tensor) -> Tensor:
        """Return a copy of a tensor of integers with random data, which makes it a constant."""
        limits, dtype = np.iinfo(tensor.dtype), np.dtype(tensor.dtype).type
        data = self.random.integers(limits.min, limits.max, tensor.shape, dtype, endpoint=True)
        return replace(tensor, data=data)

    def _scale(self, low: float = 0.002, high: float = 0.2) -> float:
        """Return a random float32 scale from `low` to `high`, even on a logarithmic axis."""
        return float(np.float32(np.exp(self.random.uniform(np.log(low), np.log(high)))))

    def _scale_of(self, dtype: str, low: float = 0.002, high: float = 0.2) -> float:
        """Return a random scale, rounded to float32 as in files; 100 times smaller for int16."""
        return float(np.float32(self._scale(low, high) / (100 if dtype == "int16" else 1)))

    def _activation(self) -> Activation:
        """Return a random activation function."""
        return list(Activation)[self._integer(0, 3)]

    def _tensor(
        self, name: str, shape: tuple[int, ...], dtype: str = "", scale: float | None = None
    ) -> Tensor:
        """Return the declaration of a tensor, with a random zero point, and scale unless given."""
        dtype = dtype or self.dtype
        quantisation = None
        if dtype in ("int8", "int16", "uint8"):
            # 16-bit kernels have no zero point.
            limits = np.iinfo("int8" if dtype == "int16" else dtype)
            zero = 0 if dtype == "int16" else self._integer(int(limits.min), int(limits.max))
            scale = scale or self._scale_of(dtype)
            quantisation = Quantisation(scale=(scale,), zero_point=(zero,))
        return Tensor(name=name, shape=shape, dtype=dtype, quantisation=quantisation)

    def _weights(self, shape: tuple[int, ...], axis: int) -> Tensor:
        """Return random weights, with one scale or with one for each index along `axis`."""
        if self.dtype == "float32":
            data = self.random.standard_normal(shape).astype(np.float32)
            return Tensor(name="weights", shape=shape, dtype="float32", data=data)
        if self.dtype == "uint8":
            levels = self.random.integers(0, 255, shape, np.uint8, endpoint=True)
            return replace(self._tensor("weights", shape), data=levels)
        many = shape[axis] > 1 and self._integer(0, 1)
        count = shape[axis] if many else 1
        quantisation = Quantisation(
            scale=tuple(self._scale() for _ in range(count)),
            zero_point=(0,) * count,
            axis=axis if many else None,
        )
        integers = self.random.integers(-128, 127, shape, np.int8, endpoint=True)
        return Tensor(
            name="weights", shape=shape, dtype="int8", quantisation=quantisation, data=integers
        )

    def _bias(self, channels: int, *, short: bool = False) -> list[Tensor]:
        """Return a list with a random bias, or an empty one.

        The bias of int16 layers has 64 bits, or, if `short` is set, sometimes 32.
        """
        if not self._integer(0, 3):
            return []
        reach = self._bias_reach()
        data = self.random.integers(-reach, reach, channels, np.int32)
        if self.dtype == "int16" and not (short and data[0] % 2):
            return [
                Tensor(name="bias", shape=(channels,), dtype="int64", data=data.astype(np.int64))
            ]
        if self.dtype == "float32":
            floats = (data / reach).astype(np.float32)
            return [Tensor(name="bias", shape=(channels,), dtype="float32", data=floats)]
        return [Tensor.constant("bias", data)]

    def _bias_reach(self) -> int:
        """Return a random bound for the magnitude of a bias, a power of two."""
        return 1 << self._integer(4, 24)

    def _output(self, op: Op, source: Tensor, shape: tuple[int, ...], place: int) -> Tensor:
        """Return the declaration of an operator's output `place`, with an allowed quantisation."""
        name = f"output_{place}"
        if op in (Op.ARG_MAX, Op.ARG_MIN):
            return Tensor(name=name, shape=shape, dtype="int32")
        if op is Op.DEQUANTIZE:
            return Tensor(name=name, shape=shape, dtype="float32")
        if source.quantisation is None:
            return self._tensor(name, shape)
        if (op, self.dtype) in FIXED:
            scale, zero = FIXED[op, self.dtype]
            quantisation = Quantisation(scale=(scale,), zero_point=(zero,))
        elif op in KEPT:
            quantisation = source.quantisation
        else:
            low, high = (0.05, 20) if op in WEIGHTED else (0.002, 0.2)
            if op is Op.HARD_SWISH:
                low = max(low, source.scale / 100)
            if op is Op.SQUARED_DIFFERENCE:
                low, high = (source.scale**2 * ratio for ratio in (10, 300))
            return self._tensor(name, shape, scale=self._scale_of(self.dtype, low, high))
        return Tensor(name=name, shape=shape, dtype=self.dtype, quantisation=quantisation)

    def network(
        self, op: Op, inputs: Sequence[Tensor], attributes: Attributes | None = None
    ) -> Graph:
        """Return a network of one operator, which has the given inputs and constants.

        The output shapes follow the operator's rule; an operator without one, such as RESHAPE,
        removes all axes of length 1 and adds one in front.
        """
        attributes = Attributes() if attributes is None else attributes
        rules, input_shapes = OPERATORS[op], [tensor.shape for tensor in inputs]
        if rules.output_shapes is not None:
            shapes = rules.output_shapes(input_shapes, attributes)
        elif rules.shape is not None:
            shapes = [rules.shape(input_shapes, attributes)]
        else:
            shapes = [(1, *(length for length in input_shapes[0] if length != 1))]
        outputs = [self._output(op, inputs[0], shape, at) for at, shape in enumerate(shapes)]
        numbers = tuple(range(len(inputs), len(inputs) + len(outputs)))
        graph = Graph(
            name=op.lower(),
            inputs=tuple(at for at, tensor in enumerate(inputs) if tensor.data is None),
            outputs=numbers,
            tensors=dict(enumerate([*inputs, *outputs])),
            nodes=(
                Node(
                    op=op,
                    inputs=tuple(range(len(inputs))),
                    outputs=numbers,
                    attributes=attributes,
                    index=0,
                ),
            ),
        )
        verify(graph, "instance")
        return graph

    def _window(
        self,
        image: tuple[int, int],
        kernel: tuple[int, int],
        stride: tuple[int, int],
        dilation: tuple[int, int] = (1, 1),
    ) -> Padding:
        """Return the padding of a window on an image: SAME or none, at random."""
        return same_padding(image, kernel, stride, dilation) if self._integer(0, 1) else NO_PADDING

    def _convolution(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a convolution, depthwise or not."""
        kernel, stride, dilation = self._kernel(5), self._strides(), self._dilations()
        depthwise = op is Op.DEPTHWISE_CONV_2D
        if depthwise:
            stride = (stride[0], stride[0])
        height, width = (
            (k - 1) * d + self._length(7) for k, d in zip(kernel, dilation, strict=True)
        )
        channels, outputs = self._channels(12), self._channels(12)
        multiplier = self._integer(1, 4)
        if depthwise:
            outputs = channels * multiplier
        shape = (1, *kernel, outputs) if depthwise else (outputs, *kernel, channels)
        inputs = [
            self._tensor("input", (self._integer(1, 2), height, width, channels)),
            self._weights(shape, 3 if depthwise else 0),
            *self._bias(outputs, short=not depthwise),
        ]
        padding = self._window((height, width), kernel, stride, dilation)
        activation = self._activation()
        if not depthwise:
            return inputs, Conv2D(
                stride=stride, dilation=dilation, padding=padding, activation=activation
            )
        return inputs, DepthwiseConv2D(
            stride=stride,
            dilation=dilation,
            padding=padding,
            activation=activation,
            depth_multiplier=multiplier,
        )

    def _transposed_convolution(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a transposed convolution."""
        kernel, stride, size = self._pair(1, 5), self._pair(1, 3), self._pair(5, 11)
        channels, outputs = self._channels(9), self._channels(9)
        padding = self._window(size, kernel, stride)
        edges = (padding.top + padding.bottom, padding.left + padding.right)
        image = tuple(
            (length + edge - k) // step + 1
            for length, edge, k, step in zip(size, edges, kernel, stride, strict=True)
        )
        inputs = [
            self._tensor("input", (self._integer(1, 2), *image, channels)),
            self._weights((outputs, *kernel, channels), 0),
            *self._bias(outputs),
        ]
        return inputs, TransposeConv(stride=stride, padding=padding, size=size)

    def _dense(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a dense layer."""
        units, depth = self._length(20), self._length(60)
        keep = bool(self._integer(0, 1))
        leading = self._pair(1, 3) if keep else (self._integer(1, 3),)
        inputs = [
            self._tensor("input", (*leading, depth)),
            self._weights((units, depth), 0),
            *self._bias(units, short=True),
        ]
        return inputs, FullyConnected(keep_num_dims=keep, activation=self._activation())

    def _products(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a product of two computed matrices or batches."""
        rows, inner, columns = (self._channels(12) for _ in range(3))
        batch = tuple(self._length(3) for _ in range(self._integer(0, 2)))
        attributes = BatchMatmul(adj_x=not self._integer(0, 2), adj_y=bool(self._integer(0, 1)))
        left = (inner, rows) if attributes.adj_x else (rows, inner)
        right = (columns, inner) if attributes.adj_y else (inner, columns)
        shared = () if batch and self._integer(0, 3) == 0 else batch
        return [
            self._tensor("input", (*batch, *left)),
            self._tensor("other", ((1,) * (len(batch) - len(shared)) + shared + right)),
        ], attributes

    def _broadcast(self) -> list[Tensor]:
        """Return two random inputs of equal shapes, or of shapes that broadcast."""
        shape = self._shape()
        other = tuple(1 if self._integer(0, 3) == 0 else length for length in shape)
        if self._integer(0, 1):
            other = shape
        if self.engine:
            return self._engine_pair(shape, other)
        return [self._tensor("left", shape), self._tensor("right", other)]

    def _engine_pair(self, shape: tuple[int, ...], other: tuple[int, ...]) -> list[Tensor]:
        """Return two inputs in random order: one of `shape`, and a constant or computed operand.

        A constant has shape `other`; a computed operand repeats along some of the first axes.
        """
        outer = self._integer(0, len(shape))
        constant = bool(self._integer(0, 1))
        if not constant:
            other = (*(1 for _ in shape[:outer]), *shape[outer:])
        shapes = [shape, other][:: 1 if self._integer(0, 1) else -1]
        pair = [
            self._tensor(name, each) for name, each in zip(("left", "right"), shapes, strict=True)
        ]
        if constant:
            at = shapes.index(other) if other != shape else self._integer(0, 1)
            pair[at] = self._constant(pair[at])
        return pair

    def _arithmetic(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of an addition, subtraction or product."""
        inputs = self._broadcast()
        if self.engine and op is Op.MUL and self._integer(0, 1):
            shape = self._shape()
            inputs = [self._tensor("left", shape), self._factors(shape)]
        return inputs, Arithmetic(activation=self._activation())

    def _squares(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a squared difference."""
        return self._broadcast(), Attributes()

    def _factors(self, shape: tuple[int, ...]) -> Tensor:
        """Return a constant with a value for each channel, or a single value."""
        return self._constant(self._tensor("right", (1,) if self._integer(0, 1) else shape[-1:]))

    def _choice(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a maximum or minimum."""
        if self.engine:
            inputs = [self._tensor("left", self._shape()), self._tensor("right", (1,))]
            return [inputs[0], self._constant(inputs[1])], Attributes()
        return self._broadcast(), Attributes()

    def _prelu(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a PReLU."""
        shape = self._shape(4)
        if self.engine:
            # Slopes per channel, per element, or computed.
            alpha = self._tensor("alpha", shape[3:] if self._integer(0, 1) else shape[1:])
            if self._integer(0, 2):
                alpha = self._constant(alpha)
            return [self._tensor("input", shape), alpha], Attributes()
        data = self.random.integers(0, 127, (1, 1, shape[3]), np.int8, endpoint=True)
        alpha = self._tensor("alpha", (1, 1, shape[3]))
        values = (data / (100 if self.dtype == "float32" else 1)).astype(self.dtype)
        constant = Tensor(
            name="alpha",
            shape=alpha.shape,
            dtype=self.dtype,
            quantisation=alpha.quantisation,
            data=values,
        )
        return [self._tensor("input", shape), constant], Attributes()

    def _unary(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of an operator on single elements."""
        if op is Op.LEAKY_RELU:
            alpha = self._scale(0.01, 2)
            if self.engine and not self._integer(0, 3) and self.dtype == "int8":
                # These use a table, which does not exist for words.
                alpha = -alpha
            return [self._tensor("input", self._matrix(4))], LeakyRelu(alpha=alpha)
        return [self._tensor("input", self._matrix(4))], Attributes()

    def _conversion(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of an operator that changes the quantisation."""
        floating = op is Op.QUANTIZE and not self.engine and self._integer(0, 1)
        dtype = "float32" if floating else self.dtype
        return [self._tensor("input", self._matrix(3), dtype)], Attributes()

    def _softmax(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a softmax or log-softmax."""
        beta = (1.0, 0.5, 2.0)[self._integer(0, 2)]
        shape = (self._integer(1, 4), self._integer(1, 40))
        attributes = Softmax(beta=beta) if op is Op.SOFTMAX else Attributes()
        return [self._tensor("input", shape)], attributes

    def _pooling(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a pooling operator."""
        window, stride = self._kernel(6), self._strides()
        image = (window[0] + self._length(7) - 1, window[1] + self._length(7) - 1)
        shape = (self._integer(1, 2), *image, self._channels(9))
        return [self._tensor("input", shape)], Pool2D(
            window=window,
            stride=stride,
            padding=self._window(image, window, stride),
            activation=self._activation(),
        )

    def _draw_axes(self, rank: int) -> list[bool]:
        """Return for each axis whether it may change: at most two may for the engine, else all."""
        chosen = set(range(rank))
        if self.engine:
            chosen = {self._integer(0, rank - 1), self._integer(0, rank - 1)}
        return [axis in chosen for axis in range(rank)]

    def _padding(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a padding operator."""
        shape = self._shape()
        cut = self._draw_axes(len(shape))
        before, after = (tuple(self._integer(0, 3) if at else 0 for at in cut) for _ in range(2))
        value = None
        if op is Op.PADV2:
            # The engine pads words with two equal bytes.
            low, high = (-1, 0) if self.engine and self.dtype == "int16" else (-128, 127)
            value = self._integer(low if self.engine else 0, high)
        return [self._tensor("input", shape)], Pad(before=before, after=after, value=value)

    def _joining(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of an operator that joins tensors along an axis."""
        shape = self._shape(self._integer(1, 3))
        axis = self._integer(0, len(shape) - (op is Op.CONCATENATION))
        inputs: list[Tensor] = []
        for at in range(self._integer(1, 5)):
            own = list(shape)
            if op is Op.CONCATENATION:
                own[axis] = self._integer(1, 5)
            tensor = self._tensor(f"input_{at}", tuple(own))
            # A concatenation must not need rescaling.
            shared = inputs[0].quantisation if inputs else tensor.quantisation
            inputs.append(replace(tensor, quantisation=shared))
        return inputs, Axis(axis=axis)

    def _unpacking(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of an UNPACK, which splits a tensor along an axis."""
        shape = self._shape()
        return [self._tensor("input", shape)], Axis(axis=self._integer(0, len(shape) - 1))

    def _splitting(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a split into equal or unequal parts."""
        shape = list(self._shape())
        axis = self._integer(0, len(shape) - 1)
        size, parts = self._integer(1, 4), self._integer(1, 4)
        equal = op is Op.SPLIT
        sizes = tuple(size if equal else self._integer(1, 4) for _ in range(parts))
        shape[axis] = sum(sizes)
        return [self._tensor("input", tuple(shape))], Split(axis=axis, sizes=sizes)

    def _slicing(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a slice, strided or not."""
        shape = self._shape(longest=9)
        begin, size, step = [], [], []
        strides = (1, 2, 3) if self.engine else (1, 2, 3, -1, -2)
        for length, cut in zip(shape, self._draw_axes(len(shape)), strict=True):
            if not cut:
                begin.append(0)
                size.append(length)
                step.append(1)
                continue
            stride = 1 if op is Op.SLICE else strides[self._integer(0, len(strides) - 1)]
            first, last = self._pair(0, length - 1)
            ordered = (last - first) * stride >= 0
            first, last = (first, last) if ordered else (last, first)
            begin.append(first)
            size.append((last - first) // stride + 1)
            step.append(stride)
        dropped = []
        for axis, count in enumerate(size):
            if count == 1 and step[axis] > 0 and op is Op.STRIDED_SLICE and self._integer(0, 1):
                # A dropped axis has no step.
                step[axis] = 1
                dropped.append(axis)
        return [self._tensor("input", shape)], Slice(
            begin=tuple(begin), size=tuple(size), step=tuple(step), dropped=tuple(dropped)
        )

    def _transposition(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a transposition."""
        shape = self._shape()
        order = tuple(int(axis) for axis in self.random.permutation(len(shape)))
        return [self._tensor("input", shape)], Transpose(permutation=order)

    def _resizing(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of an operator that resizes images."""
        corners = bool(self._integer(0, 1))
        shape, size = self._shape(4, 9), self._pair(1, 20)
        if self.engine:
            corners, factors = False, self._pair(1, 3)
            size = (shape[1] * factors[0], shape[2] * factors[1])
        return [self._tensor("input", shape)], Resize(
            size=size,
            align_corners=corners,
            half_pixel_centers=not corners and bool(self._integer(0, 1)),
        )

    def _reduction(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a reduction over axes."""
        shape = self._shape(longest=9)
        axes = tuple(axis for axis in range(len(shape)) if self._integer(0, 1)) or (0,)
        if self.engine:
            axes = tuple(range(axes[0], self._integer(axes[0], len(shape) - 1) + 1))
        return [self._tensor("input", shape)], Reduce(
            axes=axes, keep_dims=bool(self._integer(0, 1))
        )

    def _picking(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of an operator that finds extremes along an axis."""
        shape = self._shape(longest=9)
        return [self._tensor("input", shape)], Axis(axis=self._integer(0, len(shape) - 1))

    def _gathering(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of a gather, with the indices as an input."""
        shape = self._shape(longest=9)
        dtype = "int64" if self.dtype == "float32" else "int32"
        indices = Tensor(name="indices", shape=self._shape(self._integer(1, 2)), dtype=dtype)
        axis = Axis(axis=self._integer(0, len(shape) - 1))
        return [self._tensor("input", shape), indices], axis

    def _reshaping(self, op: Op) -> tuple[list[Tensor], Attributes]:
        """Return random inputs and attributes of an operator that changes only the shape."""
        shape = (1, *self._shape(2)) if op is Op.SQUEEZE else self._shape(2)
        return [self._tensor("input", shape)], Attributes()


#: Name, without underscore, of the method that draws inputs and attributes of each operator.
KINDS = {
    Op.ADD: "arithmetic",
    Op.ARG_MAX: "picking",
    Op.ARG_MIN: "picking",
    Op.AVERAGE_POOL_2D: "pooling",
    Op.BATCH_MATMUL: "products",
    Op.CONCATENATION: "joining",
    Op.CONV_2D: "convolution",
    Op.DEPTHWISE_CONV_2D: "convolution",
    Op.DEQUANTIZE: "conversion",
    Op.FULLY_CONNECTED: "dense",
    Op.GATHER: "gathering",
    Op.HARD_SWISH: "unary",
    Op.LEAKY_RELU: "unary",
    Op.LOGISTIC: "unary",
    Op.LOG_SOFTMAX: "softmax",
    Op.MAXIMUM: "choice",
    Op.MAX_POOL_2D: "pooling",
    Op.MEAN: "reduction",
    Op.MINIMUM: "choice",
    Op.MUL: "arithmetic",
    Op.PACK: "joining",
    Op.PAD: "padding",
    Op.PADV2: "padding",
    Op.PRELU: "prelu",
    Op.QUANTIZE: "conversion",
    Op.RELU: "unary",
    Op.RELU6: "unary",
    Op.RESHAPE: "reshaping",
    Op.RESIZE_NEAREST_NEIGHBOR: "resizing",
    Op.SLICE: "slicing",
    Op.SOFTMAX: "softmax",
    Op.SPLIT: "splitting",
    Op.SPLIT_V: "splitting",
    Op.SQUARED_DIFFERENCE: "squares",
    Op.STRIDED_SLICE: "slicing",
    Op.SUB: "arithmetic",
    Op.SUM: "reduction",
    Op.TANH: "unary",
    Op.TRANSPOSE: "transposition",
    Op.TRANSPOSE_CONV: "transposed_convolution",
    Op.UNPACK: "unpacking",
}
