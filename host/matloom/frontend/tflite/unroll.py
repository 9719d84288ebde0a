"""Writes out branches and loops with quantised layers, instead of IF and WHILE.

The operators of a branch or a body are then compiled like all others. Both branches of an IF run,
and SELECT_V2 chooses between their results, so their operators must be unable to fail. The
iterations of a WHILE run one after the other if constants of the file decide their number.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tflite

from matloom.frontend.tflite.control import CONTROL, LAYERS, is_static
from matloom.frontend.tflite.flatbuffer import enum_name
from matloom.frontend.tflite.tensors import FileTensors
from matloom.ir.graph import Array
from matloom.kernels.cut import plain_model, serialise

#: Maximum number of operators in all iterations of a loop together; longer loops stay loops.
_MAX_OPERATORS = 512
_CANNOT_FAIL = LAYERS | {
    *("ADD", "AVERAGE_POOL_2D", "CONCATENATION", "DEQUANTIZE", "EXPAND_DIMS", "HARD_SWISH"),
    *("LEAKY_RELU", "LOGISTIC", "MAXIMUM", "MAX_POOL_2D", "MEAN", "MINIMUM", "MUL", "PAD", "PADV2"),
    *("PRELU", "QUANTIZE", "RELU", "RELU6", "RELU_N1_TO_1", "RESHAPE", "SOFTMAX", "SQUEEZE", "SUB"),
    *("TANH", "TRANSPOSE"),
}
#: Operators that compute counters and conditions, with their functions in NumPy.
_COUNTS: dict[str, Callable[..., Array]] = {
    **{"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "EQUAL": np.equal},
    **{"NOT_EQUAL": np.not_equal, "LESS": np.less, "LESS_EQUAL": np.less_equal},
    **{"GREATER": np.greater, "GREATER_EQUAL": np.greater_equal},
    **{"LOGICAL_AND": np.logical_and, "LOGICAL_OR": np.logical_or, "LOGICAL_NOT": np.logical_not},
}
_TYPES: dict[int, np.dtype[Any]] = {
    tflite.TensorType.INT32: np.dtype(np.int32),
    tflite.TensorType.INT64: np.dtype(np.int64),
    tflite.TensorType.BOOL: np.dtype(np.bool_),
}
_Known = Mapping[int, Array]
_WORDS = (tflite.TensorType.INT8, tflite.TensorType.INT16)
_PACKAGE = "ai-edge-litert"


class _RefusedError(Exception):
    """Error for a branch or loop that cannot be written out and stays unchanged."""


def unroll_control_flow(content: bytes) -> bytes:
    """Return the content of a file in which branches and loops of quantised layers are written out.

    Only those of the first subgraph are written out, and only if no other subgraph has state or
    control flow. Otherwise, or if LiteRT, whose schema writes the file, is not installed, `content`
    is returned unchanged.
    """
    model = tflite.Model.GetRootAs(content)
    count = model.SubgraphsLength()
    parts = [FileTensors(content, model, model.Subgraphs(at)) for at in range(1, count)]
    if not parts or not all(map(is_static, parts)):
        return content
    try:
        return _rewrite(plain_model(content, _PACKAGE)) or content
    # LiteRT is not installed, or the file is damaged, which its reader reports.
    except (ImportError, AttributeError, LookupError, TypeError, ValueError):
        return content


def _rewrite(objects: Any) -> bytes:
    """Return a model's content with branches and loops written out; empty if none can be."""
    objects.buffers, objects.operatorCodes = list(objects.buffers), list(objects.operatorCodes)
    main, left, changed = objects.subgraphs[0], False, False
    main.tensors, operators = list(main.tensors), []
    for at, operator in enumerate(main.operators):
        if _operator_name(objects, operator) not in CONTROL:
            operators.append(operator)
            continue
        try:
            operators += _Writer(objects, operator, f"operator {at}").operators()
            changed = True
        except _RefusedError:
            operators.append(operator)
            left = True
    if not changed:
        return b""
    main.operators = operators
    if not left:
        objects.subgraphs = [main]
    return serialise(objects)


def _operator_name(model: Any, operator: Any) -> str:
    """Return the name of an operator's kind, such as WHILE."""
    code = model.operatorCodes[operator.opcodeIndex]
    return enum_name(tflite.BuiltinOperator, max(code.builtinCode, code.deprecatedBuiltinCode))


