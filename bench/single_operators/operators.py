"""Draws a plain file of an operator, with one function for each family; oddities come later."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from single_operators.builder import Builder
from single_operators.model_file import FileNetwork
from single_operators.rarer_operators import RARER_OPERATORS

_Draw = Callable[[Builder, str], FileNetwork]
_ACTIVATIONS = (*[0] * 4, 1, 2, 3)


def _activation(builder: Builder) -> int:
    """Return a random activation, by its number in the schema."""
    return builder.random.choice(_ACTIVATIONS)


def _arithmetic(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of arithmetic on two tensors, at times broadcast or constant."""
    shape = builder.shape()
    other = tuple(1 if builder.chance(0.2) else length for length in shape)[
        int(builder.chance(0.2)) :
    ]
    if builder.chance(0.5):
        other = shape
    limits = name in ("MAXIMUM", "MINIMUM")
    if builder.dtype == "float32" and builder.chance(0.2):
        builder.dtype = "int32"
    first = builder.input(shape)
    kept = {}
    if limits and builder.chance(0.9):
        kept = {"scales": builder.tensors[first].scales, "zeros": builder.tensors[first].zeros}
    make = builder.constant if builder.chance(0.3) else builder.input
    second = make(other, **kept)
    output = builder.like(first) if limits and builder.chance(0.9) else builder.tensor(shape)
    pair = (second, first) if builder.chance(0.3) and other == shape else (first, second)
    fields = {} if limits else {"fusedActivationFunction": _activation(builder)}
    kind = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul"}.get(name, "MaximumMinimum")
    return builder.network(name, pair, (output,), (f"{kind}Options", fields))


