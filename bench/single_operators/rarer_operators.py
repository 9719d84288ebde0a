"""Draws a plain file of an operator that networks have more rarely, as `operators` does."""

from collections.abc import Callable
from typing import Any

import numpy as np

from single_operators.builder import Builder
from single_operators.model_file import FileNetwork

_Draw = Callable[[Builder, str], FileNetwork]

_LOGICAL = ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT", "REDUCE_ALL", "REDUCE_ANY")


def _table(name: str) -> str:
    """Return the name of an operator's options: BROADCAST_TO has BroadcastToOptions."""
    words = name.removesuffix("_2D").split("_")
    return "".join(word.capitalize() for word in words) + "Options"


def _type(b: Builder, *others: str) -> None:
    """Draw one of some types now and then, instead of the network's."""
    if b.chance(0.4):
        b.dtype = b.random.choice(others)


def _unary(b: Builder, name: str) -> FileNetwork:
    """Draw an operator from one tensor to another of the same shape."""
    if name in _LOGICAL:
        b.dtype = "bool"
    else:
        _type(b, "float32")
    given = b.input(b.shape())
    output = b.like(given) if b.chance(0.5) else b.tensor(b.tensors[given].shape)
    options: tuple[str, dict[str, Any]] | None = (_table(name), {})
    if name in ("SQRT", "RELU_N1_TO_1", "RELU_0_TO_1"):
        options = None
    if name == "GELU":
        options = ("GeluOptions", {"approximate": b.chance(0.5)})
    return b.network(name, (given,), (output,), options)


def _binary(b: Builder, name: str) -> FileNetwork:
    """Draw an operator of two tensors, the second one broadcast or constant now and then."""
    if name in ("RIGHT_SHIFT", "BITWISE_XOR"):
        b.dtype = b.random.choice(("int8", "uint8", "int16", "int32"))
    elif name in _LOGICAL:
        b.dtype = "bool"
    elif name == "ATAN2":
        b.dtype = "float32"
    else:
        _type(b, "int32", "int64", "float32")
    shape = b.shape()
    # ATAN2 of LiteRT reads beyond a shorter input.
    shorter = 0 if name == "ATAN2" else 0.2
    other = tuple(1 if b.chance(shorter) else length for length in shape)
    kept = {} if name in ("DIV", "POW", "FLOOR_MOD") else {"scales": (), "zeros": ()}
    if b.dtype in ("int8", "uint8", "int16") and name not in ("RIGHT_SHIFT", "BITWISE_XOR"):
        kept = {}
    first = b.input(shape, **kept)
    second = (b.constant if b.chance(0.3) else b.input)(other, **kept)
    compares = name in ("GREATER_EQUAL", "LESS_EQUAL", "NOT_EQUAL") or name in _LOGICAL
    output = b.tensor(shape, "bool" if compares else None, **kept)
    fields = {"fusedActivationFunction": b.random.choice((0, 0, 1, 3))} if name == "DIV" else {}
    options = None if name == "ATAN2" else (_table(name), fields)
    return b.network(name, (first, second), (output,), options)


def _cast(b: Builder, name: str) -> FileNetwork:
    types = ("int8", "uint8", "int16", "int32", "int64", "float32", "bool")
    source, target = b.random.choice(types), b.random.choice(types)
    given = b.input(b.shape(), source, scales=())
    output = b.tensor(b.tensors[given].shape, target, scales=())
    return b.network(name, (given,), (output,), ("CastOptions", {}))


def _sum_of_many(b: Builder, name: str) -> FileNetwork:
    shape = b.shape()
    given = [b.input(shape) for _ in range(b.random.randint(1, 4))]
    return b.network(name, given, (b.tensor(shape),), ("AddNOptions", {}))


