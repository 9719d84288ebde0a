"""TensorFlow Lite files to graphs."""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import tflite

from matloom.frontend.errors import ModelError
from matloom.frontend.flatbuffer import enum_name, numbers, records, text
from matloom.frontend.options import READERS
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.verify import QUANTISED, verify

__all__ = ["load_tflite"]

IDENTIFIER = b"TFL3"
#: Types that NumPy knows, by their number in the file.
DTYPES = {
    getattr(tflite.TensorType, name.upper()): name
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "float32", "float64"),
    )
}


def load_tflite(source: str | Path | bytes) -> Graph:
    """Return the graph of a TensorFlow Lite file, given its path or its bytes.

    Tensors keep their numbers and names. A shape that RESHAPE takes as a tensor is dropped, being
    the output's; so is a bias that is absent.

    Raises
    ------
    ModelError
        The file is missing, truncated or malformed, or has an operator, a type or quantisation
        that neither engine nor host can run.
    """
    if isinstance(source, bytes):
        name, content = "model", source
    else:
        name, content = Path(source).stem, _read(Path(source))
    if len(content) < 8 or content[4:8] != IDENTIFIER:
        found = content[4:8]
        raise ModelError(
            f"{name} must be a TensorFlow Lite file ({IDENTIFIER!r} at byte 4), not {found!r}"
        )
    try:
        graph = _Reader(content).graph(name)
        verify(graph, name)
    except ModelError as error:
        raise ModelError(_line(f"{name}: {error}")) from None
    # A corrupted offset can make the generated readers raise almost anything.
    except Exception as error:
        prefix = "" if str(error).startswith(f"{name}: ") else f"{name} is truncated or malformed: "
        raise ModelError(_line(f"{prefix}{error}")) from error
    return graph


def _line(sentence: str) -> str:
    """Return a sentence as one line of bounded length: a file may hold anything."""
    return textwrap.shorten(sentence, 300, placeholder=" ...")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} must be a readable file, not {error.strerror}") from None


class _Reader:
    """One file: its tables, and the tensors that its operators use."""

    def __init__(self, content: bytes):
        self.model = tflite.Model.GetRootAs(content)
        self.buffers = self.model.BuffersLength()
        subgraphs = self.model.SubgraphsLength()
        if subgraphs != 1:
            raise ModelError(f"a model must have 1 subgraph, not {subgraphs}")
        self.subgraph = self.model.Subgraphs(0)
        self.codes = [self._code(code) for code in records(self.model, "OperatorCodes")]
        self.tensors: dict[int, Tensor] = {}

    def graph(self, name: str) -> Graph:
        """Return the only subgraph."""
        inputs, outputs = (
            tuple(self._use(number) for number in numbers(self.subgraph, field).tolist())
            for field in ("Inputs", "Outputs")
        )
        if not inputs or not outputs:
            raise ModelError(
                f"a model must have inputs and outputs, not {len(inputs)} and {len(outputs)}"
            )
        nodes = tuple(
            self._node(index, operator)
            for index, operator in enumerate(records(self.subgraph, "Operators"))
        )
        return Graph(name=name, inputs=inputs, outputs=outputs, tensors=self.tensors, nodes=nodes)

    @staticmethod
    def _code(code: Any) -> str:
        # Files fill one of two fields: the old one has 8 bits.
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        if number == tflite.BuiltinOperator.CUSTOM:
            return text(code.CustomCode())
        return enum_name(tflite.BuiltinOperator, number)

    def _node(self, index: int, operator: Any) -> Node:
        code = operator.OpcodeIndex()
        if not 0 <= code < len(self.codes):
            raise ModelError(f"operator {index} must be one of {len(self.codes)} kinds, not {code}")
        name = self.codes[code]
        title = f"operator {index} ({name})"
        if name not in Op.__members__:
            raise ModelError(f"{title} can run neither on the engine nor on the host")
        op = Op(name)
        try:
            inputs = self._inputs(op, numbers(operator, "Inputs").tolist())
            outputs = tuple(map(self._use, numbers(operator, "Outputs").tolist()))
            if len(outputs) != 1:
                raise ModelError(f"must have 1 output, not {len(outputs)}")
            attributes = READERS[op](operator, [self.tensors[number] for number in inputs])
        except ModelError as error:
            raise ModelError(f"{title} {error}") from None
        return Node(op=op, inputs=inputs, outputs=outputs, attributes=attributes, index=index)

    def _inputs(self, op: Op, given: list[int]) -> tuple[int, ...]:
        if given[2:] == [-1]:
            del given[2:]
        if op is Op.RESHAPE:
            del given[1:]
        if not given or -1 in given:
            raise ModelError(f"must have its inputs, not {given}")
        return tuple(self._use(number) for number in given)

    def _use(self, number: int) -> int:
        """Read a tensor when it is first used, and return its number."""
        if number not in self.tensors:
            length = self.subgraph.TensorsLength()
            if not 0 <= number < length:
                raise ModelError(f"must use one of {length} tensors, not {number}")
            table = self.subgraph.Tensors(number)
            name = text(table.Name()) or f"tensor_{number}"
            try:
                self.tensors[number] = self._tensor(table, name)
            except ModelError as error:
                raise ModelError(f"uses tensor {number} ({name}), which {error}") from None
        return number

    def _tensor(self, table: Any, name: str) -> Tensor:
        dtype = DTYPES.get(table.Type())
        if dtype is None:
            given = enum_name(tflite.TensorType, table.Type())
            raise ModelError(f"must have a type of {', '.join(DTYPES.values())}, not {given}")
        if table.Sparsity() is not None:
            raise ModelError("must be dense, not sparse")
        shape = tuple(numbers(table, "Shape").tolist())
        if any(length < 1 for length in shape):
            raise ModelError(f"must have dimensions of at least 1, not {shape}")
        # Scales of other types are left over from training; a bias's follow from its operator.
        quantisation = self._quantisation(table) if dtype in QUANTISED else None
        return Tensor(
            name=name,
            shape=shape,
            dtype=dtype,
            quantisation=quantisation,
            data=self._data(table.Buffer(), shape, dtype),
        )

    def _data(self, buffer: int, shape: tuple[int, ...], dtype: str) -> Array | None:
        if not 0 <= buffer < self.buffers:
            raise ModelError(f"must have one of {self.buffers} buffers, not {buffer}")
        table = self.model.Buffers(buffer)
        length = table.DataLength()
        if length == 0:
            return None
        raw: Array = table.DataAsNumpy()
        kind = np.dtype(dtype).newbyteorder("<")
        expected = kind.itemsize * int(np.prod([*shape, 1], dtype=object))
        if expected != raw.size or raw.size != length:
            raise ModelError(f"must have {expected} bytes of data, not {raw.size}")
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
