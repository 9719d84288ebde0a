"""Operators registered by users, and runs of their kernels."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from matloom.errors import UserError, did_you_mean
from matloom.ir.graph import Array, Graph, Node, Op, Tensor

Shape = tuple[int, ...]


class OperatorError(UserError):
    """Error raised if a registered operator fails, contradicts the model file, or is unknown."""

    hint = "docs/own-operators.md says what shape, kernel and stages must return"


@dataclass(frozen=True, kw_only=True)
class OperatorUse:
    """One use of a registered operator in a network, as its kernel and stages receive it.

    Its `attributes` come from the file: the attributes of an ONNX node by name; for a TensorFlow
    Lite operator, the entries of its FlexBuffer, or ``options`` with the bytes of any other
    options.

    Members
    -------
    inputs, outputs:
        Tensors with shape, dtype, and scale and zero point if any; constants also have `data`.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


Kernel = Callable[..., Any]
Stages = Callable[..., int | Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class RegisteredOperator:
    """An operator by name: its output shapes, its kernel and, optionally, its stages."""

    name: str
    shape: Callable[..., Any]
    kernel: Kernel
    stages: Stages | None = None


_operators: dict[str, RegisteredOperator] = {}


def register_operator(
    name: str, *, shape: Callable[..., Any], kernel: Kernel, stages: Stages | None = None
) -> None:
    """Register an operator by name, for networks loaded afterwards.

    When a network is loaded, the shapes must match its file, the kernel must return outputs of
    these shapes and types, and the stages must give the same results as the kernel: exactly for
    integers, within 1e-5 of the largest value for floating-point numbers.

    Parameters
    ----------
    name:
        The custom code of a TensorFlow Lite operator, or domain and type of an ONNX node:
        ``"com.example.Scale"``.
    shape:
        ``shape(*input_shapes, **attributes)`` returns the shape of the output, a tuple, or a list
        of shapes for several outputs.
    kernel:
        ``kernel(use, *arrays)`` returns the output, an array, or a list of several. It defines the
        operator, and runs on the host. `use` is an `OperatorUse`.
    stages:
        ``stages(use, builder, *numbers)`` builds the operator from Matloom's own in a
        `GraphBuilder`, and returns the number of the output, or a list of several; the engine then
        runs as many of them as it can. `numbers` are the tensor numbers of the inputs.

    Raises
    ------
    OperatorError
        The name is already registered, or is one of Matloom's own operators.
    """
    if not isinstance(name, str) or not name:
        raise OperatorError(
            f"an operator's name must be a string, not {name!r}",
            hint="matloom.register_operator('NAME', ...)",
        )
    if name in set(Op):
        raise OperatorError(
            f"{name} is an operator of Matloom: a new one must have another name",
            hint="choose another name",
        )
    if name in _operators:
        raise OperatorError(
            f"{name} is registered already", hint=f"call unregister_operator({name!r}) first"
        )
    _operators[name] = RegisteredOperator(name=name, shape=shape, kernel=kernel, stages=stages)


def unregister_operator(name: str) -> None:
    """Remove a registered operator; programs that run its kernel fail from then on.

    Raises `OperatorError` for a name that is not registered.
    """
    if name not in _operators:
        raise OperatorError(f"{name} is not registered", hint=did_you_mean(name, _operators))
    del _operators[name]


def find_registered(name: str) -> RegisteredOperator | None:
    """Return the operator registered under a name; None if there is none."""
    return _operators.get(name)


def declared_outputs(operator: RegisteredOperator, use: OperatorUse) -> list[Shape]:
    """Return the output shapes by an operator's `shape`; raise `OperatorError` if that fails."""
    shapes = [tensor.shape for tensor in use.inputs]
    try:
        found = operator.shape(*shapes, **use.attributes)
    # The function is user code.
    except Exception as error:
        raise _operator_error(operator, "shape", error) from error
    several = isinstance(found, list)
    try:
        return [tuple(map(int, shape)) for shape in (found if several else [found])]
    except TypeError:
        raise OperatorError(
            f"shape of {operator.name} must return a tuple of sizes, or a list of such tuples, "
            f"not {found!r}"
        ) from None


def run_kernel(
    operator: RegisteredOperator, use: OperatorUse, arrays: Sequence[Array]
) -> tuple[Array, ...]:
    """Run an operator's kernel; return its outputs, checked against `use.outputs` if not empty.

    Raises
    ------
    OperatorError
        The kernel fails, or its outputs have other shapes or types.
    """
    try:
        # Copied, so that a kernel that writes to its inputs changes nothing else.
        found = operator.kernel(use, *(np.array(array) for array in arrays))
    # The function is user code.
    except Exception as error:
        raise _operator_error(operator, "kernel", error) from error
    results = tuple(map(np.asarray, found if isinstance(found, (list, tuple)) else [found]))
    if not use.outputs:
        return results
    have = [(array.dtype.name, array.shape) for array in results]
    want = [(tensor.dtype, tensor.shape) for tensor in use.outputs]
    if have != want:
        listed = [", ".join(f"{dtype} {shape}" for dtype, shape in side) for side in (want, have)]
        raise OperatorError(f"kernel of {operator.name} must return {listed[0]}, not {listed[1]}")
    return results


def _operator_error(operator: RegisteredOperator, action: str, error: Exception) -> OperatorError:
    """Return the error that a user's function raised, as a sentence about its operator."""
    line = " ".join(str(error).split())
    return OperatorError(f"{action} of {operator.name} failed: {type(error).__name__}: {line}")


class RegisteredRun:
    """Runs one REFERENCE node with a registered operator; its last input encodes the attributes.

    Raises
    ------
    OperatorError
        The operator is not registered in this process.
    """

    def __init__(self, graph: Graph, node: Node, name: str) -> None:
        operator = find_registered(name)
        if operator is None:
            raise OperatorError(
                f"{name} is not registered",
                hint="call matloom.register_operator with its kernel first",
            )
        self._operator = operator
        data = graph.tensors[node.inputs[-1]].data
        assert data is not None
        self._use = OperatorUse(
            inputs=tuple(graph.tensors[number] for number in node.inputs[:-1]),
            outputs=tuple(graph.tensors[number] for number in node.outputs),
            attributes=_decode(data.tobytes()),
        )

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Run the kernel on the operator's inputs; return outputs, or raise `OperatorError`."""
        return run_kernel(self._operator, self._use, inputs)


def options_tensor(name: str, attributes: Mapping[str, Any]) -> Tensor:
    """Return attributes encoded as a constant of bytes, which a program file can store.

    Raises
    ------
    OperatorError
        A value is not a number, string, bytes, array, or list or mapping of these.
    """
    try:
        text = json.dumps(dict(attributes), default=_to_json, sort_keys=True)
    except TypeError as error:
        raise OperatorError(f"{name} has an attribute that cannot be kept: {error}") from None
    data = np.frombuffer(text.encode(), np.uint8)
    return Tensor(name=f"attributes of {name}", shape=data.shape, dtype="uint8", data=data)


def _to_json(value: Any) -> Any:
    """Return bytes, arrays or NumPy numbers as dicts that JSON can hold."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, (np.ndarray, np.generic)):
        return {"array": value.tolist(), "dtype": value.dtype.name}
    raise TypeError(f"a {type(value).__name__}")


def _decode(content: bytes) -> dict[str, Any]:
    """Return the attributes of an operator from their JSON text."""
    found: dict[str, Any] = json.loads(content, object_hook=_value)
    return found


def _value(entry: dict[str, Any]) -> Any:
    """Return an attribute from its JSON form: bytes, an array, or other data as they are."""
    if set(entry) == {"bytes"}:
        return bytes.fromhex(entry["bytes"])
    if set(entry) == {"array", "dtype"}:
        return np.array(entry["array"], entry["dtype"])
    return entry
