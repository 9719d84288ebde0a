"""TensorFlow Lite files to graphs."""

import math
import textwrap
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tflite

from matloom.arch.numerics import high_nibble, low_nibble
from matloom.arch.program_file import TENSOR_LIMIT
from matloom.frontend.errors import ModelError, Unsupported
from matloom.frontend.flatbuffer import enum_name, numbers, operator_number, records, text
from matloom.frontend.foreign import JOINED, Foreign, bind, file_tensor, whole
from matloom.frontend.options import READERS
from matloom.frontend.parameters import OPERANDS
from matloom.ir.graph import RESHAPES, Array, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.verify import QUANTISED, misfit, verify

__all__ = ["load_tflite"]

IDENTIFIER = b"TFL3"
GRAPH_OPERATORS = frozenset(Op) - {Op.REFERENCE}
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

    Tensors keep their numbers, and their names unless two inputs or outputs share one. Constants
    of 4-bit integers become int8. Constants
    that only say how an operator works (axes, paddings) become its attributes; a bias that is
    absent is dropped. Operators that the graph does not know, or not in these types, become
    REFERENCE nodes.

    Raises
    ------
    ModelError
        The file is missing, truncated or malformed, or contradicts itself.
    """
    if isinstance(source, bytes):
        name, content = "model", source
    else:
        name, content = Path(source).stem, _read(Path(source))
    if len(content) < 8 or content[4:8] != IDENTIFIER:
        shown = name if isinstance(source, bytes) else Path(source).name
        raise ModelError(
            f"{shown} must be a TensorFlow Lite file ({IDENTIFIER!r} at byte 4), "
            f"not {content[4:8]!r}"
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
        if self.model.SubgraphsLength() < 1:
            raise ModelError("a model must have a subgraph, not 0")
        self.content = content
        self.subgraph = self.model.Subgraphs(0)
        self.codes = [self._code(code) for code in records(self.model, "OperatorCodes")]
        self.tensors: dict[int, Tensor] = {}
        #: What was read, with what only operators' attributes need.
        self.known: dict[int, Tensor] = {}

    def graph(self, name: str) -> Graph:
        """Return the first subgraph; others are the reference interpreter's."""
        inputs, outputs = (
            tuple(self._use(number) for number in numbers(self.subgraph, field).tolist())
            for field in ("Inputs", "Outputs")
        )
        if not inputs or not outputs:
            raise ModelError(
                f"a model must have inputs and outputs, not {len(inputs)} and {len(outputs)}"
            )
        operators = list(records(self.subgraph, "Operators"))
        names = [self._name(index, operator) for index, operator in enumerate(operators)]
        reason = self._joined(names, operators)
        if reason is None:
            try:
                return self._graph(name, inputs, outputs, self._nodes(names, operators, outputs))
            # A tensor between the graph's part and the interpreter's has no NumPy type.
            except Unsupported as unsupported:
                reason = f"the network {unsupported}"
        self.tensors = {number: self.known[number] for number in (*inputs, *outputs)}
        node = whole(names, reason, inputs, outputs, self.subgraph.TensorsLength())
        return self._graph(name, inputs, outputs, [node])

    def _graph(
        self, name: str, inputs: tuple[int, ...], outputs: tuple[int, ...], nodes: list[Node]
    ) -> Graph:
        for node in nodes:
            if node.op is Op.REFERENCE:
                self.tensors[node.inputs[-1]] = file_tensor(self.content)
                for number in (*node.inputs[:-1], *node.outputs):
                    self._use(number)
        for side in (inputs, outputs):
            names = Counter(self.tensors[number].name for number in side)
            for number in side:
                tensor = self.tensors[number]
                if names[tensor.name] > 1:
                    self.tensors[number] = replace(tensor, name=f"{tensor.name}:{number}")
        return Graph(
            name=name, inputs=inputs, outputs=outputs, tensors=self.tensors, nodes=tuple(nodes)
        )

    def _nodes(
        self, names: list[str], operators: list[Any], outputs: tuple[int, ...]
    ) -> list[Node]:
        items = [
            self._item(index, name, operator)
            for index, (name, operator) in enumerate(zip(names, operators, strict=True))
        ]
        return bind(items, outputs, self.subgraph.TensorsLength(), self._computed)

    def _joined(self, names: list[str], operators: list[Any]) -> str | None:
        """Return why the network must stay in one piece; None where it need not."""
        for name in names:
            if name in JOINED:
                return f"{name} joins the network's parts"
        if self.model.SubgraphsLength() > 1:
            return f"the network has {self.model.SubgraphsLength()} subgraphs"
        readers = [set(numbers(operator, "Inputs").tolist()) for operator in operators]
        for number in range(self.subgraph.TensorsLength()):
            variable = self.subgraph.Tensors(number).IsVariable()
            if variable and sum(number in inputs for inputs in readers) > 1:
                return f"operators share the state of tensor {number}"
        return None

    def _computed(self, number: int) -> bool:
        """Return whether an operator or the user provides a tensor."""
        if number < 0:
            return False
        if not number < self.subgraph.TensorsLength():
            raise ModelError(
                f"an operator must use one of {self.subgraph.TensorsLength()} tensors, not {number}"
            )
        table = self.subgraph.Tensors(number)
        if table.IsVariable():
            return False
        if not 0 <= table.Buffer() < self.buffers:
            raise ModelError(
                f"tensor {number} must have one of {self.buffers} buffers, not {table.Buffer()}"
            )
        return bool(self.model.Buffers(table.Buffer()).DataLength() == 0)

    @staticmethod
    def _code(code: Any) -> str:
        number = operator_number(code)
        if number == tflite.BuiltinOperator.CUSTOM:
            return text(code.CustomCode())
        return enum_name(tflite.BuiltinOperator, number)

    def _name(self, index: int, operator: Any) -> str:
        code = operator.OpcodeIndex()
        if not 0 <= code < len(self.codes):
            raise ModelError(f"operator {index} must be one of {len(self.codes)} kinds, not {code}")
        return str(self.codes[code])

    def _item(self, index: int, name: str, operator: Any) -> Node | Foreign:
        """Return a node, or what the reference interpreter needs to know of an operator."""
        given = numbers(operator, "Inputs").tolist()
        made = numbers(operator, "Outputs").tolist()
        try:
            if name not in GRAPH_OPERATORS:
                raise Unsupported("has no kernel here")
            return self._node(Op(name), index, operator, given, made)
        except Unsupported as unsupported:
            return Foreign(
                name=name,
                index=index,
                inputs=tuple(given),
                outputs=tuple(made),
                reason=f"{name} {unsupported}",
            )
        except ModelError as error:
            raise ModelError(f"operator {index} ({name}) {error}") from None

    def _node(self, op: Op, index: int, operator: Any, given: list[int], made: list[int]) -> Node:
        if given and given[-1] == -1:
            del given[-1]
        if not given or not made or -1 in given:
            raise ModelError(f"must have its inputs and outputs, not {given} and {made}")
        if op in RESHAPES:
            del given[1:]
        inputs, outputs = ([self._peek(number) for number in side] for side in (given, made))
        attributes = READERS[op](operator, inputs, outputs)
        kept = [at for at in OPERANDS.get(op, range(len(given))) if at < len(given)]
        node = Node(
            op=op,
            inputs=tuple(given[at] for at in kept),
            outputs=tuple(made),
            attributes=attributes,
            index=index,
        )
        problem = misfit(node, [inputs[at] for at in kept], outputs)
        if problem is not None:
            raise Unsupported(problem)
        for number in (*node.inputs, *node.outputs):
            self._use(number)
        return node

    def _use(self, number: int) -> int:
        """Make a tensor the graph's, and return its number."""
        self.tensors[number] = self._peek(number)
        return number

    def _peek(self, number: int) -> Tensor:
        """Read a tensor when it is first asked for."""
        if number not in self.known:
            length = self.subgraph.TensorsLength()
            if not 0 <= number < length:
                raise ModelError(f"must use one of {length} tensors, not {number}")
            table = self.subgraph.Tensors(number)
            name = text(table.Name()) or f"tensor_{number}"
            try:
                self.known[number] = self._tensor(table, name)
            except ModelError as error:
                raise type(error)(f"uses tensor {number} ({name}), which {error}") from None
        return self.known[number]

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
