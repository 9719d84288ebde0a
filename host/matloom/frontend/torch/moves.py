"""Converts aten operators that move, select, join or reduce elements to ONNX."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from matloom.frontend.torch.writer import Call, Writer

Handler = Callable[[Writer, Call], Any]

#: End of a slice that reaches to the end of an axis.
_TO_THE_END = 2**63 - 1


def _write_reshape(writer: Writer, call: Call) -> str:
    """Add a Reshape to the shape of the call's output; return the name of the result."""
    return writer.add("Reshape", call["self"].name, writer.integers(call.shape))


def _permute_writer(order: Callable[[Call], Sequence[int]]) -> Handler:
    """Return a handler of Transpose; `order` returns a call's permutation of axes."""
    return lambda writer, call: writer.add("Transpose", call["self"].name, perm=list(order(call)))


def _swapped_axes(call: Call) -> list[int]:
    """Return the permutation that exchanges the two axes of a call."""
    data = call["self"]
    first, second = data.axis(call["dim0"]), data.axis(call["dim1"])
    order = list(range(data.rank))
    order[first], order[second] = second, first
    return order


def _write_expand(writer: Writer, call: Call) -> str:
    """Write a broadcast to the result's shape as Expand."""
    return writer.add("Expand", call["self"].name, writer.integers(call.shape))


def _write_repeat(writer: Writer, call: Call) -> str:
    """Write copies along each axis as Tile."""
    data, times = call["self"], list(call["repeats"])
    shape = writer.integers([*[1] * (len(times) - data.rank), *data.shape])
    return writer.add("Tile", writer.add("Reshape", data.name, shape), writer.integers(times))


def _write_concatenate(writer: Writer, call: Call) -> str:
    """Write Concat, after conversions to the result's type."""
    # Old programs prepend an empty tensor of one axis.
    parts = [each for each in call["tensors"] if each.shape != (0,)]
    names = [writer.cast(each, call.dtype) for each in parts]
    return writer.add("Concat", *names, axis=call.get("dim", 0))


def _write_stack(writer: Writer, call: Call) -> str:
    """Write a Concat along an axis that each input gets first."""
    axis = call.get("dim", 0) % len(call.shape)
    places = writer.integers([axis])
    names = [writer.add("Unsqueeze", each.name, places) for each in call["tensors"]]
    return writer.add("Concat", *names, axis=axis)


def _write_split(writer: Writer, call: Call) -> list[str]:
    """Write Split, with the sizes of the results."""
    axis = call["self"].axis(call.get("dim", 0))
    sizes = [made[0][axis] for made in call.outputs if made is not None]
    names = [call["self"].name, writer.integers(sizes)]
    return writer.add_multiple("Split", names, len(sizes), axis=axis)


def _write_unbind(writer: Writer, call: Call) -> list[str]:
    """Write a Gather for each element of an axis."""
    data = call["self"]
    axis = data.axis(call.get("dim", 0))
    return [
        writer.add("Gather", data.name, writer.constant(at, "int64"), axis=axis)
        for at in range(data.shape[axis])
    ]


def _write_slice(writer: Writer, call: Call) -> str:
    """Write a slice along one axis."""
    begin, end = call.get("start", 0), call.get("end", _TO_THE_END)
    places = [writer.integers([each]) for each in (begin, end, call["dim"], call.get("step", 1))]
    return writer.add("Slice", call["self"].name, *places)


def _write_select(writer: Writer, call: Call) -> str:
    """Write a Gather of one element of an axis, which is dropped."""
    index = writer.constant(call["index"], "int64")
    return writer.add("Gather", call["self"].name, index, axis=call["dim"])


def _gather_writer(data: str, index: str) -> Handler:
    """Return a handler of Gather; `data` and `index` name the arguments of its operands."""
    return lambda writer, call: writer.add(
        "Gather", call[data].name, call[index].name, axis=call.get("dim", 0)
    )


def _write_index(writer: Writer, call: Call) -> str:
    """Add x[:, indices], with one tensor of indices on any axis; return the result's name."""
    places = [at for at, index in enumerate(call["indices"]) if index is not None]
    if len(places) != 1 or call["indices"][places[0]].dtype == "bool":
        raise call.refuse("several tensors of indices, or a mask")
    (axis,) = places
    return writer.add("Gather", call["self"].name, call["indices"][axis].name, axis=axis)