def _pool(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of MAX_POOL_2D or AVERAGE_POOL_2D."""
    shape = builder.shape(4, 9)
    fields = {
        "filterWidth": builder.random.randint(1, 3),
        "filterHeight": builder.random.randint(1, 3),
        "strideW": builder.random.randint(1, 3),
        "strideH": builder.random.randint(1, 3),
        "fusedActivationFunction": _activation(builder),
    }
    window = (fields["filterHeight"], fields["filterWidth"])
    fields["padding"] = _padding_of(builder, shape[1:3], window, (1, 1))
    strides = (fields["strideH"], fields["strideW"])
    sizes = _output_sizes(shape[1:3], window, strides, (1, 1), fields["padding"])
    source = builder.input(shape)
    output_shape = (shape[0], *sizes, shape[3])
    output = (
        builder.like(source, output_shape) if builder.chance(0.9) else builder.tensor(output_shape)
    )
    return builder.network(name, (source,), (output,), ("Pool2DOptions", fields))


def _output_sizes(
    image: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: int,
) -> tuple[int, ...]:
    """Return the rows and columns of a convolution's or pool's output; `padding` 0 is SAME."""
    found = []
    for size, kernel, stride, dilation in zip(image, window, strides, dilations, strict=True):
        reach = (kernel - 1) * dilation + 1
        found.append(-(-size // stride) if padding == 0 else (size - reach) // stride + 1)
    return tuple(found)


def _padding_of(
    builder: Builder, image: Sequence[int], window: Sequence[int], dilations: Sequence[int]
) -> int:
    """Return a random padding for a window: SAME (0), or VALID (1) if the window fits the image."""
    sides = zip(image, window, dilations, strict=True)
    fits = all((kernel - 1) * dilation < size for size, kernel, dilation in sides)
    return builder.random.randint(0, 1) if fits else 0


def _weights(
    builder: Builder, shape: Sequence[int], axis: int, source: int
) -> tuple[int, tuple[float, ...]]:
    """Add random weights of a type that suits the input; return their number and their scales.

    `axis` is the axis of output channels; `source` is the number of the input.
    """
    dtype = (
        "float32" if builder.dtype == "float32" else "uint8" if builder.dtype == "uint8" else "int8"
    )
    if builder.dtype == "float32" and builder.chance(0.5):
        dtype = "int8"  # Hybrid: the input is quantised as the layer runs.
    if dtype == "float32":
        return builder.constant(shape, dtype), ()
    if dtype == "int8" and builder.chance(0.25):
        dtype = "int4"
    channels = shape[axis] if dtype != "uint8" and builder.chance(0.7) else 1
    low = 1e-7 if builder.extreme else 1e-3
    scales = tuple(
        float(np.float32(np.exp(builder.random.uniform(np.log(low), np.log(0.1)))))
        for _ in range(channels)
    )
    zeros = tuple(builder.zero("uint8") if dtype == "uint8" else 0 for _ in range(channels))
    values = builder.values(shape, dtype)
    if builder.dtype == "float32":
        # LiteRT's kernels for x86 add -128 times a negative number with the wrong sign.
        values = np.maximum(values, -127)
    return builder.tensor(shape, dtype, data=values, scales=scales, zeros=zeros, axis=axis), scales


def _bias(builder: Builder, channels: int, source: int, scales: tuple[float, ...]) -> list[int]:
    """Add a random bias, or none; return a list of its tensor number, or an empty list."""
    if builder.chance(0.3):
        return []
    if builder.dtype == "float32":
        return [builder.constant((channels,), "float32")]
    dtype = "int64" if builder.dtype == "int16" and builder.chance(0.7) else "int32"
    products = tuple(
        float(np.float32(builder.tensors[source].scales[0] * scale)) for scale in scales
    )
    data = builder.noise.integers(-2000, 2000, channels).astype(dtype)
    return [
        builder.tensor((channels,), dtype, data=data, scales=products, zeros=(0,) * len(scales))
    ]


def _layer_output(
    builder: Builder, shape: Sequence[int], source: int, scales: tuple[float, ...], depth: int
) -> int:
    """Add a layer's output, with a scale at which results fill its range; return its number."""
    if not scales or builder.dtype == "float32" or (builder.extreme and builder.chance(0.5)):
        return builder.tensor(shape)
    typical = builder.tensors[source].scales[0] * max(scales) * 74 * 74 * depth**0.5
    if builder.dtype == "int16":
        typical *= 256
    levels = 2**14 if builder.dtype == "int16" else 64
    scale = float(np.float32(min(max(typical / levels, 1e-37), 1e37)))
    return builder.tensor(shape, scales=(scale,), zeros=(builder.zero(builder.dtype),))


def _convolution(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of CONV_2D or DEPTHWISE_CONV_2D."""
    shape, depthwise = builder.shape(4, 8), name == "DEPTHWISE_CONV_2D"
    window = (builder.random.randint(1, 3), builder.random.randint(1, 3))
    multiplier = builder.random.randint(1, 3) if depthwise else 1
    channels = shape[3] * multiplier if depthwise else builder.random.randint(1, 9)
    fields = {
        "strideW": builder.random.randint(1, 2),
        "strideH": builder.random.randint(1, 2),
        "dilationWFactor": builder.random.choice((1, 1, 1, 2)),
        "dilationHFactor": builder.random.choice((1, 1, 1, 2)),
        "fusedActivationFunction": _activation(builder),
    }
    if depthwise:
        fields["depthMultiplier"] = multiplier
        filters = (1, *window, channels)
    else:
        filters = (channels, *window, shape[3])
    source = builder.input(shape)
    weights, scales = _weights(builder, filters, 3 if depthwise else 0, source)
    bias = _bias(builder, channels, source, scales)
    strides = (fields["strideH"], fields["strideW"])
    dilations = (fields["dilationHFactor"], fields["dilationWFactor"])
    fields["padding"] = _padding_of(builder, shape[1:3], window, dilations)
    sizes = _output_sizes(shape[1:3], window, strides, dilations, fields["padding"])
    depth = window[0] * window[1] * (1 if depthwise else shape[3])
    output = _layer_output(builder, (shape[0], *sizes, channels), source, scales, depth)
    kind = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
    version = 3 if builder.dtype == "int8" else 1
    return builder.network(name, (source, weights, *bias), (output,), (kind, fields), version)


def _transposed_convolution(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of TRANSPOSE_CONV."""
    shape, channels = builder.shape(4, 5), builder.random.randint(1, 5)
    window = (builder.random.randint(1, 3), builder.random.randint(1, 3))
    strides, padding = (
        (builder.random.randint(1, 2), builder.random.randint(1, 2)),
        builder.random.randint(0, 1),
    )
    sizes = [
        size * stride if padding == 0 else (size - 1) * stride + max(kernel, stride)
        for size, kernel, stride in zip(shape[1:3], window, strides, strict=True)
    ]
    output_shape = (shape[0], *sizes, channels)
    size = builder.numbers(output_shape)
    source = builder.input(shape)
    weights, scales = _weights(builder, (channels, *window, shape[3]), 0, source)
    bias = _bias(builder, channels, source, scales)
    output = _layer_output(builder, output_shape, source, scales, window[0] * window[1] * shape[3])
    fields = {"padding": padding, "strideH": strides[0], "strideW": strides[1]}
    inputs = (size, weights, source, *bias)
    return builder.network(name, inputs, (output,), ("TransposeConvOptions", fields), 3)


def _dense(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of FULLY_CONNECTED."""
    rank, depth, channels = (
        builder.random.choice((1, 2, 2, 2, 3, 4)),
        builder.random.randint(1, 17),
        0,
    )
    channels = builder.random.randint(1, 9)
    shape = (*builder.shape(rank - 1, 4), depth)
    keep = builder.chance(0.3)
    rows = int(np.prod(shape[:-1]))
    source = builder.input(shape)
    weights, scales = _weights(builder, (channels, depth), 0, source)
    bias = _bias(builder, channels, source, scales)
    output_shape = (*shape[:-1], channels) if keep else (rows, channels)
    output = _layer_output(builder, output_shape, source, scales, depth)
    fields = {"fusedActivationFunction": _activation(builder), "keepNumDims": keep}
    options = ("FullyConnectedOptions", fields)
    return builder.network(name, (source, weights, *bias), (output,), options, 4)


def _unary(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of an operator from one tensor to another of the same shape."""
    source = builder.input(builder.shape())
    fixed = {
        "LOGISTIC": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
        "TANH": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)},
        "L2_NORMALIZATION": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128)},
    }.get(name, {})
    same = name in ("RELU6", "ABS", "NEG", "FLOOR", "CEIL", "ROUND")
    if same and builder.chance(0.8):
        output = builder.like(source)
    elif builder.dtype in fixed and builder.chance(0.85):
        scale, zero = fixed[builder.dtype]
        output = builder.tensor(builder.tensors[source].shape, scales=(scale,), zeros=(zero,))
    else:
        output = builder.tensor(builder.tensors[source].shape)
    options: tuple[str, dict[str, Any]] | None = None
    if name == "LEAKY_RELU":
        options = (
            "LeakyReluOptions",
            {"alpha": builder.random.choice((0.1, 0.01, 0.0, 1.0, 1.5, -0.5))},
        )
    if name in ("EXP", "ABS", "SQUARE", "NEG", "RSQRT"):
        kind = {"EXP": "Exp", "ABS": "Abs", "SQUARE": "Square", "NEG": "Neg"}.get(name)
        options = None if kind is None else (f"{kind}Options", {})
    if name == "L2_NORMALIZATION":
        options = ("L2NormOptions", {})
    return builder.network(name, (source,), (output,), options)


