"""Table of the rules of each operator on types, shapes and scales."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from matloom.arch.modes import STORAGE
from matloom.ir.attributes import (
    Arithmetic,
    Attributes,
    Axis,
    BatchMatmul,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Function,
    LeakyRelu,
    Lookup,
    LstmCell,
    MatrixProduct,
    Pad,
    Pool2D,
    Reduce,
    Reference,
    Resize,
    Slice,
    Softmax,
    Split,
    Transpose,
    TransposeConv,
)
from matloom.ir.graph import Op
from matloom.ir.moves import (
    arg_extreme_shape,
    concatenation_shape,
    gathered_shape,
    pack_shape,
    pad_shape,
    reduced_shape,
    resized_shape,
    slice_shape,
    split_shapes,
    transposed_convolution_shape,
    transposed_shape,
    unpacked_shapes,
)
from matloom.ir.shapes import (
    Shape,
    ShapeRule,
    batch_matmul_shape,
    broadcast_shape,
    convolution_shape,
    dense_shape,
    depthwise_shape,
    lstm_shapes,
    matrix_product_shape,
    pooling_shape,
    product_shape,
    row_shape,
    same_shape,
)


@dataclass(frozen=True, kw_only=True)
class Operator:
    """The rules of one operator.

    Members
    -------
    types, attributes:
        Combinations of input and output types, such as ``"int8 int8 int32 -> int8"``, and the class
        of the attributes.
    shape:
        Function that returns the output shape for input shapes and attributes; None if only the
        number of elements must agree.
    output_shapes:
        For several outputs, a function that returns all output shapes, used instead of `shape`.
    weight_axis:
        Axis of the weights (input 1) along which each channel may have its own scale; None for
        operators without weights.
    variadic:
        Whether there may be any number of inputs or outputs of one type, of which `types` lists
        one.
    scaled:
        Whether integers of 8 and 16 bits need a scale and a zero point.
    """

    attributes: type[Attributes] = Attributes
    types: frozenset[str]
    shape: ShapeRule | None = same_shape
    output_shapes: Callable[[Sequence[Shape], Attributes], list[Shape]] | None = None
    weight_axis: int | None = None
    variadic: bool = False
    scaled: bool = True


def _unary(*types: str) -> frozenset[str]:
    """Return type rules ``t -> t`` for operators on one tensor."""
    return frozenset(f"{name} -> {name}" for name in types)


def _binary(*types: str) -> frozenset[str]:
    """Return type rules ``t t -> t`` for operators on two tensors."""
    return frozenset(f"{name} {name} -> {name}" for name in types)


#: Types of layers with multipliers and shifts as an input (`scales.channel_multipliers`).
_RESCALED = frozenset({"int8 int8 int32 int32 -> int8", "int8 uint8 int32 int32 -> int8"})
_WEIGHTED = frozenset(
    {
        *("int8 int8 int32 -> int8", "int8 int8 -> int8"),
        *("float32 float32 float32 -> float32", "float32 float32 -> float32"),
        *("uint8 uint8 int32 -> uint8", "uint8 uint8 -> uint8"),
    }
)
#: Types of layers of uint8 whose data is stored as int8 (`passes.signed_bytes`).
_SIGNED_DATA = frozenset({"int8 uint8 int32 -> int8", "int8 uint8 -> int8"})
_ROUNDED = frozenset(f"float32 -> {name}" for name in STORAGE.values())
#: Types of layers that read data stored in a narrow floating-point format, with weights in float32.
#: The host has no kernels for these.
LOWERED = frozenset(
    f"{name} float32{bias} -> {made}"
    for name in STORAGE.values()
    for bias in (" float32", "")
    for made in ("float32", name)
)
#: Types of MATRIX_PRODUCT: bit patterns of floating-point numbers, a float32 bias, and optionally a
#: residual in the result's type.
_PATTERNS = frozenset(
    f"{name} {name} float32{residual} -> {made}"
    for name in ("uint8", "uint16")
    for made in ("uint8", "uint16", "uint32")
    for residual in (f" {made}", "")
)
#: Types of layers with 16-bit data, and 64 bits for bias and sums.
_WORDS = frozenset({"int16 int8 int64 -> int16", "int16 int8 -> int16"})
#: Types of layers with 16-bit data, and 32 bits for bias and sums.
_SHORT_SUMS = frozenset({"int16 int8 int32 -> int16"})
#: Types of layers with 16-bit data and 32-bit sums, which are requantised to 8 bits.
_NARROWED = frozenset({"int16 int8 int32 -> int8"})
#: Types of layers whose output is the 32-bit sums.
_SUMS = frozenset({"int8 int8 int32 -> int32", "int16 int8 int32 -> int32"})
#: Types of layers with 8-bit data and a 16-bit output, such as the gates of an LSTM.
_WIDENED = frozenset({"int8 int8 int32 -> int16"})
#: Types of layers with quantised weights and float data.
_HYBRID = frozenset({"float32 int8 float32 -> float32", "float32 int8 -> float32"})
_NUMBERS = _unary("float32", "int8", "uint8")
#: `_NUMBERS`, and int16 where TensorFlow Lite Micro has it without separate rules.
_MORE_NUMBERS = _NUMBERS | _unary("int16")
#: Types of operators that move elements without arithmetic.
_ANY = _unary("bool", "float32", "int8", "int16", "int32", "int64", "uint8")
_ARITHMETIC = Operator(
    attributes=Arithmetic,
    types=_binary("float32", "int8", "int16", "uint8"),
    shape=broadcast_shape,
)
_CHOICE = Operator(
    types=_binary("float32", "int8", "int16", "int32", "uint8"),
    shape=broadcast_shape,
    scaled=False,
)
_RESHAPE = Operator(types=_ANY, shape=None, scaled=False)
_SPLIT = Operator(
    attributes=Split, types=_ANY, output_shapes=split_shapes, variadic=True, scaled=False
)
_ARG_EXTREME = Operator(
    attributes=Axis,
    types=frozenset({"float32 -> int32", "int8 -> int32", "uint8 -> int32"}),
    shape=arg_extreme_shape,
    scaled=False,
)
_SLICE = Operator(attributes=Slice, types=_ANY, shape=slice_shape, scaled=False)
_PAD = Operator(attributes=Pad, types=_unary("float32", "int8", "int16", "uint8"), shape=pad_shape)
_POOL = Operator(attributes=Pool2D, types=_MORE_NUMBERS, shape=pooling_shape)
_REDUCE = Operator(attributes=Reduce, types=_MORE_NUMBERS, shape=reduced_shape)
_SAME = Operator(types=_NUMBERS)
_LIMIT = Operator(types=_MORE_NUMBERS | _ROUNDED)

OPERATORS = {
    Op.ADD: replace(
        _ARITHMETIC,
        types=_ARITHMETIC.types | {f"float32 float32 -> {name}" for name in STORAGE.values()},
    ),
    Op.ARG_MAX: _ARG_EXTREME,
    Op.ARG_MIN: _ARG_EXTREME,
    Op.AVERAGE_POOL_2D: _POOL,
    Op.BATCH_MATMUL: Operator(
        attributes=BatchMatmul,
        types=_binary("float32", "int8") | {"int8 int8 int32 -> int8", "int8 int8 -> int32"},
        shape=batch_matmul_shape,
    ),
    Op.CONCATENATION: Operator(
        attributes=Axis, types=_ANY, shape=concatenation_shape, variadic=True, scaled=False
    ),
    Op.CONV_2D: Operator(
        attributes=Conv2D,
        types=frozenset().union(
            *(_WEIGHTED, _RESCALED, _WORDS, _SHORT_SUMS, _NARROWED, _SUMS, _WIDENED, _HYBRID),
            *(LOWERED, _SIGNED_DATA),
        ),
        shape=convolution_shape,
        weight_axis=0,
    ),
    Op.DEPTHWISE_CONV_2D: Operator(
        attributes=DepthwiseConv2D,
        types=_WEIGHTED | _RESCALED | _WORDS | _NARROWED | _SIGNED_DATA,
        shape=depthwise_shape,
        weight_axis=3,
    ),
    Op.DEQUANTIZE: Operator(
        types=frozenset(f"{name} -> float32" for name in ("float16", "int8", "int16", "uint8"))
    ),
    Op.EXPAND_DIMS: _RESHAPE,
    Op.FULLY_CONNECTED: Operator(
        attributes=FullyConnected,
        types=_WEIGHTED | _RESCALED | _WORDS | _SHORT_SUMS | _HYBRID | LOWERED,
        shape=dense_shape,
        weight_axis=0,
    ),
    Op.FUNCTION: Operator(attributes=Function, types=_unary("float32", "int8"), shape=same_shape),
    Op.GATHER: Operator(
        attributes=Axis,
        types=frozenset(
            f"{data} {indices} -> {data}"
            for data in ("bool", "float32", "int8", "int16", "int32", "int64", "uint8")
            for indices in ("int32", "int64")
        ),
        shape=gathered_shape,
        scaled=False,
    ),
    Op.HARD_SWISH: _SAME,
    Op.LEAKY_RELU: Operator(attributes=LeakyRelu, types=_MORE_NUMBERS),
    Op.LOGISTIC: Operator(types=_MORE_NUMBERS),
    Op.LOG_SOFTMAX: Operator(types=_unary("float32", "int8"), shape=row_shape),
    Op.LOOKUP: Operator(attributes=Lookup, types=_unary("int8"), shape=same_shape, scaled=False),
    Op.LSTM_CELL: Operator(
        attributes=LstmCell,
        types=frozenset({"int32 int32 int16 int32 -> int8 int16"}),
        output_shapes=lstm_shapes,
    ),
    Op.MATRIX_PRODUCT: Operator(
        attributes=MatrixProduct,
        types=_PATTERNS,
        shape=matrix_product_shape,
        weight_axis=0,
        scaled=False,
    ),
    Op.MAXIMUM: _CHOICE,
    Op.MAX_POOL_2D: _POOL,
    Op.MEAN: _REDUCE,
    Op.MINIMUM: _CHOICE,
    Op.MUL: replace(
        _ARITHMETIC,
        types=_ARITHMETIC.types | {"int8 int8 int32 -> int8"},
        shape=product_shape,
    ),
    Op.PACK: Operator(attributes=Axis, types=_ANY, shape=pack_shape, variadic=True, scaled=False),
    Op.PAD: _PAD,
    Op.PADV2: _PAD,
    Op.PRELU: Operator(types=_binary("float32", "int8", "uint8"), shape=broadcast_shape),
    Op.QUANTIZE: Operator(
        types=frozenset(
            {
                *("float32 -> int8", "float32 -> int16", "int8 -> int8"),
                *("int16 -> int8", "int16 -> int16", "float32 -> uint8", "uint8 -> uint8"),
                *("int8 -> uint8", "uint8 -> int8"),
                *_ROUNDED,
            }
        )
    ),
    Op.REFERENCE: Operator(attributes=Reference, types=frozenset()),
    Op.RELU: _LIMIT,
    Op.RELU6: _LIMIT,
    Op.RESHAPE: _RESHAPE,
    Op.RESIZE_NEAREST_NEIGHBOR: Operator(
        attributes=Resize,
        types=_unary("float32", "int8", "int16", "uint8"),
        shape=resized_shape,
        scaled=False,
    ),
    Op.SLICE: _SLICE,
    Op.SOFTMAX: Operator(attributes=Softmax, types=_NUMBERS, shape=row_shape),
    Op.SPLIT: _SPLIT,
    Op.SPLIT_V: _SPLIT,
    Op.SQUARED_DIFFERENCE: Operator(types=_binary("float32", "int8"), shape=broadcast_shape),
    Op.SQUEEZE: _RESHAPE,
    Op.STRIDED_SLICE: _SLICE,
    Op.SUB: _ARITHMETIC,
    Op.SUM: _REDUCE,
    Op.TANH: Operator(types=_MORE_NUMBERS),
    Op.TRANSPOSE: Operator(attributes=Transpose, types=_ANY, shape=transposed_shape, scaled=False),
    Op.TRANSPOSE_CONV: Operator(
        attributes=TransposeConv,
        types=_WEIGHTED | _RESCALED,
        shape=transposed_convolution_shape,
        weight_axis=0,
    ),
    Op.UNPACK: Operator(
        attributes=Axis, types=_ANY, output_shapes=unpacked_shapes, variadic=True, scaled=False
    ),
}
