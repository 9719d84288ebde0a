"""Attributes of operators: one frozen class for each kind."""

import enum
from dataclasses import dataclass

__all__ = [
    "INTERPRETERS",
    "ONNX_INTERPRETERS",
    "REGISTERED",
    "Activation",
    "Arithmetic",
    "Attributes",
    "Axis",
    "Conv2D",
    "DepthwiseConv2D",
    "FullyConnected",
    "LeakyRelu",
    "MatrixProduct",
    "Pad",
    "Padding",
    "Pool2D",
    "Reduce",
    "Reference",
    "Resize",
    "Slice",
    "Softmax",
    "Split",
    "Transpose",
    "TransposeConv",
]


#: Packages of the reference interpreters: TensorFlow Lite Micro, then LiteRT's reference kernels.
#: The second checks operators more strictly, and gives outputs the shapes that follow from inputs.
INTERPRETERS: tuple[str, ...] = ("tflite-micro", "ai-edge-litert")
#: The package of the one that runs operators of ONNX.
ONNX_INTERPRETERS: tuple[str, ...] = ("onnxruntime",)
#: The interpreter of operators that users register.
REGISTERED: tuple[str, ...] = ("registered",)


class Activation(enum.StrEnum):
    """A limit on the output that an operator applies itself."""

    NONE = "NONE"
    RELU = "RELU"
    RELU6 = "RELU6"
    RELU_N1_TO_1 = "RELU_N1_TO_1"


@dataclass(frozen=True, kw_only=True)
class Padding:
    """Elements added at each edge of an image; they have the value that stands for zero."""

    top: int
    bottom: int
    left: int
    right: int


@dataclass(frozen=True, kw_only=True)
class Attributes:
    """Nothing beyond the tensors: RESHAPE, QUANTIZE, TANH, MAXIMUM and the like."""


@dataclass(frozen=True, kw_only=True)
class Arithmetic(Attributes):
    """Elementwise operators of two inputs."""

    activation: Activation


@dataclass(frozen=True, kw_only=True)
class Axis(Attributes):
    """Operators along one axis, counted from 0: CONCATENATION, PACK, UNPACK, ARG_MAX, ARG_MIN."""

    axis: int


@dataclass(frozen=True, kw_only=True)
class Conv2D(Attributes):
    """Convolution; pairs are (vertical, horizontal).

    `mode` is the number format that its products must have, None for the compiler's choice.
    """

    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: Padding
    activation: Activation
    mode: str | None = None


@dataclass(frozen=True, kw_only=True)
class DepthwiseConv2D(Conv2D):
    """Convolution channel by channel; channel c feeds outputs c*multiplier and following."""

    depth_multiplier: int


@dataclass(frozen=True, kw_only=True)
class FullyConnected(Attributes):
    """Dense layer; `keep_num_dims` keeps the leading axes of the input apart.

    `mode` as in a convolution.
    """

    keep_num_dims: bool
    activation: Activation
    mode: str | None = None


@dataclass(frozen=True, kw_only=True)
class LeakyRelu(Attributes):
    """Negative values are multiplied by `alpha`, a float32 number."""

    alpha: float


@dataclass(frozen=True, kw_only=True)
class MatrixProduct(Attributes):
    """Products of floating-point numbers; decision 0008 defines the sums and their rounding.

    Members
    -------
    mode:
        The number format of the operands.
    low, high:
        What results are limited to before they are rounded: numbers of fp8_e5m2.
    """

    mode: str
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Pad(Attributes):
    """Elements added before and after each axis.

    `value` is what they hold, in the tensor's own integers; None stands for zero.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: float | int | None = None


@dataclass(frozen=True, kw_only=True)
class Pool2D(Attributes):
    """Pooling; pairs are (vertical, horizontal). Padding does not count."""

    window: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding
    activation: Activation


@dataclass(frozen=True, kw_only=True)
class Reduce(Attributes):
    """Reduction over axes in ascending order; `keep_dims` leaves them with a length of one."""

    axes: tuple[int, ...]
    keep_dims: bool


@dataclass(frozen=True, kw_only=True)
class Reference(Attributes):
    """Operators of a model file that a reference interpreter runs.

    Members
    -------
    operators:
        Their names, in order of execution.
    reasons:
        Of each, why neither the engine nor the host's kernels run it.
    positions:
        Their places in the file's only subgraph; empty for the file as a whole.
    inputs, outputs:
        Tensors of the file that enter and leave, as the node's inputs and outputs do.
    interpreters:
        Those that may run them, the preferred one first: of `INTERPRETERS`,
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
    """A new height and width for an image, and how the two grids of elements lie."""

    size: tuple[int, int]
    align_corners: bool
    half_pixel_centers: bool


@dataclass(frozen=True, kw_only=True)
class Slice(Attributes):
    """Part of a tensor: on each axis `size` elements from `begin`, `step` apart.

    `step` may be negative. Axes of `dropped`, which have one element left, disappear.
    """

    begin: tuple[int, ...]
    size: tuple[int, ...]
    step: tuple[int, ...]
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Softmax(Attributes):
    """Softmax along the last axis, of ``beta * x``."""

    beta: float


@dataclass(frozen=True, kw_only=True)
class Split(Attributes):
    """Parts along an axis; one of `sizes` for each output."""

    axis: int
    sizes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Transpose(Attributes):
    """Output axis n is input axis ``permutation[n]``."""

    permutation: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class TransposeConv(Attributes):
    """Transposed convolution; `padding` is what the convolution of the opposite way would have.

    `size` is the output's height and width. Inputs of the node are image, weights and bias.
    """

    stride: tuple[int, int]
    padding: Padding
    size: tuple[int, int]
    activation: Activation
