"""Converts aten layers to ONNX: convolutions, products, pools, norms, softmax, attention."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod, sqrt
from typing import Any

import numpy as np

from matloom.frontend.torch.writer import Call, Writer

Handler = Callable[[Writer, Call], Any]


def _per_axis(numbers: int | Sequence[int], axes: int) -> list[int]:
    """Return a list with one number for each axis.

    `numbers` is a number for all axes, or a sequence with one for all or one for each.
    """
    values = [numbers] if isinstance(numbers, int) else list(numbers)
    return values * axes if len(values) == 1 else values


def _layer_inputs(writer: Writer, call: Call) -> list[str]:
    """Return the names of a layer's data, its weights and, if it has one, its bias.

    The bias of a quantised layer becomes int32 in units of the product of its scales, as runtimes
    expect. The rounding error is at most half a unit unless the bias exceeds the range of int32.
    """
    data, weight, bias = call["input"].name, call["weight"].name, call.get("bias")
    if bias is None:
        return [data, weight]
    if bias.data is None or not {data, weight} <= writer.scales.keys():
        return [data, weight, bias.name]
    unit = (writer.scales[data] * writer.scales[weight]).astype(np.float32)
    limits = np.iinfo(np.int32)
    integers = np.clip(np.rint(bias.data / unit.astype(np.float64)), limits.min, limits.max)
    names = [writer.constant(integers, "int32"), writer.constant(unit)]
    return [data, weight, writer.add("DequantizeLinear", *names, axis=0 if unit.ndim else None)]


def _write_convolution(writer: Writer, call: Call) -> str:
    """Write a convolution, transposed or not."""
    data, weight = call["input"], call["weight"]
    axes, padding = weight.rank - 2, call.get("padding", 0)
    if data.rank != weight.rank:
        raise call.refuse("an input without a batch")
    if call.get("transposed", False):
        return _write_transposed_convolution(writer, call)
    pads, automatic = None, None
    if padding == "same":
        automatic = "SAME_UPPER"
    elif padding != "valid":
        pads = _per_axis(padding, axes) * 2
    return writer.add(
        "Conv",
        *_layer_inputs(writer, call),
        strides=_per_axis(call["stride"], axes),
        dilations=_per_axis(call["dilation"], axes),
        group=call["groups"],
        pads=pads,
        auto_pad=automatic,
    )


def _write_transposed_convolution(writer: Writer, call: Call) -> str:
    """Write a transposed convolution as ConvTranspose."""
    weight = call["weight"]
    axes = weight.rank - 2
    return writer.add(
        "ConvTranspose",
        *_layer_inputs(writer, call),
        strides=_per_axis(call["stride"], axes),
        dilations=_per_axis(call["dilation"], axes),
        group=call["groups"],
        pads=_per_axis(call["padding"], axes) * 2,
        output_padding=_per_axis(call["output_padding"], axes),
    )


def _write_linear(writer: Writer, call: Call) -> str:
    """Write a dense layer: a Gemm of two axes, or else a MatMul and an Add."""
    data, weight, bias = call["input"], call["weight"], call.get("bias")
    if data.rank == 2:
        return writer.add("Gemm", *_layer_inputs(writer, call), transB=1)
    transposed = writer.add("Transpose", weight.name, perm=[1, 0])
    if weight.data is not None:
        transposed = writer.constant(weight.data.T)
    product = writer.add("MatMul", data.name, transposed)
    return product if bias is None else writer.add("Add", product, bias.name)


def _product_writer(first: str, second: str) -> Handler:
    """Return a handler of MatMul; `first` and `second` name the arguments of its operands."""
    return lambda writer, call: writer.add("MatMul", call[first].name, call[second].name)


def _write_addmm(writer: Writer, call: Call) -> str:
    """Write a matrix product and a sum as Gemm, with their factors."""
    return writer.add(
        "Gemm",
        call["mat1"].name,
        call["mat2"].name,
        call["self"].name,
        alpha=float(call.get("alpha", 1)),
        beta=float(call.get("beta", 1)),
    )


def _write_batch_norm(writer: Writer, call: Call) -> Any:
    """Write BatchNormalization for inference; return its name, and None for statistics."""
    if call.get("training", False):
        raise call.refuse("training")
    data = call["input"]
    channels = data.shape[1]
    mean, variance = call["running_mean"], call["running_var"]
    scale, bias = call.get("weight"), call.get("bias")
    names = [
        scale.name if scale is not None else writer.constant(np.ones(channels), data.dtype),
        bias.name if bias is not None else writer.constant(np.zeros(channels), data.dtype),
    ]
    normalised = writer.add(
        "BatchNormalization",
        data.name,
        *names,
        mean.name,
        variance.name,
        epsilon=float(call["eps"]),
    )
    return normalised if len(call.outputs) == 1 else [normalised, *[None] * (len(call.outputs) - 1)]


def _write_layer_norm(writer: Writer, call: Call) -> Any:
    """Write LayerNormalization; return its output's name, and None for statistics."""
    data, shape = call["input"], list(call["normalized_shape"])
    weight = call.get("weight")
    scale = weight.name if weight is not None else writer.constant(np.ones(shape), data.dtype)
    bias = [] if call.get("bias") is None else [call["bias"].name]
    normalised = writer.add(
        "LayerNormalization",
        data.name,
        scale,
        *bias,
        axis=-len(shape),
        epsilon=float(call["eps"]),
    )
    return normalised if len(call.outputs) == 1 else [normalised, *[None] * (len(call.outputs) - 1)]


