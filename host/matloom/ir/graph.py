"""Graphs: tensors by number, and operators in execution order."""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from matloom.ir.attributes import Attributes

Array = npt.NDArray[Any]
Kind = TypeVar("Kind", bound=Attributes)


def short_name(name: str) -> str:
    """Return the part before the first semicolon; converters join names by semicolons."""
    return name.split(";")[0]


class Op(enum.StrEnum):
    """Operators of the graph, named as in TensorFlow Lite.

    REFERENCE stands for all other operators; its last input is the model file. MATRIX_PRODUCT does
    not occur in model files: it is ``limit((left @ right.T + residual) + bias)`` in floating point,
    with inputs left, right, bias and optionally residual. Only the engine computes it.
    LOOKUP is not in TensorFlow Lite: it is a table of results for each byte. Nor is LSTM_CELL: it
    is what a step of UNIDIRECTIONAL_SEQUENCE_LSTM does after its products. FUNCTION stands for
    GELU, RSQRT and other functions of one number in networks to quantise.
    """

    ADD = "ADD"
    ARG_MAX = "ARG_MAX"
    ARG_MIN = "ARG_MIN"
    AVERAGE_POOL_2D = "AVERAGE_POOL_2D"
    BATCH_MATMUL = "BATCH_MATMUL"
    CONCATENATION = "CONCATENATION"
    CONV_2D = "CONV_2D"
    DEPTHWISE_CONV_2D = "DEPTHWISE_CONV_2D"
    DEQUANTIZE = "DEQUANTIZE"
    EXPAND_DIMS = "EXPAND_DIMS"
    FULLY_CONNECTED = "FULLY_CONNECTED"
    FUNCTION = "FUNCTION"
    GATHER = "GATHER"
    HARD_SWISH = "HARD_SWISH"
    LEAKY_RELU = "LEAKY_RELU"
    LOGISTIC = "LOGISTIC"
    LOG_SOFTMAX = "LOG_SOFTMAX"
    LOOKUP = "LOOKUP"
    LSTM_CELL = "LSTM_CELL"
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
    SQUARED_DIFFERENCE = "SQUARED_DIFFERENCE"
    SQUEEZE = "SQUEEZE"
    STRIDED_SLICE = "STRIDED_SLICE"
    SUB = "SUB"
    SUM = "SUM"
    TANH = "TANH"
    TRANSPOSE = "TRANSPOSE"
    TRANSPOSE_CONV = "TRANSPOSE_CONV"
    UNPACK = "UNPACK"


#: Operators that do not occur in model files.
OWN_OPERATORS = frozenset({Op.FUNCTION, Op.LOOKUP, Op.LSTM_CELL, Op.MATRIX_PRODUCT})
#: Operators that change the shape of a tensor, but not its bytes.
RESHAPES = frozenset({Op.EXPAND_DIMS, Op.RESHAPE, Op.SQUEEZE})


@dataclass(frozen=True, kw_only=True)
class Quantisation:
    """Quantisation of a tensor: real value = ``scale * (integer - zero_point)``.

    Members
    -------
    scale:
        One scale for the tensor or one for each channel: float32 values, stored as Python floats.
    zero_point:
        Zero point for each scale.
    axis:
        Axis of the channels; None if there is one scale for the tensor.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    def move_zero_point(self, distance: int) -> "Quantisation":
        """Return the quantisation of the same values by integers that are `distance` larger."""
        return replace(self, zero_point=tuple(zero + distance for zero in self.zero_point))


@dataclass(frozen=True, kw_only=True, eq=False)
class Tensor:
    """A tensor: name, shape, type and scales; `data` is None unless it is constant.

    `name` comes from the model file and may not be unique; `dtype` is the NumPy name of the type.
    Only integers of 8 and 16 bits have a `quantisation`; the scale of a bias is the product of the
    scales of input and weights. If unsigned integers are bit patterns of floating-point numbers,
    `number_format` is the name of the format (`arch.floats`).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantisation: Quantisation | None = None
    data: Array | None = field(default=None, repr=False)
    number_format: str | None = None

    @classmethod
    def constant(cls, name: str, data: Array, quantisation: Quantisation | None = None) -> "Tensor":
        """Return a constant tensor with the shape and type of its data."""
        dtype = data.dtype.name
        return cls(name=name, shape=data.shape, dtype=dtype, quantisation=quantisation, data=data)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Size in bytes of all elements."""
        return self.size * self.element_bytes

    @property
    def element_bytes(self) -> int:
        """Size in bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def scale(self) -> float:
        """The scale of a tensor with exactly one."""
        assert self.quantisation is not None
        (scale,) = self.quantisation.scale
        return scale

    @property
    def zero_point(self) -> int:
        """The zero point of a tensor with exactly one."""
        assert self.quantisation is not None
        (zero_point,) = self.quantisation.zero_point
        return zero_point