def _write_flip(writer: Writer, call: Call) -> str:
    """Write a Slice with steps of -1 along each flipped axis."""
    axes = [call["self"].axis(each) for each in call["dims"]]
    places = [writer.integers([each] * len(axes)) for each in (-1, -_TO_THE_END)]
    return writer.add(
        "Slice",
        call["self"].name,
        *places,
        writer.integers(axes),
        writer.integers([-1] * len(axes)),
    )


def _write_pad(writer: Writer, call: Call) -> str:
    """Write Pad: with a value, by reflection, or with copies of the edges."""
    data, pad = call["self"], list(call.get("pad", call.get("padding")))
    # Pairs (before, after), starting with the last axis.
    pairs = list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (data.rank - len(pairs)) + pairs
    name = call.operator.removeprefix("aten.")
    mode = call.get("mode", "constant")
    if name.startswith("reflection"):
        mode = "reflect"
    if name.startswith("replication") or mode == "replicate":
        mode = "edge"
    places = writer.integers([before for before, _after in pairs] + [after for _, after in pairs])
    value = writer.constant(call.get("value", 0), data.dtype)
    return writer.add("Pad", data.name, places, *([value] if mode == "constant" else []), mode=mode)


def _resize_writer(mode: str) -> Handler:
    """Return a handler of Resize by an ONNX mode, such as "linear"."""

    def handler(writer: Writer, call: Call) -> str:
        """Write a Resize to the size of the call's result; return its output's name."""
        data = call.get("self", call.get("input"))
        transformation = "align_corners" if call.get("align_corners", False) else "half_pixel"
        sizes = writer.integers(call.shape)
        if mode == "nearest":
            attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        else:
            attributes = {"coordinate_transformation_mode": transformation}
        scales = [call.get("scales_h"), call.get("scales_w"), *(call.get("scale_factors") or [])]
        for scale in filter(None, scales):
            # If the size was rounded, the scale reads other positions.
            if any(float(scale * size) != int(scale * size) for size in data.shape[2:]):
                raise call.refuse(f"a scale of {scale} for {data.shape[2:]}")
        return writer.add("Resize", data.name, "", "", sizes, mode=mode, **attributes)

    return handler


def _reduction_writer(op: str) -> Handler:
    """Return a handler of a reduction such as ReduceMean; without `dim` over all axes."""

    def handler(writer: Writer, call: Call) -> str:
        """Write ONNX operator `op` over the call's axes; return its output's name."""
        data = call["self"]
        dims = call.get("dim")
        dims = list(range(data.rank)) if dims is None or dims == [] else dims
        axes = [data.axis(each) for each in ([dims] if isinstance(dims, int) else dims)]
        name = writer.cast(data, call.dtype)
        return writer.add(op, name, writer.integers(axes), keepdims=int(call.get("keepdim", False)))

    return handler


def _extreme_writer(op: str) -> Handler:
    """Return the handler for the extremes of two tensors, of all elements, or along an axis.

    Along an axis, the handler returns the names of the extremes and of their indices.
    """

    def handler(writer: Writer, call: Call) -> Any:
        """Write an extreme of two tensors, of all elements, or of an axis; return its names."""
        if call.get("other") is not None:
            return writer.add(op, call["self"].name, call["other"].name)
        if call.get("dim") is None:
            return _reduction_writer(f"Reduce{op}")(writer, call)
        return [
            _reduction_writer(f"Reduce{op}")(writer, call),
            _arg_extreme_writer(f"Arg{op}")(writer, call),
        ]

    return handler


def _arg_extreme_writer(op: str) -> Handler:
    """Return a handler of ArgMax or ArgMin; without `dim` of the flattened input."""

    def handler(writer: Writer, call: Call) -> str:
        """Write ONNX operator `op` for a call in PyTorch; return its output's name."""
        data, keepdims = call["self"], int(call.get("keepdim", False))
        if call.get("dim") is None:
            flat = writer.add("Reshape", data.name, writer.integers([-1]))
            return writer.add(op, flat, axis=0, keepdims=0)
        return writer.add(op, data.name, axis=call["dim"], keepdims=keepdims)

    return handler


