"""Runs operators without a kernel here on an installed reference interpreter.

Operators of TensorFlow Lite run on TensorFlow Lite Micro or, if it refuses them, on LiteRT's
reference kernels. Operators of ONNX run on ONNX Runtime or, if it refuses them, on ONNX's reference
implementation. Each is imported when a network needs it. Operators that users register run on their
own kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from textwrap import shorten

import numpy as np

from matloom.errors import UserError, install_command
from matloom.ir.attributes import INTERPRETERS, ONNX_INTERPRETERS, REGISTERED, Reference
from matloom.ir.graph import Array, Graph, Node
from matloom.kernels.cut import cut_file
from matloom.kernels.interpreters import LIBRARIES, Cut
from matloom.kernels.onnx_model import cut_model
from matloom.kernels.probe import failure_reason, is_timeout, refusals
from matloom.kernels.registered import RegisteredRun, find_registered

#: Maximum number of characters of a reason in a message: names in a file may have any length.
_LONGEST_REASON = 400
#: Name for users of each package's interpreter.
INTERPRETER_NAMES = {
    "tflite-micro": "TensorFlow Lite Micro",
    "ai-edge-litert": "LiteRT's reference kernels",
    "onnxruntime": "ONNX Runtime",
    "onnx": "ONNX's reference implementation",
    REGISTERED[0]: "the kernel that is registered for it",
}


class InterpreterError(UserError):
    """Error raised if no installed interpreter runs some operators, which the message names."""

    hint = "change the operator in the network, or give it a kernel (docs/own-operators.md)"


@dataclass(kw_only=True)
class Choice:
    """The interpreter chosen to run the operators of one REFERENCE node.

    Members
    -------
    package:
        Package of the interpreter; empty if no suitable one is installed.
    cut:
        The file that it runs; None for a registered kernel, or if `package` is empty.
    missing:
        Preferred packages that are not installed.
    refusals:
        Reasons of preferred packages that refuse the operators, by package.
    """

    attributes: Reference
    package: str = ""
    cut: Cut | None = None
    missing: list[str] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a phrase for `explain` on where the operators run, and why there."""
        if not self.package:
            return "on a reference interpreter, of which none is installed here"
        because = [f"{other} refuses: {line}" for other, line in self.refusals.items()]
        because += [f"{other} is not installed" for other in self.missing]
        if self.attributes.interpreters == INTERPRETERS[1:]:
            because.append("which checks operators")
        return f"on {INTERPRETER_NAMES[self.package]}" + (
            f" ({'; '.join(because)})" if because else ""
        )

    @property
    def allowed(self) -> tuple[str, ...]:
        """Packages of the interpreters that may run the operators here.

        ONNX's reference implementation runs only what ONNX Runtime refuses, so it may not run
        anything if ONNX Runtime is not installed.
        """
        own = self.attributes.interpreters
        return own[:1] if own == ONNX_INTERPRETERS and own[0] in self.missing else own

    def error(self) -> InterpreterError:
        """Return the error for operators that no interpreter runs."""
        if self.attributes.interpreters == REGISTERED:
            return InterpreterError(
                f"{self.attributes.operators[0]} is not registered here",
                hint="call matloom.register_operator with its kernel first",
            )
        late = any(map(is_timeout, self.refusals.values()))
        missing = [name for name in self.allowed if name not in self.refusals and not late]
        tried = [f"{name} refuses: {line}" for name, line in self.refusals.items()]
        tried += [f"{name} is not installed" for name in missing]
        operators = _shorten(", ".join(dict.fromkeys(self.attributes.operators)))
        reasons = _shorten("; ".join(dict.fromkeys(self.attributes.reasons)))
        return InterpreterError(
            f"{operators} must run on a reference interpreter ({reasons}), but {'; '.join(tried)}",
            hint=f"run: {install_command(*missing)}" if missing else "",
        )