@dataclass(frozen=True, kw_only=True)
class Node:
    """An operator; `inputs` and `outputs` are tensor numbers.

    An absent optional input (a bias) is omitted. `index` is the operator's index in the model file;
    nodes created by passes inherit it.
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
        """Tensor number of the output of an operator with exactly one."""
        (output,) = self.outputs
        return output

    def attributes_as(self, kind: type[Kind]) -> Kind:
        """Return the attributes, which must be of class `kind`."""
        assert isinstance(self.attributes, kind), f"{self}: {self.attributes}"
        return self.attributes


@dataclass(frozen=True, kw_only=True)
class FileCopy:
    """Value of the model file that a tensor holds with other axes or in another type.

    Members
    -------
    name:
        Name of the value in the file.
    axes:
        The value's axes in the order of the tensor's axes; empty for the same order.
    offset:
        Number added to the value's bytes, modulo 256: 128 if uint8 is stored as int8, otherwise 0.
    """

    name: str
    axes: tuple[int, ...]
    offset: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Variable:
    """State that a network keeps from one call to the next.

    Members
    -------
    name:
        Name, unique among the network's variables.
    before, after:
        Numbers of the tensors that hold it at the start and the end of a call, with the same shape
        and type.
    initial:
        Initial value.
    """

    name: str
    before: int
    after: int
    initial: Array = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """A network: inputs, outputs, and operators in execution order.

    Tensor numbers are those of the model file, so that the same tensor can be read from other
    runtimes; passes that need new ones use ``max(graph.tensors) + 1``.

    Members
    -------
    inputs, outputs:
        Numbers of the tensors that the user of the network provides and receives.
    tensors:
        All tensors by number.
    nodes:
        Operators in execution order.
    variables:
        State kept between calls, in tensors that exist before and after a call.
    remarks:
        Notes for users on operators that run on the engine, by `Node.index`.
    copies:
        Values of the model file that tensors hold in another form, by tensor number.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    tensors: Mapping[int, Tensor]
    nodes: tuple[Node, ...]
    variables: tuple[Variable, ...] = ()
    remarks: Mapping[int, str] = field(default_factory=dict)
    copies: Mapping[int, FileCopy] = field(default_factory=dict)

    @cached_property
    def entering(self) -> tuple[int, ...]:
        """Numbers of all tensors that exist when a call begins: inputs, then variables."""
        return (*self.inputs, *(variable.before for variable in self.variables))

    @cached_property
    def leaving(self) -> tuple[int, ...]:
        """Numbers of all tensors needed when a call ends, each once: outputs, then variables."""
        kept = (variable.after for variable in self.variables)
        return tuple(dict.fromkeys((*self.outputs, *kept)))

    @cached_property
    def producers(self) -> dict[int, int]:
        """Index in `nodes` of the producer of each computed tensor."""
        return {tensor: at for at, node in enumerate(self.nodes) for tensor in node.outputs}

    @cached_property
    def consumers(self) -> dict[int, tuple[int, ...]]:
        """Indices in `nodes` of the consumers of each tensor, ascending; empty if unread."""
        readers: dict[int, tuple[int, ...]] = dict.fromkeys(self.tensors, ())
        for at, node in enumerate(self.nodes):
            for tensor in dict.fromkeys(node.inputs):
                readers[tensor] = (*readers[tensor], at)
        return readers