def _write_variance(writer: Writer, call: Call) -> Any:
    """Write the variance over axes, and the mean if the call returns both."""
    data, dims = call["self"], call.get("dim")
    axes = [data.axis(each) for each in (range(data.rank) if dims is None else dims)]
    count = int(np.prod([data.shape[each] for each in axes]))
    correction = call.get("correction", 1)
    places = writer.integers(axes)
    mean = writer.add("ReduceMean", data.name, places, keepdims=1)
    away = writer.add("Sub", data.name, mean)
    keepdims = int(call.get("keepdim", False))
    total = writer.add("ReduceSum", writer.add("Mul", away, away), places, keepdims=keepdims)
    found = writer.add("Div", total, writer.constant(count - correction, data.dtype))
    if len(call.outputs) == 1:
        return found
    return [found, writer.add("ReduceMean", data.name, places, keepdims=keepdims)]


def _write_pixel_shuffle(writer: Writer, call: Call) -> str:
    """Write DepthToSpace in PyTorch's order of channels."""
    factor = call["upscale_factor"]
    return writer.add("DepthToSpace", call["self"].name, blocksize=factor, mode="CRD")


def _fill_writer(value: Callable[[Call], Any]) -> Handler:
    """Return a handler of a constant that repeats the number `value` returns for a call."""
    return lambda writer, call: writer.constant(np.full(call.shape, value(call), call.dtype))


def _write_arange(writer: Writer, call: Call) -> str:
    """Write a range of numbers as a constant."""
    begin, step = call.get("start", 0), call.get("step", 1)
    return writer.constant(np.arange(begin, call["end"], step), call.dtype)


_SHAPED: tuple[str, ...] = (
    "_reshape_alias",
    "_unsafe_view",
    "flatten",
    "reshape",
    "squeeze",
    "unflatten",
)
_SHAPED += ("unsqueeze", "view", "view_copy")

MOVES: dict[str, Handler] = {
    **dict.fromkeys(_SHAPED, _write_reshape),
    **dict.fromkeys(("chunk", "split", "split_with_sizes"), _write_split),
    **dict.fromkeys(("constant_pad_nd", "pad", "reflection_pad1d", "reflection_pad2d"), _write_pad),
    **dict.fromkeys(("replication_pad1d", "replication_pad2d"), _write_pad),
    "amax": _reduction_writer("ReduceMax"),
    "amin": _reduction_writer("ReduceMin"),
    "arange": _write_arange,
    "argmax": _arg_extreme_writer("ArgMax"),
    "argmin": _arg_extreme_writer("ArgMin"),
    "cat": _write_concatenate,
    "embedding": _gather_writer("weight", "indices"),
    "expand": _write_expand,
    "flip": _write_flip,
    "full": _fill_writer(lambda call: call["fill_value"]),
    "full_like": _fill_writer(lambda call: call["fill_value"]),
    "index": _write_index,
    "index_select": _gather_writer("self", "index"),
    "max": _extreme_writer("Max"),
    "mean": _reduction_writer("ReduceMean"),
    "min": _extreme_writer("Min"),
    "ones": _fill_writer(lambda call: 1),
    "ones_like": _fill_writer(lambda call: 1),
    "permute": _permute_writer(lambda call: [call["self"].axis(each) for each in call["dims"]]),
    "pixel_shuffle": _write_pixel_shuffle,
    "repeat": _write_repeat,
    "scalar_tensor": _fill_writer(lambda call: call["s"]),
    "select": _write_select,
    "slice": _write_slice,
    "stack": _write_stack,
    "sum": _reduction_writer("ReduceSum"),
    "t": _permute_writer(lambda call: range(call["self"].rank)[::-1]),
    "transpose": _permute_writer(_swapped_axes),
    "unbind": _write_unbind,
    "upsample_bilinear2d": _resize_writer("linear"),
    "upsample_nearest2d": _resize_writer("nearest"),
    "var": _write_variance,
    "var_mean": _write_variance,
    "zeros": _fill_writer(lambda call: 0),
    "zeros_like": _fill_writer(lambda call: 0),
}