def _batches(b: Builder, name: str) -> FileNetwork:
    rows, columns, depth = b.shape(3, 3)
    blocks = [b.random.randint(1, 2), b.random.randint(1, 3)]
    many, one = b.random.randint(1, 2), int(np.prod(blocks))
    edges = [[0, b.random.randint(0, 1)] for _ in blocks]
    whole = [
        size * block + sum(edge) * block
        for size, block, edge in zip((rows, columns), blocks, edges, strict=True)
    ]
    edges = [[edge[0] * block, edge[1] * block] for block, edge in zip(blocks, edges, strict=True)]
    inner = [size - sum(edge) for size, edge in zip(whole, edges, strict=True)]
    small = (many * one, *(size // block for size, block in zip(whole, blocks, strict=True)), depth)
    large = (many, *inner, depth)
    source, target = (large, small) if name == "SPACE_TO_BATCH_ND" else (small, large)
    given = b.input(source)
    inputs = (given, b.numbers(blocks), b.numbers(edges))
    kind = "SpaceToBatchND" if name == "SPACE_TO_BATCH_ND" else "BatchToSpaceND"
    return b.network(name, inputs, (b.like(given, target),), (f"{kind}Options", {}))


def _broadcast(b: Builder, name: str) -> FileNetwork:
    _type(b, "int32", "bool", "float32")
    shape = b.shape()
    given = b.input(tuple(1 if b.chance(0.4) else length for length in shape))
    output = b.like(given, shape)
    return b.network(name, (given, b.numbers(shape)), (output,), ("BroadcastToOptions", {}))


def _update(b: Builder, name: str) -> FileNetwork:
    shape = b.shape()
    part = [b.random.randint(1, length) for length in shape]
    begins = [b.random.randint(0, length - size) for length, size in zip(shape, part, strict=True)]
    given = b.input(shape)
    kept = {"scales": b.tensors[given].scales, "zeros": b.tensors[given].zeros}
    inputs = (given, b.input(part, **kept), b.numbers(begins))
    return b.network(name, inputs, (b.like(given),), ("DynamicUpdateSliceOptions", {}))


def _look_up(b: Builder, name: str) -> FileNetwork:
    shape = b.shape(b.random.choice((2, 2, 3)))
    values = b.constant(shape)
    rows = b.random.randint(1, 5)
    places = b.numbers([b.random.randrange(shape[0]) for _ in range(rows)])
    made = (rows, *shape[1:])
    output = b.like(values, made) if b.chance(0.7) else b.tensor(made, "float32", scales=())
    return b.network(name, (places, values), (output,))


def _fill(b: Builder, name: str) -> FileNetwork:
    shape = b.shape()
    given = b.input(())
    return b.network(name, (b.numbers(shape), given), (b.like(given, shape),), ("FillOptions", {}))


def _gather_nd(b: Builder, name: str) -> FileNetwork:
    shape = b.shape(b.random.choice((2, 3, 4)))
    depth, count = b.random.randint(1, len(shape)), b.random.randint(1, 4)
    places = [[b.random.randrange(length) for length in shape[:depth]] for _ in range(count)]
    given = b.input(shape)
    output = b.like(given, (count, *shape[depth:]))
    dtype = b.random.choice(("int32", "int64"))
    return b.network(name, (given, b.numbers(places, dtype)), (output,), ("GatherNdOptions", {}))


def _scatter(b: Builder, name: str) -> FileNetwork:
    shape, count = b.shape(2), b.random.randint(1, 3)
    places = [[b.random.randrange(shape[0])] for _ in range(count)]
    given = b.input((count, shape[1]))
    inputs = (b.numbers(places), given, b.numbers(shape))
    return b.network(name, inputs, (b.like(given, shape),), ("ScatterNdOptions", {}))


def _pool(b: Builder, name: str) -> FileNetwork:
    _type(b, "float32")
    shape = b.shape(4, 7)
    window = [b.random.randint(1, min(3, size)) for size in shape[1:3]]
    fields = {
        "filterHeight": window[0],
        "filterWidth": window[1],
        "strideH": 1,
        "strideW": 1,
        "padding": 1,
    }
    sizes = [size - reach + 1 for size, reach in zip(shape[1:3], window, strict=True)]
    output = b.tensor((shape[0], *sizes, shape[3]))
    return b.network(name, (b.input(shape),), (output,), ("Pool2DOptions", fields))


def _reduction(b: Builder, name: str) -> FileNetwork:
    if name in _LOGICAL:
        b.dtype = "bool"
    shape, keep = b.shape(b.random.choice((2, 3, 4))), b.chance(0.5)
    axes = b.random.sample(range(len(shape)), b.random.randint(1, len(shape)))
    made = [1 if at in axes else length for at, length in enumerate(shape)]
    if not keep:
        made = [length for at, length in enumerate(shape) if at not in axes]
    inputs = (b.input(shape), b.numbers(axes))
    options, version = ("ReducerOptions", {"keepDims": keep}), 1 if name in _LOGICAL else 2
    return b.network(name, inputs, (b.tensor(made),), options, version)


def _reverse(b: Builder, name: str) -> FileNetwork:
    given = b.input(b.shape())
    axis = b.numbers([b.random.randrange(len(b.tensors[given].shape))])
    return b.network(name, (given, axis), (b.like(given),), ("ReverseV2Options", {}))


def _choice(b: Builder, name: str) -> FileNetwork:
    shape = b.shape()
    asked = shape
    if b.chance(0.4):
        asked = tuple(1 if b.chance(0.3) else length for length in shape)
        if name == "SELECT":
            asked = shape[:1]
    first = b.input(shape)
    kept = {"scales": b.tensors[first].scales, "zeros": b.tensors[first].zeros}
    second = (b.constant if b.chance(0.3) else b.input)(shape, **kept)
    output = b.like(first) if b.chance(0.8) else b.tensor(shape)
    inputs = (b.input(asked, "bool"), first, second)
    return b.network(name, inputs, (output,), (_table(name), {}))


def _shape_or_rank(b: Builder, name: str) -> FileNetwork:
    """Draw SHAPE or RANK, whose result depends on no values."""
    given = b.input(b.shape())
    made = (len(b.tensors[given].shape),) if name == "SHAPE" else ()
    dtype = b.random.choice(("int32", "int64")) if name == "SHAPE" else "int32"
    fields = {"outType": 2 if dtype == "int32" else 4} if name == "SHAPE" else {}
    return b.network(name, (given,), (b.tensor(made, dtype),), (_table(name), fields))


def _filters(b: Builder, name: str) -> FileNetwork:
    """Draw SVDF: a memory of the last features, in int8 or floats."""
    b.dtype = b.random.choice(("int8", "float32"))
    batch, size, units, rank, memory = (b.random.randint(1, 4) for _ in range(5))
    number = units * rank
    state = "int16" if b.dtype == "int8" and b.chance(0.6) else b.dtype
    given = b.input((batch, size))
    features = b.constant((number, size))
    times = b.constant((number, memory), state)
    scale = 1.0
    if b.dtype == "int8":
        scale = min(max(b.tensors[times].scales[0] * b.scale(), 1e-37), 1e37)
    quantised = {"scales": (scale,), "zeros": (0,)} if b.dtype == "int8" else {}
    bias = []
    if b.chance(0.6):
        dtype = "int32" if b.dtype == "int8" else "float32"
        bias = [b.constant((units,), dtype, **quantised)]
    kept = b.tensor((batch, memory * number), state, variable=True)
    output = b.tensor((batch, units))
    fields = {"rank": rank, "fusedActivationFunction": 1 if b.dtype == "int8" else 0}
    inputs = (given, features, times, *(bias or [-1]), kept)
    return b.network(name, inputs, (output,), ("SVDFOptions", fields), 3)


def _numbers(b: Builder, name: str) -> FileNetwork:
    """Draw operators that make integers from some: RANGE and ONE_HOT."""
    if name == "RANGE":
        first, length, step = (
            b.random.randint(-5, 5),
            b.random.randint(1, 6),
            b.random.choice((1, 2, -1)),
        )
        inputs = [b.numbers(value) for value in (first, first + length * step, step)]
        return b.network(name, inputs, (b.tensor((length,), "int32"),), ("RangeOptions", {}))
    count, depth = b.random.randint(1, 5), b.random.randint(1, 5)
    places = b.input((count,), "int32")
    on, off = b.constant(()), b.constant(())
    inputs = [places, b.numbers(depth), on, off]
    output = b.like(on, (count, depth))
    return b.network(name, inputs, (output,), ("OneHotOptions", {"axis": -1}))


def _largest(b: Builder, name: str) -> FileNetwork:
    given = b.input(b.shape())
    shape = b.tensors[given].shape
    count = b.random.randint(1, shape[-1])
    made = (*shape[:-1], count)
    outputs = (b.like(given, made), b.tensor(made, "int32"))
    return b.network(name, (given, b.numbers(count)), outputs, ("TopKV2Options", {}))


def _of_unknown_size(b: Builder, name: str) -> FileNetwork:
    """Draw WHERE or UNIQUE: values decide how many results there are."""
    if name == "WHERE":
        given = b.input(b.shape(), "bool")
        made = (1, len(b.tensors[given].shape))
        return b.network(name, (given,), (b.tensor(made, "int64"),), ("WhereOptions", {}))
    b.dtype = b.random.choice(("int32", "int64", "float32"))
    given = b.input((b.random.randint(1, 6),))
    outputs = (b.tensor((1,)), b.tensor(b.tensors[given].shape, "int32"))
    return b.network(name, (given,), outputs, ("UniqueOptions", {"idxOutType": 2}))


def _volumes(b: Builder, name: str) -> FileNetwork:
    shape, channels = b.shape(5, 4), b.random.randint(1, 4)
    b.dtype = "float32"
    weights = b.constant((1, 1, 1, shape[4], channels))
    fields = {"padding": 1, "strideD": 1, "strideH": 1, "strideW": 1}
    output = b.tensor((*shape[:4], channels))
    return b.network(name, (b.input(shape), weights), (output,), ("Conv3DOptions", fields))


def _normalisation(b: Builder, name: str) -> FileNetwork:
    b.dtype = "float32"
    given = b.input(b.shape(4))
    fields = {"radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.5}
    options = ("LocalResponseNormalizationOptions", fields)
    return b.network(name, (given,), (b.like(given),), options)


#: Functions by operator.
RARER_OPERATORS: dict[str, _Draw] = {
    **dict.fromkeys(("COS", "SQRT", "ZEROS_LIKE", "GELU", "SIGN", "LOGICAL_NOT"), _unary),
    **dict.fromkeys(("RELU_N1_TO_1", "RELU_0_TO_1"), _unary),
    **dict.fromkeys(("DIV", "FLOOR_MOD", "POW", "ATAN2", "BITWISE_XOR", "RIGHT_SHIFT"), _binary),
    **dict.fromkeys(("GREATER_EQUAL", "LESS_EQUAL", "NOT_EQUAL"), _binary),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR"), _binary),
    "CAST": _cast,
    "ADD_N": _sum_of_many,
    **dict.fromkeys(("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"), _batches),
    "BROADCAST_TO": _broadcast,
    "DYNAMIC_UPDATE_SLICE": _update,
    "EMBEDDING_LOOKUP": _look_up,
    "FILL": _fill,
    "GATHER_ND": _gather_nd,
    "SCATTER_ND": _scatter,
    "L2_POOL_2D": _pool,
    **dict.fromkeys(("REDUCE_ALL", "REDUCE_ANY", "REDUCE_PROD"), _reduction),
    "REVERSE_V2": _reverse,
    **dict.fromkeys(("SELECT", "SELECT_V2"), _choice),
    **dict.fromkeys(("SHAPE", "RANK"), _shape_or_rank),
    "SVDF": _filters,
    **dict.fromkeys(("RANGE", "ONE_HOT"), _numbers),
    "TOPK_V2": _largest,
    **dict.fromkeys(("WHERE", "UNIQUE"), _of_unknown_size),
    "CONV_3D": _volumes,
    "LOCAL_RESPONSE_NORMALIZATION": _normalisation,
}
