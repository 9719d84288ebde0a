"""Draws plain files of less common operators, like `operators`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from single_operators.builder import Builder
from single_operators.model_file import FileNetwork

_Draw = Callable[[Builder, str], FileNetwork]

_LOGICAL = ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT", "REDUCE_ALL", "REDUCE_ANY")


def _options_name(name: str) -> str:
    """Return the schema's name of an operator's options, such as BroadcastToOptions."""
    words = name.removesuffix("_2D").split("_")
    return "".join(word.capitalize() for word in words) + "Options"


def _vary_type(builder: Builder, *others: str) -> None:
    """Change the network's type to one of `others`, with a probability of 40 %."""
    if builder.chance(0.4):
        builder.dtype = builder.random.choice(others)


def _unary(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of an operator from one tensor to another of the same shape."""
    if name in _LOGICAL:
        builder.dtype = "bool"
    else:
        _vary_type(builder, "float32")
    source = builder.input(builder.shape())
    output = (
        builder.like(source)
        if builder.chance(0.5)
        else builder.tensor(builder.tensors[source].shape)
    )
    options: tuple[str, dict[str, Any]] | None = (_options_name(name), {})
    if name in ("SQRT", "RELU_N1_TO_1", "RELU_0_TO_1"):
        options = None
    if name == "GELU":
        options = ("GeluOptions", {"approximate": builder.chance(0.5)})
    return builder.network(name, (source,), (output,), options)


def _binary(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of an operator of two tensors, the second at times broadcast."""
    if name in ("RIGHT_SHIFT", "BITWISE_XOR"):
        builder.dtype = builder.random.choice(("int8", "uint8", "int16", "int32"))
    elif name in _LOGICAL:
        builder.dtype = "bool"
    elif name == "ATAN2":
        builder.dtype = "float32"
    else:
        _vary_type(builder, "int32", "int64", "float32")
    shape = builder.shape()
    # ATAN2 of LiteRT reads beyond a shorter input.
    shorter = 0 if name == "ATAN2" else 0.2
    other = tuple(1 if builder.chance(shorter) else length for length in shape)
    kept = {} if name in ("DIV", "POW", "FLOOR_MOD") else {"scales": (), "zeros": ()}
    if builder.dtype in ("int8", "uint8", "int16") and name not in ("RIGHT_SHIFT", "BITWISE_XOR"):
        kept = {}
    first = builder.input(shape, **kept)
    second = (builder.constant if builder.chance(0.3) else builder.input)(other, **kept)
    compares = name in ("GREATER_EQUAL", "LESS_EQUAL", "NOT_EQUAL") or name in _LOGICAL
    output = builder.tensor(shape, "bool" if compares else None, **kept)
    fields = (
        {"fusedActivationFunction": builder.random.choice((0, 0, 1, 3))} if name == "DIV" else {}
    )
    options = None if name == "ATAN2" else (_options_name(name), fields)
    return builder.network(name, (first, second), (output,), options)


def _cast(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of CAST."""
    types = ("int8", "uint8", "int16", "int32", "int64", "float32", "bool")
    source, target = builder.random.choice(types), builder.random.choice(types)
    given = builder.input(builder.shape(), source, scales=())
    output = builder.tensor(builder.tensors[given].shape, target, scales=())
    return builder.network(name, (given,), (output,), ("CastOptions", {}))


def _sum_of_many(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of ADD_N."""
    shape = builder.shape()
    sources = [builder.input(shape) for _ in range(builder.random.randint(1, 4))]
    return builder.network(name, sources, (builder.tensor(shape),), ("AddNOptions", {}))


def _space_to_batch(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of SPACE_TO_BATCH_ND or BATCH_TO_SPACE_ND."""
    rows, columns, depth = builder.shape(3, 3)
    blocks = [builder.random.randint(1, 2), builder.random.randint(1, 3)]
    many, one = builder.random.randint(1, 2), int(np.prod(blocks))
    edges = [[0, builder.random.randint(0, 1)] for _ in blocks]
    whole = [
        size * block + sum(edge) * block
        for size, block, edge in zip((rows, columns), blocks, edges, strict=True)
    ]
    edges = [[edge[0] * block, edge[1] * block] for block, edge in zip(blocks, edges, strict=True)]
    inner = [size - sum(edge) for size, edge in zip(whole, edges, strict=True)]
    small = (many * one, *(size // block for size, block in zip(whole, blocks, strict=True)), depth)
    large = (many, *inner, depth)
    source, target = (large, small) if name == "SPACE_TO_BATCH_ND" else (small, large)
    given = builder.input(source)
    inputs = (given, builder.numbers(blocks), builder.numbers(edges))
    kind = "SpaceToBatchND" if name == "SPACE_TO_BATCH_ND" else "BatchToSpaceND"
    return builder.network(name, inputs, (builder.like(given, target),), (f"{kind}Options", {}))


def _broadcast(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of BROADCAST_TO."""
    _vary_type(builder, "int32", "bool", "float32")
    shape = builder.shape()
    source = builder.input(tuple(1 if builder.chance(0.4) else length for length in shape))
    output = builder.like(source, shape)
    return builder.network(
        name, (source, builder.numbers(shape)), (output,), ("BroadcastToOptions", {})
    )


def _update_slice(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of DYNAMIC_UPDATE_SLICE."""
    shape = builder.shape()
    part = [builder.random.randint(1, length) for length in shape]
    begins = [
        builder.random.randint(0, length - size) for length, size in zip(shape, part, strict=True)
    ]
    source = builder.input(shape)
    kept = {"scales": builder.tensors[source].scales, "zeros": builder.tensors[source].zeros}
    inputs = (source, builder.input(part, **kept), builder.numbers(begins))
    return builder.network(name, inputs, (builder.like(source),), ("DynamicUpdateSliceOptions", {}))


def _embedding_lookup(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of EMBEDDING_LOOKUP."""
    shape = builder.shape(builder.random.choice((2, 2, 3)))
    values = builder.constant(shape)
    rows = builder.random.randint(1, 5)
    places = builder.numbers([builder.random.randrange(shape[0]) for _ in range(rows)])
    output_shape = (rows, *shape[1:])
    output = (
        builder.like(values, output_shape)
        if builder.chance(0.7)
        else builder.tensor(output_shape, "float32", scales=())
    )
    return builder.network(name, (places, values), (output,))


def _fill(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of FILL."""
    shape = builder.shape()
    source = builder.input(())
    return builder.network(
        name, (builder.numbers(shape), source), (builder.like(source, shape),), ("FillOptions", {})
    )


def _gather_nd(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of GATHER_ND."""
    shape = builder.shape(builder.random.choice((2, 3, 4)))
    depth, count = builder.random.randint(1, len(shape)), builder.random.randint(1, 4)
    places = [[builder.random.randrange(length) for length in shape[:depth]] for _ in range(count)]
    source = builder.input(shape)
    output = builder.like(source, (count, *shape[depth:]))
    dtype = builder.random.choice(("int32", "int64"))
    return builder.network(
        name, (source, builder.numbers(places, dtype)), (output,), ("GatherNdOptions", {})
    )


def _scatter(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of SCATTER_ND."""
    shape, count = builder.shape(2), builder.random.randint(1, 3)
    places = [[builder.random.randrange(shape[0])] for _ in range(count)]
    source = builder.input((count, shape[1]))
    inputs = (builder.numbers(places), source, builder.numbers(shape))
    return builder.network(name, inputs, (builder.like(source, shape),), ("ScatterNdOptions", {}))


def _l2_pool(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of L2_POOL_2D."""
    _vary_type(builder, "float32")
    shape = builder.shape(4, 7)
    window = [builder.random.randint(1, min(3, size)) for size in shape[1:3]]
    fields = {
        "filterHeight": window[0],
        "filterWidth": window[1],
        "strideH": 1,
        "strideW": 1,
        "padding": 1,
    }
    sizes = [size - reach + 1 for size, reach in zip(shape[1:3], window, strict=True)]
    output = builder.tensor((shape[0], *sizes, shape[3]))
    return builder.network(name, (builder.input(shape),), (output,), ("Pool2DOptions", fields))


def _reduction(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of REDUCE_ALL, REDUCE_ANY or REDUCE_PROD."""
    if name in _LOGICAL:
        builder.dtype = "bool"
    shape, keep = builder.shape(builder.random.choice((2, 3, 4))), builder.chance(0.5)
    axes = builder.random.sample(range(len(shape)), builder.random.randint(1, len(shape)))
    made = [1 if at in axes else length for at, length in enumerate(shape)]
    if not keep:
        made = [length for at, length in enumerate(shape) if at not in axes]
    inputs = (builder.input(shape), builder.numbers(axes))
    options, version = ("ReducerOptions", {"keepDims": keep}), 1 if name in _LOGICAL else 2
    return builder.network(name, inputs, (builder.tensor(made),), options, version)


def _reverse(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of REVERSE_V2."""
    source = builder.input(builder.shape())
    axis = builder.numbers([builder.random.randrange(len(builder.tensors[source].shape))])
    return builder.network(name, (source, axis), (builder.like(source),), ("ReverseV2Options", {}))


def _select(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of SELECT or SELECT_V2."""
    shape = builder.shape()
    asked = shape
    if builder.chance(0.4):
        asked = tuple(1 if builder.chance(0.3) else length for length in shape)
        if name == "SELECT":
            asked = shape[:1]
    first = builder.input(shape)
    kept = {"scales": builder.tensors[first].scales, "zeros": builder.tensors[first].zeros}
    second = (builder.constant if builder.chance(0.3) else builder.input)(shape, **kept)
    output = builder.like(first) if builder.chance(0.8) else builder.tensor(shape)
    inputs = (builder.input(asked, "bool"), first, second)
    return builder.network(name, inputs, (output,), (_options_name(name), {}))


def _shape_or_rank(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of SHAPE or RANK, which depend only on the input's shape."""
    source = builder.input(builder.shape())
    output_shape = (len(builder.tensors[source].shape),) if name == "SHAPE" else ()
    dtype = builder.random.choice(("int32", "int64")) if name == "SHAPE" else "int32"
    fields = {"outType": 2 if dtype == "int32" else 4} if name == "SHAPE" else {}
    return builder.network(
        name, (source,), (builder.tensor(output_shape, dtype),), (_options_name(name), fields)
    )


def _svdf(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of SVDF: a memory of the last features, in int8 or floats."""
    builder.dtype = builder.random.choice(("int8", "float32"))
    batch, size, units, rank, memory = (builder.random.randint(1, 4) for _ in range(5))
    number = units * rank
    state = "int16" if builder.dtype == "int8" and builder.chance(0.6) else builder.dtype
    source = builder.input((batch, size))
    # Converters write no zero points, and give weights of the memory ten bits.
    usual = {"zeros": (0,)} if builder.chance(0.8) else {}
    few = {"data": builder.values((number, memory), "int16") >> 6} if state == "int16" else {}
    features = builder.constant((number, size), **usual)
    times = builder.constant((number, memory), state, **usual, **(few if usual else {}))
    scale = 1.0
    if builder.dtype == "int8":
        scale = min(max(builder.tensors[times].scales[0] * builder.scale(), 1e-37), 1e37)
    quantised = {"scales": (scale,), "zeros": (0,)} if builder.dtype == "int8" else {}
    bias = []
    if builder.chance(0.8):
        dtype = "int32" if builder.dtype == "int8" else "float32"
        bias = [builder.constant((units,), dtype, **quantised)]
    kept = builder.tensor((batch, memory * number), state, variable=True, **usual)
    output = builder.tensor((batch, units))
    fields = {"rank": rank, "fusedActivationFunction": 1 if builder.dtype == "int8" else 0}
    inputs = (source, features, times, *(bias or [-1]), kept)
    return builder.network(name, inputs, (output,), ("SVDFOptions", fields), 3)


def _range_or_one_hot(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of RANGE or ONE_HOT, which create tensors from integers."""
    if name == "RANGE":
        first, length, step = (
            builder.random.randint(-5, 5),
            builder.random.randint(1, 6),
            builder.random.choice((1, 2, -1)),
        )
        inputs = [builder.numbers(value) for value in (first, first + length * step, step)]
        return builder.network(
            name, inputs, (builder.tensor((length,), "int32"),), ("RangeOptions", {})
        )
    count, depth = builder.random.randint(1, 5), builder.random.randint(1, 5)
    places = builder.input((count,), "int32")
    on, off = builder.constant(()), builder.constant(())
    inputs = [places, builder.numbers(depth), on, off]
    output = builder.like(on, (count, depth))
    return builder.network(name, inputs, (output,), ("OneHotOptions", {"axis": -1}))


def _top_k(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of TOPK_V2."""
    source = builder.input(builder.shape())
    shape = builder.tensors[source].shape
    count = builder.random.randint(1, shape[-1])
    output_shape = (*shape[:-1], count)
    outputs = (builder.like(source, output_shape), builder.tensor(output_shape, "int32"))
    return builder.network(name, (source, builder.numbers(count)), outputs, ("TopKV2Options", {}))


def _of_unknown_size(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of WHERE or UNIQUE, whose output size depends on values."""
    if name == "WHERE":
        given = builder.input(builder.shape(), "bool")
        output_shape = (1, len(builder.tensors[given].shape))
        return builder.network(
            name, (given,), (builder.tensor(output_shape, "int64"),), ("WhereOptions", {})
        )
    builder.dtype = builder.random.choice(("int32", "int64", "float32"))
    given = builder.input((builder.random.randint(1, 6),))
    outputs = (builder.tensor((1,)), builder.tensor(builder.tensors[given].shape, "int32"))
    return builder.network(name, (given,), outputs, ("UniqueOptions", {"idxOutType": 2}))


def _convolution_3d(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of CONV_3D."""
    shape, channels = builder.shape(5, 4), builder.random.randint(1, 4)
    builder.dtype = "float32"
    weights = builder.constant((1, 1, 1, shape[4], channels))
    fields = {"padding": 1, "strideD": 1, "strideH": 1, "strideW": 1}
    output = builder.tensor((*shape[:4], channels))
    return builder.network(
        name, (builder.input(shape), weights), (output,), ("Conv3DOptions", fields)
    )


def _normalisation(builder: Builder, name: str) -> FileNetwork:
    """Return a random network of LOCAL_RESPONSE_NORMALIZATION."""
    builder.dtype = "float32"
    source = builder.input(builder.shape(4))
    fields = {"radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.5}
    options = ("LocalResponseNormalizationOptions", fields)
    return builder.network(name, (source,), (builder.like(source),), options)


#: Functions by operator.
RARER_OPERATORS: dict[str, _Draw] = {
    **dict.fromkeys(("COS", "SQRT", "ZEROS_LIKE", "GELU", "SIGN", "LOGICAL_NOT"), _unary),
    **dict.fromkeys(("RELU_N1_TO_1", "RELU_0_TO_1"), _unary),
    **dict.fromkeys(("DIV", "FLOOR_MOD", "POW", "ATAN2", "BITWISE_XOR", "RIGHT_SHIFT"), _binary),
    **dict.fromkeys(("GREATER_EQUAL", "LESS_EQUAL", "NOT_EQUAL"), _binary),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR"), _binary),
    "CAST": _cast,
    "ADD_N": _sum_of_many,
    **dict.fromkeys(("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"), _space_to_batch),
    "BROADCAST_TO": _broadcast,
    "DYNAMIC_UPDATE_SLICE": _update_slice,
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "FILL": _fill,
    "GATHER_ND": _gather_nd,
    "SCATTER_ND": _scatter,
    "L2_POOL_2D": _l2_pool,
    **dict.fromkeys(("REDUCE_ALL", "REDUCE_ANY", "REDUCE_PROD"), _reduction),
    "REVERSE_V2": _reverse,
    **dict.fromkeys(("SELECT", "SELECT_V2"), _select),
    **dict.fromkeys(("SHAPE", "RANK"), _shape_or_rank),
    "SVDF": _svdf,
    **dict.fromkeys(("RANGE", "ONE_HOT"), _range_or_one_hot),
    "TOPK_V2": _top_k,
    **dict.fromkeys(("WHERE", "UNIQUE"), _of_unknown_size),
    "CONV_3D": _convolution_3d,
    "LOCAL_RESPONSE_NORMALIZATION": _normalisation,
}
