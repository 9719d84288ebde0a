"""Recognises functions of one tensor that a file computes step by step, such as GELU by Erf."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from matloom.frontend.onnx.file_node import FileNode
from matloom.ir.graph import Array
from matloom.kernels.functions import closest_function

_Numbers = npt.NDArray[np.float64]

_STEPS: Mapping[str, Callable[..., _Numbers]] = {
    "Add": np.add,
    "Div": np.divide,
    "Erf": np.vectorize(math.erf, otypes=[np.float64]),
    "Mul": np.multiply,
    "Pow": np.power,
    "Reciprocal": np.reciprocal,
    "Sqrt": np.sqrt,
    "Sub": np.subtract,
    "Tanh": np.tanh,
}
#: Numbers at which two functions are compared.
_POINTS = np.linspace(-5.9, 6.1, 97)
#: Constants of files are float32, and some are rounded to a few digits.
_NEAR = 1e-4
#: Functions that a file computes in several steps.
_RECOGNISED = ("GELU", "GELU_TANH", "RSQRT")


@dataclass(frozen=True, kw_only=True)
class Chain:
    """A function of one value: its name in `FUNCTIONS`, and the name of the value."""

    function: str
    source: str


@dataclass(kw_only=True)
class _Known:
    """Values as functions of one other value: its name, and results at `_POINTS`."""

    constants: Mapping[str, Array]
    values: dict[str, tuple[str, _Numbers]] = field(default_factory=dict)

    def add(self, node: FileNode) -> None:
        """Add the output of an operator if it is a function of one value."""
        step = _STEPS.get(node.op)
        if step is None:
            return
        computed = [name for name in node.inputs if name not in self.constants]
        sources = {self.values[name][0] if name in self.values else name for name in computed}
        roots = sources if len(sources) == 1 else set(computed)
        scalars = all(
            self.constants[name].size == 1 for name in node.inputs if name not in computed
        )
        if len(roots) != 1 or not scalars:
            return
        (source,) = roots
        operands = [self._points(name, source) for name in node.inputs]
        with np.errstate(all="ignore"):
            self.values[node.output] = source, np.asarray(step(*operands), np.float64)

    def _points(self, name: str, source: str) -> _Numbers:
        if name in self.constants:
            return np.full(_POINTS.shape, self.constants[name].reshape(-1)[0], np.float64)
        return _POINTS if name == source else self.values[name][1]


def find_chains(
    nodes: Sequence[FileNode], constants: Mapping[str, Array], outputs: Iterable[str]
) -> tuple[dict[str, Chain], list[FileNode]]:
    """Return the values that are functions of another one, and the operators still needed.

    Values that only such a function reads are not needed.
    """
    known, found = _Known(constants=constants), dict[str, Chain]()
    sizes = set[str]()
    for node in nodes:
        if node.op == "Shape" or all(name in constants or name in sizes for name in node.inputs):
            # The reader knows what follows from shapes alone.
            sizes.update(node.outputs)
            continue
        known.add(node)
        if len(node.outputs) == 1 and node.output in known.values:
            source, points = known.values[node.output]
            name = closest_function(_RECOGNISED, _POINTS, points, _NEAR)
            if name is not None:
                found[node.output] = Chain(function=name, source=source)
    needed, kept = set(outputs), list[FileNode]()
    for node in reversed(nodes):
        if needed.isdisjoint(node.outputs):
            continue
        kept.append(node)
        chain = found.get(node.output)
        needed.update(node.inputs if chain is None else [chain.source])
    return found, kept[::-1]