class _Writer:
    """Writes out one IF or WHILE of a model, and adds the tensors to the first subgraph."""

    def __init__(self, model: Any, operator: Any, label: str) -> None:
        self.model, self.main, self.operator = model, model.subgraphs[0], operator
        self.label, self.replacement = label, list[Any]()
        self._constants: dict[tuple[int, int], int] = {}
        self.is_loop = _operator_name(model, operator) == "WHILE"
        options = operator.builtinOptions
        numbers = (
            (options.condSubgraphIndex, options.bodySubgraphIndex)
            if self.is_loop
            else (options.thenSubgraphIndex, options.elseSubgraphIndex)
        )
        self.called = [model.subgraphs[number] for number in numbers]
        layers = [
            each
            for each in self.called
            for item in each.operators
            if self._is_word_layer(each, item)
        ]
        if not layers:
            raise _RefusedError

    def operators(self) -> list[Any]:
        """Return the operators that replace the IF or WHILE, or raise `_RefusedError`."""
        (self._unroll_loop if self.is_loop else self._write_branches)()
        return self.replacement

    def _is_word_layer(self, graph: Any, operator: Any) -> bool:
        """Return whether an operator is a layer whose input is int8 or int16."""
        given = graph.tensors[operator.inputs[0]]
        return _operator_name(self.model, operator) in LAYERS and given.type in _WORDS

    def _write_branches(self) -> None:
        """Add the operators of both branches, and a choice for each output."""
        condition, *given = map(int, self.operator.inputs)
        chosen = []
        for branch, side in zip(self.called, ("then", "else"), strict=True):
            if not {_operator_name(self.model, each) for each in branch.operators} <= _CANNOT_FAIL:
                raise _RefusedError
            self._require_same(branch, branch.inputs, given)
            self._require_same(branch, branch.outputs, self.operator.outputs)
            inside = dict(zip(map(int, branch.inputs), given, strict=True))
            chosen.append(self._inline(branch, inside, {}, f"{self.label} {side}"))
        for one, other, made in zip(*chosen, self.operator.outputs, strict=True):
            self._add_operator("SELECT_V2", [condition, one, other], int(made))

    def _unroll_loop(self) -> None:
        """Add the operators of each iteration, and copies to the outputs of the loop."""
        condition, body = self.called
        carried = list(map(int, self.operator.inputs))
        for graph, side in (
            (condition, condition.inputs),
            (body, body.inputs),
            (body, body.outputs),
            (self.main, self.operator.outputs),
        ):
            self._require_same(graph, side, carried)
        values = {at: self._known_value(self.main, number) for at, number in enumerate(carried)}
        iteration = 0
        while self._loop_continues(condition, values):
            if (iteration + 1) * max(1, len(body.operators)) > _MAX_OPERATORS:
                raise _RefusedError
            label = f"{self.label} iteration {iteration}"
            known = self._known_integers(body, values)
            carried = self._inline(
                body, dict(zip(map(int, body.inputs), carried, strict=True)), known, label
            )
            values = {at: known.get(int(number)) for at, number in enumerate(body.outputs)}
            iteration += 1
        for number, made in zip(carried, self.operator.outputs, strict=True):
            shape = np.array(self.main.tensors[int(made)].shape, np.int32)
            sizes = self._add_constant(shape, f"{self.label} shape {made}")
            self._add_operator("RESHAPE", [number, sizes], int(made))

    def _loop_continues(self, condition: Any, values: Mapping[int, Array | None]) -> bool:
        """Return whether the loop continues for known values; else raise `_RefusedError`."""
        found = self._known_integers(condition, values).get(int(condition.outputs[0]))
        if found is None or found.size != 1:
            raise _RefusedError
        return bool(found.item())

    def _known_integers(self, graph: Any, inputs: Mapping[int, Array | None]) -> dict[int, Array]:
        """Return, by tensor number, integers of a subgraph that known inputs determine."""
        known = {
            int(number): value
            for number, value in zip(graph.inputs, inputs.values(), strict=True)
            if value is not None
        }
        for operator in graph.operators:
            name = _operator_name(self.model, operator)
            values = [self._known_value(graph, int(at), known) for at in operator.inputs]
            fused = getattr(operator.builtinOptions, "fusedActivationFunction", 0)
            if name in _COUNTS and not fused and all(value is not None for value in values):
                known[int(operator.outputs[0])] = _COUNTS[name](*values)
        return known

    def _known_value(self, graph: Any, number: int, known: _Known | None = None) -> Array | None:
        """Return a tensor's integers or booleans if it is in `known` or constant; None if not."""
        if known and number in known:
            return known[number]
        tensor = graph.tensors[number]
        data = self.model.buffers[tensor.buffer].data
        if data is None or not len(data) or tensor.type not in _TYPES:
            return None
        shape = () if tensor.shape is None else tuple(map(int, tensor.shape))
        found: Array = np.frombuffer(bytes(data), _TYPES[tensor.type]).reshape(shape)
        return found

    def _inline(self, graph: Any, inside: dict[int, int], known: _Known, label: str) -> list[int]:
        """Add the operators of a branch or an iteration; return the numbers of its outputs.

        `inside` maps tensors of the branch or body to those of the first subgraph; initially, it
        holds the inputs. Operators whose results are in `known` are left out.
        """
        for operator in graph.operators:
            if all(int(number) in known for number in operator.outputs):
                continue
            item = copy.copy(operator)
            item.inputs = [
                self._inner_tensor(graph, int(at), inside, known, label) for at in operator.inputs
            ]
            made = map(int, operator.outputs)
            item.outputs = [self._add_tensor(graph, number, inside, label) for number in made]
            self.replacement.append(item)
        return [self._inner_tensor(graph, int(at), inside, known, label) for at in graph.outputs]

    def _inner_tensor(
        self, graph: Any, number: int, inside: dict[int, int], known: _Known, label: str
    ) -> int:
        """Return the number, in the first subgraph, for tensor `number` of a branch or body."""
        if number < 0:
            return number
        if number in known:
            name = f"{graph.tensors[number].name!r} ({label})"
            return self._add_constant(known[number], name, graph.tensors[number])
        if number in inside:
            return inside[number]
        # All that remains are constants, which iterations share.
        key = (self.called.index(graph), number)
        if key not in self._constants:
            self._constants[key] = self._add_tensor(graph, number, {}, self.label)
        return self._constants[key]

    def _add_tensor(self, graph: Any, number: int, inside: dict[int, int], label: str) -> int:
        """Copy a tensor of a branch or body to the first subgraph; return its number there."""
        tensor = copy.copy(graph.tensors[number])
        tensor.name = b"%s (%s)" % (tensor.name or b"", label.encode())
        self.main.tensors.append(tensor)
        inside[number] = len(self.main.tensors) - 1
        return inside[number]

    def _add_constant(self, data: Array, name: str, like: Any = None) -> int:
        """Add a constant with the type of `like`, by default int32; return its number."""
        tensor = type(self.main.tensors[0])() if like is None else copy.copy(like)
        if like is None:
            tensor.shape, tensor.type = np.array(data.shape, np.int32), tflite.TensorType.INT32
        tensor.name, tensor.buffer = name.encode(), len(self.model.buffers)
        held = type(self.model.buffers[0])()
        held.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        self.model.buffers.append(held)
        self.main.tensors.append(tensor)
        return len(self.main.tensors) - 1

    def _add_operator(self, name: str, inputs: Sequence[int], output: int) -> None:
        """Add an operator without options."""
        number = getattr(tflite.BuiltinOperator, name)
        codes = [
            max(each.builtinCode, each.deprecatedBuiltinCode) for each in self.model.operatorCodes
        ]
        if number not in codes:
            code = type(self.model.operatorCodes[0])()
            code.builtinCode, code.version = number, 1
            code.deprecatedBuiltinCode = min(
                number, tflite.BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES
            )
            self.model.operatorCodes.append(code)
            codes.append(number)
        item = type(self.operator)()
        item.opcodeIndex, item.inputs, item.outputs = codes.index(number), inputs, [output]
        item.builtinOptionsType = tflite.BuiltinOptions.NONE
        self.replacement.append(item)

    def _require_same(self, graph: Any, inside: Sequence[int], outside: Sequence[int]) -> None:
        """Raise `_RefusedError` unless tensors agree in type, shape and quantisation."""
        kinds = [
            [_signature_of(each.tensors[int(number)]) for number in side]
            for each, side in ((graph, inside), (self.main, outside))
        ]
        if kinds[0] != kinds[1]:
            raise _RefusedError


def _signature_of(tensor: Any) -> tuple[Any, ...]:
    """Return a tensor's type, shape, scales and zero points, to compare."""
    shape = [] if tensor.shape is None else list(map(int, tensor.shape))
    scales = tensor.quantization
    if scales is None or scales.scale is None:
        return tensor.type, shape, [], []
    zeros = [] if scales.zeroPoint is None else list(map(int, scales.zeroPoint))
    return tensor.type, shape, list(map(float, scales.scale)), zeros
