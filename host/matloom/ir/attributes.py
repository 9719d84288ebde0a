"""Attributes of operators: one frozen class per kind."""

import enum
from dataclasses import dataclass

#: Packages of the reference interpreters: TensorFlow Lite Micro, then LiteRT's reference kernels.
#: The second checks operators more strictly, and derives output shapes from inputs.
INTERPRETERS: tuple[str, ...] = ("tflite-micro", "ai-edge-litert")
#: Packages of interpreters for ONNX operators: ONNX Runtime, then ONNX's own reference
#: implementation for operators that ONNX Runtime refuses.
ONNX_INTERPRETERS: tuple[str, ...] = ("onnxruntime", "onnx")
#: Interpreter of operators that users register.
REGISTERED: tuple[str, ...] = ("registered",)


class Activation(enum.StrEnum):
    """Activation that an operator applies to its output."""

    NONE = "NONE"
    RELU = "RELU"
    RELU6 = "RELU6"
    RELU_N1_TO_1 = "RELU_N1_TO_1"


@dataclass(frozen=True, kw_only=True)
class Padding:
    """Number of elements added at each edge of an image; their value represents zero."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0


#: No elements at any edge.
NO_PADDING = Padding()


@dataclass(frozen=True, kw_only=True)
class Attributes:
    """Base class of attributes; the class itself is for operators without any, such as RESHAPE."""


@dataclass(frozen=True, kw_only=True)
class Arithmetic(Attributes):
    """Attributes of element-wise operators with two inputs."""

    activation: Activation = Activation.NONE


@dataclass(frozen=True, kw_only=True)
class Axis(Attributes):
    """Attributes of operators along one axis, counted from 0.

    These are CONCATENATION, GATHER, PACK, UNPACK, ARG_MAX and ARG_MIN.
    """

    axis: int


@dataclass(frozen=True, kw_only=True)
class BatchMatmul(Attributes):
    """Matrix products of two tensors along their last two axes.

    Members
    -------
    adj_x, adj_y:
        Whether the matrices of the first and of the second input are transposed.
    """

    adj_x: bool
    adj_y: bool


@dataclass(frozen=True, kw_only=True)
class Conv2D(Attributes):
    """Convolution; pairs are (vertical, horizontal).

    `mode` is the number format that its products must have, None for the compiler's choice.
    """

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: Padding = NO_PADDING
    activation: Activation = Activation.NONE
    mode: str | None = None


@dataclass(frozen=True, kw_only=True)
class DepthwiseConv2D(Conv2D):
    """Convolution channel by channel.

    Channel c is the input of `depth_multiplier` outputs, from ``c * depth_multiplier``.
    """

    depth_multiplier: int = 1


@dataclass(frozen=True, kw_only=True)
class FullyConnected(Attributes):
    """Dense layer; `keep_num_dims` keeps the leading axes of the input in the output.

    `mode` is as in `Conv2D`.
    """

    keep_num_dims: bool = False
    activation: Activation = Activation.NONE
    mode: str | None = None


@dataclass(frozen=True, kw_only=True)
class LeakyRelu(Attributes):
    """LEAKY_RELU: negative values are multiplied by `alpha`, a float32 number."""

    alpha: float


@dataclass(frozen=True, kw_only=True)
class Lookup(Attributes):
    """LOOKUP: `table` has the int8 result for each int8 input, from -128 to 127."""

    table: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Function(Attributes):
    """FUNCTION: the name of a function of one number, such as "GELU"."""

    function: str


@dataclass(frozen=True, kw_only=True)
class LstmCell(Attributes):
    """LSTM_CELL: a step reads the input sums at index `time` along `axis`."""

    time: int
    axis: int


@dataclass(frozen=True, kw_only=True)
class MatrixProduct(Attributes):
    """Products of floating-point numbers; decision 0008 defines the sums and their rounding.

    Members
    -------
    mode:
        The number format of the operands.
    low, high:
        Limits of the results before rounding, as fp8_e5m2 numbers.
    """

    mode: str
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Pad(Attributes):
    """Number of elements added before and after the elements along each axis.

    `value` is their value as stored in the tensor; None is the value that represents zero.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: float | int | None = None


@dataclass(frozen=True, kw_only=True)
class Pool2D(Attributes):
    """Pooling; pairs are (vertical, horizontal). Elements added as padding are ignored."""

    window: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = NO_PADDING
    activation: Activation = Activation.NONE


@dataclass(frozen=True, kw_only=True)
class Reduce(Attributes):
    """Reduction over `axes`, which are ascending; `keep_dims` keeps them with length one."""

    axes: tuple[int, ...]
    keep_dims: bool


@dataclass(frozen=True, kw_only=True)
class Reference(Attributes):
    """Operators of a model file that a reference interpreter runs.

    Members
    -------
    operators:
        Names of the operators, in execution order.
    reasons:
        For each operator, the reason why neither the engine nor the host's kernels run it.
    positions:
        Indices of the operators in the file's only subgraph; empty for the file as a whole.
    inputs, outputs:
        Numbers of the file's tensors that correspond to the node's inputs and outputs.
    interpreters:
        Interpreters that can run them, the preferred one first: from `INTERPRETERS`,
        `ONNX_INTERPRETERS` or `REGISTERED`.
    """

    operators: tuple[str, ...]
    reasons: tuple[str, ...]
    positions: tuple[int, ...] = ()
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    interpreters: tuple[str, ...] = INTERPRETERS


@dataclass(frozen=True, kw_only=True)
class Resize(Attributes):
    """New height and width of an image, and the alignment of input and output positions."""

    size: tuple[int, int]
    align_corners: bool
    half_pixel_centers: bool


@dataclass(frozen=True, kw_only=True)
class Slice(Attributes):
    """Part of a tensor: on each axis `size` elements from `begin`, `step` apart.

    `step` may be negative. Axes in `dropped` have one element left and are removed.
    """

    begin: tuple[int, ...]
    size: tuple[int, ...]
    step: tuple[int, ...]
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Softmax(Attributes):
    """SOFTMAX of ``beta * x`` along the last axis."""

    beta: float


@dataclass(frozen=True, kw_only=True)
class Split(Attributes):
    """Division of a tensor along an axis into outputs of the given sizes."""

    axis: int
    sizes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Transpose(Attributes):
    """TRANSPOSE: output axis n is input axis ``permutation[n]``."""

    permutation: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class TransposeConv(Attributes):
    """Transposed convolution; `padding` is that of the corresponding forward convolution.

    `size` is the height and width of the output. The inputs are image, weights and bias.
    """

    stride: tuple[int, int] = (1, 1)
    padding: Padding = NO_PADDING
    size: tuple[int, int]
    activation: Activation = Activation.NONE
