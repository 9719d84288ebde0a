"""The graph itself: tensors by number, operators in order of execution."""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from matloom.ir.attributes import Attributes

__all__ = ["RESHAPES", "Array", "Graph", "Node", "Op", "Quantisation", "Tensor", "Variable"]
__all__ += ["short_name"]

Array = npt.NDArray[Any]
Kind = TypeVar("Kind", bound=Attributes)


def short_name(name: str) -> str:
    """Return the part before the first semicolon, by which converters join names."""
    return name.split(";")[0]


class Op(enum.StrEnum):
    """The operators that the graph knows, under TensorFlow Lite's names.

    REFERENCE stands for operators that it does not know: its last input is the model file.
    MATRIX_PRODUCT is in no model file: ``limit((left @ right.T + residual) + bias)`` in floating
    point, of left, right, bias and, where there is one, residual; the engine alone computes it.
    """

    ADD = "ADD"
    ARG_MAX = "ARG_MAX"
    ARG_MIN = "ARG_MIN"
    AVERAGE_POOL_2D = "AVERAGE_POOL_2D"
    CONCATENATION = "CONCATENATION"
    CONV_2D = "CONV_2D"
    DEPTHWISE_CONV_2D = "DEPTHWISE_CONV_2D"
    DEQUANTIZE = "DEQUANTIZE"
    EXPAND_DIMS = "EXPAND_DIMS"
    FULLY_CONNECTED = "FULLY_CONNECTED"
    HARD_SWISH = "HARD_SWISH"
    LEAKY_RELU = "LEAKY_RELU"
    LOGISTIC = "LOGISTIC"
    LOG_SOFTMAX = "LOG_SOFTMAX"
    MATRIX_PRODUCT = "MATRIX_PRODUCT"
    MAXIMUM = "MAXIMUM"
    MAX_POOL_2D = "MAX_POOL_2D"
    MEAN = "MEAN"
    MINIMUM = "MINIMUM"
    MUL = "MUL"
    PACK = "PACK"
    PAD = "PAD"
    PADV2 = "PADV2"
    PRELU = "PRELU"
    QUANTIZE = "QUANTIZE"
    REFERENCE = "REFERENCE"
    RELU = "RELU"
    RELU6 = "RELU6"
    RESHAPE = "RESHAPE"
    RESIZE_NEAREST_NEIGHBOR = "RESIZE_NEAREST_NEIGHBOR"
    SLICE = "SLICE"
    SOFTMAX = "SOFTMAX"
    SPLIT = "SPLIT"
    SPLIT_V = "SPLIT_V"
    SQUEEZE = "SQUEEZE"
    STRIDED_SLICE = "STRIDED_SLICE"
    SUB = "SUB"
    SUM = "SUM"
    TANH = "TANH"
    TRANSPOSE = "TRANSPOSE"
    TRANSPOSE_CONV = "TRANSPOSE_CONV"
    UNPACK = "UNPACK"


#: Operators that leave the bytes as they are.
RESHAPES = frozenset({Op.EXPAND_DIMS, Op.RESHAPE, Op.SQUEEZE})


@dataclass(frozen=True, kw_only=True)
class Quantisation:
    """Quantisation of a tensor: an integer stands for ``scale * (integer - zero_point)``.

    Members
    -------
    scale:
        One for the tensor, or one for each channel: float32 numbers, held in Python floats.
    zero_point:
        As many as there are scales.
    axis:
        The axis of the channels; None if one scale serves all.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Tensor:
    """A tensor; its `data` is None unless it is constant.

    `name` is the model file's and may occur twice; `dtype` is the NumPy name of the type.
    Only integers of 8 and 16 bits have a `quantisation`: a bias has the product of the scales of
    its input and its weights. Where integers without sign are patterns of floating-point numbers,
    `number_format` is the name of the format (`arch.floats`).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantisation: Quantisation | None = None
    data: Array | None = field(default=None, repr=False)
    number_format: str | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Number of bytes."""
        return self.size * self.element_bytes

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def scale(self) -> float:
        """The only scale, for a tensor that has one."""
        assert self.quantisation is not None
        (scale,) = self.quantisation.scale
        return scale

    @property
    def zero_point(self) -> int:
        """The only zero point, for a tensor that has one."""
        assert self.quantisation is not None
        (zero_point,) = self.quantisation.zero_point
        return zero_point


@dataclass(frozen=True, kw_only=True)
class Node:
    """An operator; `inputs` and `outputs` are numbers of tensors.

    An optional input that is absent (a bias) is left out. `index` is the operator's place in the
    model file; nodes that a pass makes inherit it.
    """

    op: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Attributes = field(default_factory=Attributes)
    index: int

    def __str__(self) -> str:
        return f"operator {self.index} ({self.op})"

    @property
    def output(self) -> int:
        """The only output."""
        (output,) = self.outputs
        return output

    def attributes_as(self, kind: type[Kind]) -> Kind:
        """Return the attributes, known to be of `kind`."""
        assert isinstance(self.attributes, kind), f"{self}: {self.attributes}"
        return self.attributes


@dataclass(frozen=True, kw_only=True, eq=False)
class Variable:
    """State that a network keeps from one call to the next.

    Members
    -------
    name:
        Unique in the network.
    before, after:
        Numbers of the tensors that hold it as a call begins and ends, alike in shape and type.
    initial:
        What it holds before the first call.
    """

    name: str
    before: int
    after: int
    initial: Array = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """Network: inputs, outputs, and operators in order of execution.

    Tensor numbers are those of the model file, so that other runtimes can be asked for the same
    tensor; passes that need more take ``max(graph.tensors) + 1``.

    Members
    -------
    inputs, outputs:
        The tensors of a network's user.
    variables:
        What is kept between calls, in tensors that enter and leave as well.
    remarks:
        What a user should know of operators that run on the engine, by their `index`.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    tensors: Mapping[int, Tensor]
    nodes: tuple[Node, ...]
    variables: tuple[Variable, ...] = ()
    remarks: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def entering(self) -> tuple[int, ...]:
        """All tensors that are there when a call begins: inputs, then variables."""
        return (*self.inputs, *(variable.before for variable in self.variables))

    @cached_property
    def leaving(self) -> tuple[int, ...]:
        """All tensors that must be there when a call ends, each once: outputs, then variables."""
        kept = (variable.after for variable in self.variables)
        return tuple(dict.fromkeys((*self.outputs, *kept)))

    @cached_property
    def producers(self) -> dict[int, int]:
        """The position in `nodes` of each computed tensor's producer."""
        return {tensor: at for at, node in enumerate(self.nodes) for tensor in node.outputs}

    @cached_property
    def consumers(self) -> dict[int, tuple[int, ...]]:
        """The positions in `nodes` of each tensor's readers, in order."""
        readers: dict[int, tuple[int, ...]] = dict.fromkeys(self.tensors, ())
        for at, node in enumerate(self.nodes):
            for tensor in dict.fromkeys(node.inputs):
                readers[tensor] = (*readers[tensor], at)
        return readers
