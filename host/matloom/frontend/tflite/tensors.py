"""Tensors of one subgraph of a TensorFlow Lite file, read on first use."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from matloom.arch.numerics import high_nibble, low_nibble
from matloom.arch.program_file import TENSOR_LIMIT
from matloom.frontend.errors import MisreadInMicro, ModelError, Unsupported
from matloom.frontend.tflite.flatbuffer import enum_name, numbers, records, text
from matloom.ir.graph import Array, Quantisation, Tensor
from matloom.ir.node_rules import QUANTISED
from matloom.ir.verify import quantisation_problems

#: Maximum size of a tensor in bytes, for the engine and the host's kernels. Interpreters accept
#: larger ones.
ENGINE_LIMIT = 1 << 26

#: NumPy's names of types, by their numbers in files.
DTYPES = {
    getattr(tflite.TensorType, name.upper()): name
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "float32", "float64", "complex64"),
    )
}


class FileTensors:
    """The tensors of a subgraph by number, as operators of the graph need them.

    Raises
    ------
    ModelError
        A tensor is not in the file, or has less data than its shape needs.
    Unsupported
        It has a type that NumPy does not know, is sparse or too large for the engine, or its data
        or scales break a rule of the graph.
    """

    def __init__(self, content: bytes, model: Any, subgraph: Any) -> None:
        self.content, self.model, self.subgraph = content, model, subgraph
        self.buffers = model.BuffersLength()
        #: Numbers of the subgraph's inputs. Data that the file has for them are ignored, because
        #: each call passes values.
        self.passed = frozenset(numbers(subgraph, "Inputs").tolist())
        #: Numbers of the tensors that operators make or calls pass.
        self.produced = self.passed.union(
            *(numbers(each, "Outputs").tolist() for each in records(subgraph, "Operators"))
        )
        self._known: dict[int, tuple[Tensor, Unsupported | None]] = {}

    def __len__(self) -> int:
        return int(self.subgraph.TensorsLength())

    def is_computed(self, number: int) -> bool:
        """Return whether a tensor is made by an operator or passed to a call.

        It is then neither a constant nor internal state of an operator. A negative number, which
        means an absent tensor, gives False.
        """
        if number < 0:
            return False
        table, prefix = self._table(number)
        if number in self.passed:
            return True
        if table.IsVariable() or (number not in self.produced and self._is_empty(table)):
            return False
        try:
            return bool(self._buffer_bytes(table.Buffer()).size == 0)
        except ModelError as error:
            raise ModelError(f"{prefix}{error}") from None

    def is_constant(self, number: int) -> bool:
        """Return whether a tensor is constant.

        A constant has data in the file, or no elements and no operator that makes it.
        """
        return not self.is_computed(number) and not self.subgraph.Tensors(number).IsVariable()

    def is_4_bit(self, number: int) -> bool:
        """Return whether a tensor is a constant of 4-bit integers in the file."""
        return self._is_4_bit(self._table(number)[0], number)

    def dtype(self, inputs: Sequence[int]) -> str:
        """Return the type of an operator's first input, given the numbers of its inputs.

        It is "" if the input is absent or NumPy does not know its type.
        """
        present = inputs and inputs[0] >= 0
        return DTYPES.get(self._table(inputs[0])[0].Type(), "") if present else ""

    def __getitem__(self, number: int) -> Tensor:
        """Return a tensor; raise an error if it breaks a rule of the graph."""
        tensor, problem = self._read_cached(number)
        if problem is not None:
            raise problem
        return tensor

    def opaque_tensor(self, number: int) -> Tensor:
        """Return a tensor of an operator that runs in TensorFlow Lite Micro or LiteRT.

        It has no quantisation if it breaks a rule of the graph. Raises `Unsupported` if the graph
        cannot represent its elements either.
        """
        return self._read_cached(number)[0]

    def _read_cached(self, number: int) -> tuple[Tensor, Unsupported | None]:
        """Return a tensor, and why its quantisation is unsupported, or None; cached."""
        if number not in self._known:
            table, prefix = self._table(number)
            try:
                tensor = self._declared_tensor(table, number)
            except ModelError as error:
                raise type(error)(f"{prefix}{error}", hint=error.hint) from None
            problem = _problem(tensor)
            if problem is not None:
                tensor = replace(tensor, quantisation=None)
            unsupported = None if problem is None else Unsupported(prefix + problem)
            self._known[number] = tensor, unsupported
        return self._known[number]

    def _table(self, number: int) -> tuple[Any, str]:
        """Return the flatbuffer table of a tensor, and the beginning of messages about it."""
        if not 0 <= number < len(self):
            raise ModelError(f"must use one of {len(self)} tensors, not {number}")
        table = self.subgraph.Tensors(number)
        return table, f"uses tensor {number} ({_name(table, number)}), which "

    def _declared_tensor(self, table: Any, number: int) -> Tensor:
        """Return a tensor as the file declares it, with its data if it is constant."""
        dtype = DTYPES.get(table.Type())
        packed = self._is_4_bit(table, number)
        if packed:
            dtype = "int8"
        if dtype is None:
            type_name = enum_name(tflite.TensorType, table.Type())
            raise Unsupported(
                f"has the type {type_name}, which no array here can hold",
                hint="take the operators that use it out of the network, and compute them yourself",
            )
        shape = tuple(numbers(table, "Shape").tolist())
        if any(length < 0 for length in shape):
            raise ModelError(f"must have dimensions of at least 0, not {shape}")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > TENSOR_LIMIT:
            raise ModelError(f"must have at most {TENSOR_LIMIT} bytes, not {size}")
        given = number in self.passed
        data = None if given else self._constant_data(table, shape, dtype, packed=packed)
        if data is None and size == 0 and number not in self.produced:
            data = np.empty(shape, dtype)
        # Scales of other types are leftovers from training; those of a bias follow from its
        # operator.
        quantisation = _quantisation(table) if dtype in QUANTISED else None
        return Tensor(
            name=_name(table, number),
            shape=shape,
            dtype=dtype,
            quantisation=quantisation,
            data=data,
        )

    @staticmethod
    def _is_empty(table: Any) -> bool:
        """Return whether a tensor has no elements."""
        return 0 in numbers(table, "Shape").tolist()

    def _is_4_bit(self, table: Any, number: int) -> bool:
        """Return whether a tensor is a constant of 4-bit integers, which becomes int8."""
        is_narrow = table.Type() == tflite.TensorType.INT4 and number not in self.passed
        if not is_narrow or not 0 <= table.Buffer() < self.buffers:
            return False
        return bool(self._buffer_bytes(table.Buffer()).size > 0)

    def _buffer_bytes(self, buffer: int) -> Array:
        """Return the bytes of the buffer with index `buffer`; empty if it has no data.

        They are in the buffer's table, or at the end of the file.
        """
        if not 0 <= buffer < self.buffers:
            raise ModelError(f"must have one of {self.buffers} buffers, not {buffer}")
        table = self.model.Buffers(buffer)
        length = table.DataLength()
        if length > 0:
            data: Array = table.DataAsNumpy()
            if data.size != length:
                raise ModelError(f"must have {length} bytes of data, not {data.size}")
            return data
        # Offset 0 means none, and 1 that it was not filled in.
        start, size = table.Offset(), table.Size()
        if start <= 1 or size == 0:
            return np.empty(0, np.uint8)
        if start + size > len(self.content):
            raise ModelError(
                f"must have its data within the file's {len(self.content)} bytes, "
                f"not at {start} to {start + size}"
            )
        return np.frombuffer(self.content, np.uint8, size, start)

    def _constant_data(
        self, table: Any, shape: tuple[int, ...], dtype: str, *, packed: bool
    ) -> Array | None:
        """Return the values of a constant; None if the file has none. Bytes after them are ignored.

        `packed` says whether a byte holds two integers of 4 bits.

        Raises
        ------
        MisreadInMicro
            The values are sparse.
        """
        raw = self._buffer_bytes(table.Buffer())
        if raw.size == 0:
            return None
        if table.Sparsity() is not None:
            raise MisreadInMicro("is sparse")
        kind = np.dtype(dtype).newbyteorder("<")
        size = int(np.prod([*shape, 1], dtype=object))
        expected = -(-size // 2) if packed else kind.itemsize * size
        if raw.size < expected:
            raise ModelError(f"must have {expected} bytes of data, not {raw.size}")
        raw = raw[:expected]
        if packed:
            # The first of two integers is in the low bits.
            halves = (low_nibble(raw.view(np.int8)), high_nibble(raw.view(np.int8)))
            return np.stack(halves, axis=1).reshape(-1)[:size].reshape(shape)
        data: Array = np.frombuffer(raw.tobytes(), kind).astype(dtype, copy=False).reshape(shape)
        return data


def _name(table: Any, number: int) -> str:
    """Return a tensor's name, or one made of its number."""
    return text(table.Name()) or f"tensor_{number}"


def _problem(tensor: Tensor) -> str | None:
    """Return what is wrong with a tensor that breaks a rule of the graph; None if it does not."""
    if tensor.size_bytes > ENGINE_LIMIT:
        return f"must have at most {ENGINE_LIMIT} bytes for the engine, not {tensor.size_bytes}"
    return next(quantisation_problems(tensor), None)


def _quantisation(table: Any) -> Quantisation | None:
    """Return a tensor's quantisation; None if it has no scales.

    A single zero point applies to all scales.
    """
    parameters = table.Quantization()
    if parameters is None:
        return None
    scales = numbers(parameters, "Scale").tolist()
    zeros = numbers(parameters, "ZeroPoint").tolist()
    if not scales:
        return None
    if len(zeros) == 1:
        zeros *= len(scales)
    axis = parameters.QuantizedDimension() if len(scales) > 1 else None
    return Quantisation(scale=tuple(scales), zero_point=tuple(zeros), axis=axis)