def choose(graph: Graph, nodes: Sequence[Node]) -> list[Choice]:
    """Return the interpreter of each REFERENCE node; a package tries all its nodes in one process.

    Raises
    ------
    InterpreterError
        An interpreter is installed, but none runs the operators of some node.
    """
    choices = [Choice(attributes=node.attributes_as(Reference)) for node in nodes]
    for package in (*INTERPRETERS, *ONNX_INTERPRETERS):
        cuts = {}
        for at, node in enumerate(nodes):
            late = any(map(is_timeout, choices[at].refusals.values()))
            if not choices[at].package and not late and package in choices[at].allowed:
                cut = _cut_file(graph, node, package, choices[at])
                if cut is not None:
                    cuts[at] = cut
        lines = refusals(package, list(cuts.values())) if cuts else []
        for (at, cut), line in zip(cuts.items(), lines, strict=True):
            if line:
                choices[at].refusals[package] = _shorten(line)
            else:
                choices[at].package, choices[at].cut = package, cut
    for choice in choices:
        if choice.attributes.interpreters == REGISTERED:
            (package,) = REGISTERED
            if find_registered(choice.attributes.operators[0]) is None:
                choice.refusals[package] = "it is not registered"
            else:
                choice.package = package
        if not choice.package and choice.refusals:
            raise choice.error()
    return choices


def _shorten(line: str) -> str:
    """Return a line, shortened if it is longer than a message should be."""
    return shorten(line, _LONGEST_REASON, placeholder=" ...")


def _cut_file(graph: Graph, node: Node, package: str, choice: Choice) -> Cut | None:
    """Return the file for an interpreter, or None after noting in `choice` why there is none."""
    content = graph.tensors[node.inputs[-1]].data
    assert content is not None
    try:
        if package in ONNX_INTERPRETERS:
            if find_spec(package) is None:
                raise ImportError
            return cut_model(content.tobytes(), choice.attributes)
        return cut_file(content.tobytes(), choice.attributes, package)
    except ImportError:
        choice.missing.append(package)
    except Exception as error:
        # Damage surfaces as any exception: struct.error, AttributeError.
        choice.refusals[package] = (str(error).strip().splitlines() or [type(error).__name__])[-1]
    return None


class ReferenceRun:
    """The operators of one REFERENCE node; their state is kept from run to run.

    Raises
    ------
    InterpreterError
        No interpreter is installed, or none accepts the operators.
    """

    def __init__(self, graph: Graph, node: Node) -> None:
        (self._choice,) = choose(graph, [node])
        self._own: RegisteredRun | None = None
        if self._choice.attributes.interpreters == REGISTERED:
            self._own = RegisteredRun(graph, node, self._choice.attributes.operators[0])
            return
        if self._choice.cut is None:
            raise self._choice.error()
        self._shapes = [graph.tensors[number].shape for number in node.outputs]
        self._library = LIBRARIES[self._choice.package](self._choice.cut)

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Run the operators on the node's inputs, of which the last is the file; return outputs.

        Outputs have the shapes of the graph's tensors, unless a shape depends on values.

        Raises
        ------
        InterpreterError
            The operators fail on these inputs.
        OperatorError
            The kernel of a registered operator fails.
        """
        if self._own is not None:
            return self._own.run(inputs[:-1])
        arrays = [np.asarray(array, order="C") for array in inputs[:-1]]
        try:
            outputs = self._library.run(arrays)
        except (RuntimeError, ValueError) as error:
            raise self._run_error(arrays, error) from None
        return tuple(
            to_declared_shape(np.array(array), shape)
            for array, shape in zip(outputs, self._shapes, strict=True)
        )

    def _run_error(self, inputs: Sequence[Array], error: Exception) -> InterpreterError:
        """Return the error that says which operators failed in which interpreter, and why."""
        package, cut = self._choice.package, self._choice.cut
        assert cut is not None
        line = failure_reason(package, cut, inputs) or str(error).strip().splitlines()[0]
        operators = ", ".join(dict.fromkeys(self._choice.attributes.operators))
        return InterpreterError(f"{operators} failed in {package}: {line}")


def to_declared_shape(array: Array, shape: tuple[int, ...]) -> Array:
    """Return an array in the declared shape, or unchanged if its number of elements differs.

    The number differs only for outputs whose shape depends on values.
    """
    return array.reshape(shape) if array.size == np.prod(shape, dtype=np.int64) else array