def _write_group_norm(writer: Writer, call: Call) -> Any:
    """Write a normalisation of channel groups, as InstanceNormalization of reshaped data."""
    data = call["input"]
    groups = int(call.get("num_groups", call.get("group")))
    eps = float(call["eps"])
    one, zero = (writer.constant(fill(groups), data.dtype) for fill in (np.ones, np.zeros))
    batch, channels = data.shape[:2]
    grouped = writer.integers([batch, groups, prod(data.shape[1:]) // groups])
    reshaped = writer.add("Reshape", data.name, grouped)
    reshaped = writer.add("InstanceNormalization", reshaped, one, zero, epsilon=eps)
    reshaped = writer.add("Reshape", reshaped, writer.integers(data.shape))
    across = writer.integers([channels, *[1] * (data.rank - 2)])
    for op, name in (("Mul", "weight"), ("Add", "bias")):
        if call.get(name) is not None:
            reshaped = writer.add(op, reshaped, writer.add("Reshape", call[name].name, across))
    return reshaped if len(call.outputs) == 1 else [reshaped, *[None] * (len(call.outputs) - 1)]


def _write_instance_norm(writer: Writer, call: Call) -> Any:
    """Write a normalisation of each channel, as one of groups of one channel."""
    if not call["use_input_stats"]:
        raise call.refuse("kept statistics")
    arguments = {**call.arguments, "num_groups": call["input"].shape[1]}
    return _write_group_norm(writer, replace(call, arguments=arguments))


def _pool_writer(op: str, axes: int) -> Handler:
    """Return a handler of MaxPool or AveragePool over a number of spatial axes."""

    def handler(writer: Writer, call: Call) -> Any:
        """Write ONNX operator `op` for a pool in PyTorch; return its output, None for indices."""
        data, kernel = call["self"], _per_axis(call["kernel_size"], axes)
        if data.rank != axes + 2:
            raise call.refuse("an input without a batch")
        if call.get("divisor_override") is not None:
            raise call.refuse("divisor_override")
        attributes: dict[str, Any] = {"dilations": _per_axis(call.get("dilation", 1), axes)}
        if op == "AveragePool":
            attributes = {"count_include_pad": int(call.get("count_include_pad", True))}
        pooled = writer.add(
            op,
            data.name,
            kernel_shape=kernel,
            strides=_per_axis(call.get("stride") or kernel, axes),
            pads=_per_axis(call.get("padding", 0), axes) * 2,
            ceil_mode=int(call.get("ceil_mode", False)),
            **attributes,
        )
        return pooled if len(call.outputs) == 1 else [pooled, None]

    return handler


def _adaptive_pool_writer(op: str) -> Handler:
    """Return a handler of pools to a requested size, which must divide the input's."""

    def handler(writer: Writer, call: Call) -> Any:
        """Write ONNX operator `op` for a pool in PyTorch; return its output, None for indices."""
        data = call["self"]
        image = data.shape[2:]
        wanted = _per_axis(call["output_size"], len(image))
        if any(size % part for size, part in zip(image, wanted, strict=True)):
            raise call.refuse(f"sizes {image} to {tuple(wanted)}")
        if all(part == 1 for part in wanted):
            pooled = writer.add(f"Global{op}", data.name)
        else:
            kernel = [size // part for size, part in zip(image, wanted, strict=True)]
            pooled = writer.add(op, data.name, kernel_shape=kernel, strides=kernel)
        return pooled if len(call.outputs) == 1 else [pooled, None]

    return handler


def _softmax_writer(op: str) -> Handler:
    """Return a handler of Softmax or LogSoftmax."""

    def handler(writer: Writer, call: Call) -> str:
        """Write ONNX operator `op` along the call's axis; return its output's name."""
        return writer.add(op, writer.cast(call["self"], call.dtype), axis=call["dim"])

    return handler


def _write_attention(writer: Writer, call: Call) -> str:
    """Add softmax(query keys^T * scale + mask) values; return the name of the result."""
    query, key, value = call["query"], call["key"], call["value"]
    if call.get("dropout_p", 0) or call.get("enable_gqa", False):
        raise call.refuse("dropout or grouped queries")
    scale = float(call.get("scale", 1 / sqrt(query.shape[-1])))
    order = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    transposed = writer.add("Transpose", key.name, perm=order)
    scores = writer.add("MatMul", query.name, transposed)
    scores = writer.add("Mul", scores, writer.constant(scale, query.dtype))
    mask = call.get("attn_mask")
    if call.get("is_causal", False):
        seen = np.tri(query.shape[-2], key.shape[-2], dtype=bool)
        added = writer.constant(np.where(seen, 0.0, -np.inf), query.dtype)
        scores = writer.add("Add", scores, added)
    elif mask is not None and mask.dtype == "bool":
        none = writer.constant(-np.inf, query.dtype)
        scores = writer.add("Where", mask.name, scores, none)
    elif mask is not None:
        scores = writer.add("Add", scores, mask.name)
    return writer.add("MatMul", writer.add("Softmax", scores, axis=-1), value.name)


LAYERS: dict[str, Handler] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), _write_convolution),
    **dict.fromkeys(
        ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _write_transposed_convolution
    ),
    "_log_softmax": _softmax_writer("LogSoftmax"),
    "_native_batch_norm_legit_no_training": _write_batch_norm,
    "_softmax_writer": _softmax_writer("Softmax"),
    "adaptive_avg_pool1d": _adaptive_pool_writer("AveragePool"),
    "adaptive_avg_pool2d": _adaptive_pool_writer("AveragePool"),
    "_adaptive_avg_pool2d": _adaptive_pool_writer("AveragePool"),
    "adaptive_max_pool2d": _adaptive_pool_writer("MaxPool"),
    "addmm": _write_addmm,
    "avg_pool1d": _pool_writer("AveragePool", 1),
    "avg_pool2d": _pool_writer("AveragePool", 2),
    "batch_norm": _write_batch_norm,
    "bmm": _product_writer("self", "mat2"),
    "group_norm": _write_group_norm,
    "instance_norm": _write_instance_norm,
    "layer_norm": _write_layer_norm,
    "linear": _write_linear,
    "log_softmax": _softmax_writer("LogSoftmax"),
    "matmul": _product_writer("self", "other"),
    "max_pool1d": _pool_writer("MaxPool", 1),
    "max_pool2d": _pool_writer("MaxPool", 2),
    "max_pool2d_with_indices": _pool_writer("MaxPool", 2),
    "mm": _product_writer("self", "mat2"),
    "native_group_norm": _write_group_norm,
    "native_layer_norm": _write_layer_norm,
    "scaled_dot_product_attention": _write_attention,
    "softmax": _softmax_writer("Softmax"),
}