def _softmax(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of SOFTMAX or LOG_SOFTMAX."""
    source = builder.input(builder.shape(builder.random.choice((1, 2, 2, 3, 4)), 8))
    shape, dtype = builder.tensors[source].shape, builder.dtype
    if name == "LOG_SOFTMAX":
        fixed: dict[str, Any] = {"int8": (16 / 256, 127), "uint8": (16 / 256, 255)}
        options: tuple[str, dict[str, Any]] = ("LogSoftmaxOptions", {})
    else:
        fixed = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)}
        options = (
            "SoftmaxOptions",
            {"beta": builder.random.choice((1.0, 1.0, 1.0, 0.5, 10.0, 0.001))},
        )
        if dtype == "int8" and builder.chance(0.2):
            dtype = "int16"
            fixed = {"int16": (1 / 65536, -32768)}
    if dtype in fixed and builder.chance(0.85):
        scale, zero = fixed[dtype]
        output = builder.tensor(shape, dtype, scales=(scale,), zeros=(zero,))
    else:
        output = builder.tensor(shape, dtype)
    return builder.network(name, (source,), (output,), options)


def _conversion(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of QUANTIZE or DEQUANTIZE."""
    types = ("int8", "uint8", "int16", "float32", "int32")
    source = (
        "float32" if name == "QUANTIZE" and builder.chance(0.4) else builder.random.choice(types)
    )
    target = "float32" if name == "DEQUANTIZE" else builder.random.choice(types[:3])
    shape = builder.shape()
    given = builder.input(shape, source)
    output = builder.tensor(shape, target)
    kind = "QuantizeOptions" if name == "QUANTIZE" else "DequantizeOptions"
    return builder.network(name, (given,), (output,), (kind, {}), 2)


def _reshape(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of RESHAPE, EXPAND_DIMS or SQUEEZE."""
    shape = builder.shape()
    total = int(np.prod(shape))
    made, inputs, options = (total,), [builder.input(shape)], None
    if name == "EXPAND_DIMS":
        axis = builder.random.randint(-len(shape) - 1, len(shape))
        at = axis % (len(shape) + 1)
        made = (*shape[:at], 1, *shape[at:])
        inputs.append(builder.numbers([axis] if builder.chance(0.5) else axis))
        options = ("ExpandDimsOptions", {})
    elif name == "SQUEEZE":
        ones = [at for at, length in enumerate(shape) if length == 1]
        made = tuple(length for length in shape if length != 1)
        options = ("SqueezeOptions", {"squeezeDims": tuple(ones) if builder.chance(0.5) else ()})
    else:
        made = builder.random.choice(((total,), (1, total), (total, 1), (*shape, 1)))
        inputs += [builder.numbers(made)] if builder.chance(0.8) else []
        wanted = (-1,) if builder.chance(0.2) and made == (total,) else made
        options = ("ReshapeOptions", {"newShape": wanted})
    output = builder.like(inputs[0], made)
    return builder.network(name, inputs, (output,), options)


def _reduction(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of MEAN, SUM, REDUCE_MAX or REDUCE_MIN."""
    shape, keep = builder.shape(builder.random.choice((2, 3, 4, 4))), builder.chance(0.5)
    axes = builder.random.sample(range(len(shape)), builder.random.randint(1, len(shape)))
    source = builder.input(shape)
    wanted = [axis - len(shape) if builder.chance(0.3) else axis for axis in axes]
    numbers = builder.numbers(wanted if len(wanted) > 1 or builder.chance(0.7) else wanted[0])
    made = [1 if at in axes else length for at, length in enumerate(shape)]
    if not keep:
        made = [length for at, length in enumerate(shape) if at not in axes]
    same = name in ("REDUCE_MAX", "REDUCE_MIN")
    output = builder.like(source, made) if same or builder.chance(0.3) else builder.tensor(made)
    return builder.network(
        name, (source, numbers), (output,), ("ReducerOptions", {"keepDims": keep}), 2
    )


def _arg_max(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of ARG_MAX or ARG_MIN."""
    shape = builder.shape(builder.random.choice((1, 2, 3, 4)))
    axis = builder.random.randrange(-len(shape), len(shape))
    dtype = builder.random.choice(("int32", "int64"))
    source = builder.input(shape)
    number = builder.numbers([axis] if builder.chance(0.5) else axis)
    output_shape = [length for at, length in enumerate(shape) if at != axis % len(shape)]
    kind = "ArgMax" if name == "ARG_MAX" else "ArgMin"
    fields = {"outputType": 2 if dtype == "int32" else 4}
    return builder.network(
        name, (source, number), (builder.tensor(output_shape, dtype),), (f"{kind}Options", fields)
    )


def _concatenation(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of CONCATENATION or PACK: several tensors become one."""
    shape, count = builder.shape(), builder.random.randint(1, 4)
    pack = name == "PACK"
    rank = len(shape) + pack
    axis = builder.random.randrange(-rank, rank)
    at = axis % rank
    numbers: list[int] = []
    total = 0
    for _ in range(count):
        part = list(shape)
        if not pack:
            part[at] = builder.random.randint(1, 5)
            total += part[at]
        same = numbers and builder.chance(0.75)
        kept = (
            {}
            if not same
            else {
                "scales": builder.tensors[numbers[0]].scales,
                "zeros": builder.tensors[numbers[0]].zeros,
            }
        )
        make = builder.constant if numbers and builder.chance(0.2) else builder.input
        numbers.append(make(part, **kept))
    output_shape = (
        (*shape[:at], count, *shape[at:]) if pack else (*shape[:at], total, *shape[at + 1 :])
    )
    output = (
        builder.like(numbers[0], output_shape)
        if builder.chance(0.8)
        else builder.tensor(output_shape)
    )
    if pack:
        return builder.network(
            name, numbers, (output,), ("PackOptions", {"valuesCount": count, "axis": axis})
        )
    fields = {"axis": axis, "fusedActivationFunction": builder.random.choice((0, 0, 0, 0, 1))}
    return builder.network(name, numbers, (output,), ("ConcatenationOptions", fields))


def _split(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of SPLIT, SPLIT_V or UNPACK: one tensor becomes several."""
    count, shape = builder.random.randint(1, 4), list(builder.shape())
    axis = builder.random.randrange(-len(shape), len(shape))
    at = axis % len(shape)
    sizes = [builder.random.randint(1, 3) for _ in range(count)]
    if name != "SPLIT_V":
        sizes = [1 if name == "UNPACK" else sizes[0]] * count
    shape[at] = sum(sizes)
    source = builder.input(shape)
    outputs = []
    for size in sizes:
        output_shape = [*shape[:at], *([] if name == "UNPACK" else [size]), *shape[at + 1 :]]
        outputs.append(builder.like(source, output_shape))
    if name == "UNPACK":
        return builder.network(
            name, (source,), outputs, ("UnpackOptions", {"num": count, "axis": axis})
        )
    number = builder.numbers([axis] if builder.chance(0.5) else axis)
    if name == "SPLIT":
        return builder.network(
            name, (number, source), outputs, ("SplitOptions", {"numSplits": count})
        )
    inputs = (source, builder.numbers(sizes), number)
    return builder.network(name, inputs, outputs, ("SplitVOptions", {"numSplits": count}))


def _padding(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of PAD, PADV2 or MIRROR_PAD."""
    shape = builder.shape(builder.random.choice((2, 3, 4, 4)))
    most = 1 if name == "MIRROR_PAD" else 3
    pads = [[builder.random.randint(0, most), builder.random.randint(0, most)] for _ in shape]
    if name == "MIRROR_PAD":
        pads = [pad if length > 1 else [0, 0] for pad, length in zip(pads, shape, strict=True)]
    output_shape = [length + sum(pad) for length, pad in zip(shape, pads, strict=True)]
    source = builder.input(shape)
    inputs = [source, builder.numbers(pads, builder.random.choice(("int32", "int32", "int64")))]
    if name == "PADV2":
        inputs.append(
            builder.constant(
                (1,), scales=builder.tensors[source].scales, zeros=builder.tensors[source].zeros
            )
        )
    output = (
        builder.like(source, output_shape) if builder.chance(0.9) else builder.tensor(output_shape)
    )
    kind = {"PAD": "Pad", "PADV2": "PadV2", "MIRROR_PAD": "MirrorPad"}[name]
    return builder.network(name, inputs, (output,), (f"{kind}Options", {}))


def _prelu(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of PRELU."""
    shape = builder.shape(builder.random.choice((2, 3, 4)))
    source = builder.input(shape)
    slopes = (*(1 for _ in shape[:-1]), shape[-1])[1:] if builder.chance(0.7) else shape
    return builder.network(
        name, (source, builder.constant(slopes or (1,))), (builder.tensor(shape),)
    )


def _resize(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR."""
    shape, sizes = builder.shape(4, 5), (builder.random.randint(1, 9), builder.random.randint(1, 9))
    source = builder.input(shape)
    output = builder.like(source, (shape[0], *sizes, shape[3]))
    fields = {"alignCorners": builder.chance(0.3), "halfPixelCenters": False}
    fields["halfPixelCenters"] = not fields["alignCorners"] and builder.chance(0.5)
    kind = "ResizeBilinear" if name == "RESIZE_BILINEAR" else "ResizeNearestNeighbor"
    return builder.network(
        name, (source, builder.numbers(sizes)), (output,), (f"{kind}Options", fields), 3
    )


def _slice(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of SLICE or STRIDED_SLICE."""
    shape = builder.shape()
    begins = [builder.random.randrange(length) for length in shape]
    ends = [
        builder.random.randint(begin + 1, length)
        for begin, length in zip(begins, shape, strict=True)
    ]
    source = builder.input(shape)
    if name == "SLICE":
        sizes = [end - begin for begin, end in zip(begins, ends, strict=True)]
        whole = [
            begin + size == length for begin, size, length in zip(begins, sizes, shape, strict=True)
        ]
        wanted = [
            -1 if at and builder.chance(0.3) else size
            for at, size in zip(whole, sizes, strict=True)
        ]
        dtype = builder.random.choice(("int32", "int64"))
        inputs = (source, builder.numbers(begins, dtype), builder.numbers(wanted, dtype))
        return builder.network(name, inputs, (builder.like(source, sizes),), ("SliceOptions", {}))
    strides = [builder.random.choice((1, 1, 2)) for _ in shape]
    made = [-(-(e - s) // step) for s, e, step in zip(begins, ends, strides, strict=True)]
    shrink = sum(1 << at for at, size in enumerate(made) if size == 1 and builder.chance(0.3))
    for at in range(len(shape)):
        if shrink >> at & 1:
            ends[at], strides[at] = begins[at] + 1, 1
    made = [size for at, size in enumerate(made) if not shrink >> at & 1]
    begin_mask = sum(
        1 << at for at, begin in enumerate(begins) if begin == 0 and builder.chance(0.3)
    )
    begin_mask &= ~shrink
    fields = {"shrinkAxisMask": shrink, "beginMask": begin_mask}
    inputs = (source, builder.numbers(begins), builder.numbers(ends), builder.numbers(strides))
    return builder.network(
        name, inputs, (builder.like(source, made),), ("StridedSliceOptions", fields)
    )


def _transpose(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of TRANSPOSE."""
    shape = builder.shape()
    order = builder.random.sample(range(len(shape)), len(shape))
    source = builder.input(shape)
    output = builder.like(source, [shape[at] for at in order])
    return builder.network(
        name, (source, builder.numbers(order)), (output,), ("TransposeOptions", {})
    )


def _space_to_depth(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of SPACE_TO_DEPTH or DEPTH_TO_SPACE."""
    rows, columns, depth, size = *builder.shape(2, 3), builder.random.randint(1, 3), 2
    small, large = (1, rows, columns, depth * 4), (1, rows * 2, columns * 2, depth)
    source, target = (large, small) if name == "SPACE_TO_DEPTH" else (small, large)
    given = builder.input(source)
    kind = "SpaceToDepth" if name == "SPACE_TO_DEPTH" else "DepthToSpace"
    output = builder.like(given, target)
    return builder.network(name, (given,), (output,), (f"{kind}Options", {"blockSize": size}))


def _matrix_product(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of BATCH_MATMUL."""
    batch, rows, depth, columns = (builder.random.randint(1, 4) for _ in range(4))
    first, second = builder.input((batch, rows, depth)), builder.input((batch, depth, columns))
    output = builder.tensor((batch, rows, columns))
    return builder.network(name, (first, second), (output,), ("BatchMatMulOptions", {}))


def _comparison(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of EQUAL, GREATER or LESS."""
    shape = builder.shape()
    pair = (builder.input(shape), builder.input(shape))
    kind = {"EQUAL": "Equal", "GREATER": "Greater", "LESS": "Less"}[name]
    return builder.network(name, pair, (builder.tensor(shape, "bool"),), (f"{kind}Options", {}))


def _pairwise(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of FLOOR_DIV or SQUARED_DIFFERENCE."""
    shape = builder.shape()
    pair = (builder.input(shape), builder.input(shape))
    kind = {"FLOOR_DIV": "FloorDiv", "SQUARED_DIFFERENCE": "SquaredDifference"}.get(name)
    options = None if kind is None else (f"{kind}Options", {})
    return builder.network(name, pair, (builder.tensor(shape),), options)


def _gather(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of GATHER."""
    shape = builder.shape()
    axis = builder.random.randrange(len(shape))
    places = [builder.random.randrange(shape[axis]) for _ in range(builder.random.randint(1, 4))]
    source = builder.input(shape)
    output = builder.like(source, (*shape[:axis], len(places), *shape[axis + 1 :]))
    return builder.network(
        name, (source, builder.numbers(places)), (output,), ("GatherOptions", {"axis": axis})
    )


def _tile(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of TILE."""
    shape = builder.shape()
    times = [builder.random.randint(1, 3) for _ in shape]
    source = builder.input(shape)
    output_shape = [length * count for length, count in zip(shape, times, strict=True)]
    return builder.network(
        name,
        (source, builder.numbers(times)),
        (builder.like(source, output_shape),),
        ("TileOptions", {}),
    )


def _cumulative_sum(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of CUMSUM."""
    source = builder.input(builder.shape())
    number = builder.numbers(builder.random.randrange(len(builder.tensors[source].shape)))
    fields = {"exclusive": builder.chance(0.5), "reverse": builder.chance(0.5)}
    return builder.network(
        name, (source, number), (builder.like(source),), ("CumsumOptions", fields)
    )


#: Functions by operator that seeds draw from: those that the project knows, then others.
_DRAW_BY_OPERATOR: dict[str, _Draw] = {
    **dict.fromkeys(("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"), _arithmetic),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), _arg_max),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), _pool),
    **dict.fromkeys(("CONCATENATION", "PACK"), _concatenation),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), _convolution),
    **dict.fromkeys(("QUANTIZE", "DEQUANTIZE"), _conversion),
    **dict.fromkeys(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"), _reshape),
    "FULLY_CONNECTED": _dense,
    **dict.fromkeys(("HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "RELU", "RELU6", "TANH"), _unary),
    **dict.fromkeys(("LOG_SOFTMAX", "SOFTMAX"), _softmax),
    **dict.fromkeys(("MEAN", "SUM"), _reduction),
    **dict.fromkeys(("PAD", "PADV2"), _padding),
    "PRELU": _prelu,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
    **dict.fromkeys(("SLICE", "STRIDED_SLICE"), _slice),
    **dict.fromkeys(("SPLIT", "SPLIT_V", "UNPACK"), _split),
    "TRANSPOSE": _transpose,
    "TRANSPOSE_CONV": _transposed_convolution,
    **dict.fromkeys(("ELU", "EXP", "ABS", "SQUARE", "NEG", "RSQRT"), _unary),
    **dict.fromkeys(("FLOOR", "CEIL", "ROUND", "LOG", "SIN", "L2_NORMALIZATION"), _unary),
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN"), _reduction),
    **dict.fromkeys(("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"), _space_to_depth),
    **dict.fromkeys(("EQUAL", "GREATER", "LESS"), _comparison),
    **dict.fromkeys(("FLOOR_DIV", "SQUARED_DIFFERENCE"), _pairwise),
    "BATCH_MATMUL": _matrix_product,
    "CUMSUM": _cumulative_sum,
    "GATHER": _gather,
    "MIRROR_PAD": _padding,
    "RESIZE_BILINEAR": _resize,
    "TILE": _tile,
}
#: All functions by operator; the rarer ones are drawn by name alone: seeds keep their files.
OPERATORS = {**_DRAW_BY_OPERATOR, **RARER_OPERATORS}
#: Operators with numbers of their own are drawn more often.
_WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
_WEIGHTED_CHOICES = (
    *_WEIGHTED,
    *_WEIGHTED,
    "ADD",
    "SUB",
    "MUL",
    "HARD_SWISH",
    "MEAN",
    "QUANTIZE",
    "SOFTMAX",
)


def draw_operator(builder: Builder, name: str | None = None) -> tuple[str, FileNetwork]:
    """Return the name of an operator, by default a random one, and a random network of it."""
    name = name or builder.random.choice((*_DRAW_BY_OPERATOR, *_WEIGHTED_CHOICES))
    return name, OPERATORS[name](builder, name)
