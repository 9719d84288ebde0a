"""What an operator is told besides its tensors: one frozen class a kind of operator."""

import enum
from dataclasses import dataclass

__all__ = [
    "Activation",
    "Arithmetic",
    "Attributes",
    "Conv2D",
    "DepthwiseConv2D",
    "FullyConnected",
    "Padding",
    "Pool2D",
    "Softmax",
]


class Activation(enum.StrEnum):
    """A limit on the output that an operator applies itself."""

    NONE = "NONE"
    RELU = "RELU"
    RELU6 = "RELU6"
    RELU_N1_TO_1 = "RELU_N1_TO_1"


@dataclass(frozen=True, kw_only=True)
class Padding:
    """Elements added at each edge of an image; their value stands for zero."""

    top: int
    bottom: int
    left: int
    right: int


@dataclass(frozen=True, kw_only=True)
class Attributes:
    """Nothing beyond the tensors: RESHAPE, LOG_SOFTMAX, QUANTIZE, DEQUANTIZE."""


@dataclass(frozen=True, kw_only=True)
class Arithmetic(Attributes):
    """Elementwise operators of two inputs."""

    activation: Activation


@dataclass(frozen=True, kw_only=True)
class Conv2D(Attributes):
    """Convolution; pairs are (vertical, horizontal)."""

    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: Padding
    activation: Activation


@dataclass(frozen=True, kw_only=True)
class DepthwiseConv2D(Conv2D):
    """Convolution channel by channel; channel c feeds outputs c*multiplier and following."""

    depth_multiplier: int


@dataclass(frozen=True, kw_only=True)
class FullyConnected(Attributes):
    """Dense layer; `keep_num_dims` keeps the leading axes of the input apart."""

    keep_num_dims: bool
    activation: Activation


@dataclass(frozen=True, kw_only=True)
class Pool2D(Attributes):
    """Pooling; pairs are (vertical, horizontal). Padding counts for nothing."""

    window: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding
    activation: Activation


@dataclass(frozen=True, kw_only=True)
class Softmax(Attributes):
    """Softmax along the last axis, of ``beta * x``."""

    beta: float
