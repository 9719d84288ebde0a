"""Tensors of one subgraph of a TensorFlow Lite file, read when they are first asked for."""

import math
from typing import Any

import numpy as np
import tflite

from matloom.arch.numerics import high_nibble, low_nibble
from matloom.arch.program_file import TENSOR_LIMIT
from matloom.frontend.errors import ModelError, Unsupported
from matloom.frontend.flatbuffer import enum_name, numbers, text
from matloom.ir.graph import Array, Quantisation, Tensor
from matloom.ir.node_rules import QUANTISED

__all__ = ["DTYPES", "FileTensors"]

#: Types that NumPy knows, by their number in the file.
DTYPES = {
    getattr(tflite.TensorType, name.upper()): name
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "float32", "float64"),
    )
}


class FileTensors:
    """The tensors of a subgraph by number.

    Errors
    ------
    ModelError
        A tensor is none of the file's, or contradicts itself.
    Unsupported
        It is of a type that NumPy does not know, or sparse.
    """

    def __init__(self, model: Any, subgraph: Any) -> None:
        self.model, self.subgraph = model, subgraph
        self.buffers = model.BuffersLength()
        self._known: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return int(self.subgraph.TensorsLength())

    def computed(self, number: int) -> bool:
        """Return whether an operator or the user provides a tensor."""
        if number < 0:
            return False
        if not number < len(self):
            raise ModelError(f"an operator must use one of {len(self)} tensors, not {number}")
        table = self.subgraph.Tensors(number)
        if table.IsVariable():
            return False
        if not 0 <= table.Buffer() < self.buffers:
            raise ModelError(
                f"tensor {number} must have one of {self.buffers} buffers, not {table.Buffer()}"
            )
        return bool(self.model.Buffers(table.Buffer()).DataLength() == 0)

    def __getitem__(self, number: int) -> Tensor:
        """Return a tensor."""
        if number not in self._known:
            if not 0 <= number < len(self):
                raise ModelError(f"must use one of {len(self)} tensors, not {number}")
            table = self.subgraph.Tensors(number)
            name = text(table.Name()) or f"tensor_{number}"
            try:
                self._known[number] = self._tensor(table, name)
            except ModelError as error:
                raise type(error)(f"uses tensor {number} ({name}), which {error}") from None
        return self._known[number]

    def _tensor(self, table: Any, name: str) -> Tensor:
        dtype = DTYPES.get(table.Type())
        packed = self._is_packed(table)
        if packed:
            dtype = "int8"
        if dtype is None:
            given = enum_name(tflite.TensorType, table.Type())
            raise Unsupported(f"has the type {given}")
        if table.Sparsity() is not None:
            raise Unsupported("is sparse")
        shape = tuple(numbers(table, "Shape").tolist())
        if any(length < 1 for length in shape):
            raise ModelError(f"must have dimensions of at least 1, not {shape}")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > TENSOR_LIMIT:
            raise ModelError(f"must have at most {TENSOR_LIMIT} bytes, not {size}")
        # Scales of other types are left over from training; a bias's follow from its operator.
        quantisation = self._quantisation(table) if dtype in QUANTISED else None
        return Tensor(
            name=name,
            shape=shape,
            dtype=dtype,
            quantisation=quantisation,
            data=self._data(table.Buffer(), shape, dtype, packed=packed),
        )

    def _is_packed(self, table: Any) -> bool:
        """Return whether a tensor is a constant of 4-bit integers, which becomes int8."""
        if table.Type() != tflite.TensorType.INT4 or not 0 <= table.Buffer() < self.buffers:
            return False
        return int(self.model.Buffers(table.Buffer()).DataLength()) > 0

    def _data(
        self, buffer: int, shape: tuple[int, ...], dtype: str, *, packed: bool
    ) -> Array | None:
        if not 0 <= buffer < self.buffers:
            raise ModelError(f"must have one of {self.buffers} buffers, not {buffer}")
        table = self.model.Buffers(buffer)
        length = table.DataLength()
        if length == 0:
            return None
        raw: Array = table.DataAsNumpy()
        kind = np.dtype(dtype).newbyteorder("<")
        size = int(np.prod([*shape, 1], dtype=object))
        expected = -(-size // 2) if packed else kind.itemsize * size
        if expected != raw.size or raw.size != length:
            raise ModelError(f"must have {expected} bytes of data, not {raw.size}")
        if packed:
            # The first of two is in the low bits.
            halves = (low_nibble(raw.view(np.int8)), high_nibble(raw.view(np.int8)))
            return np.stack(halves, axis=1).reshape(-1)[:size].reshape(shape)
        data: Array = np.frombuffer(raw.tobytes(), kind).astype(dtype, copy=False).reshape(shape)
        return data

    @staticmethod
    def _quantisation(table: Any) -> Quantisation | None:
        parameters = table.Quantization()
        if parameters is None:
            return None
        scales = numbers(parameters, "Scale").tolist()
        zeros = numbers(parameters, "ZeroPoint").tolist()
        if not scales:
            return None
        axis = parameters.QuantizedDimension() if len(scales) > 1 else None
        return Quantisation(scale=tuple(scales), zero_point=tuple(zeros), axis=axis)
