"""Finds functions of one value that a file computes in one step or in several, such as GELU."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from matloom.frontend.onnx.file_node import FileNode
from matloom.ir.graph import Array
from matloom.kernels.expressions import STEPS, evaluate, write_step
from matloom.kernels.functions import FUNCTIONS, closest_function

#: Steps that the engine computes with one operator or a few. A chain of such steps alone does not
#: become a function.
_ENGINE_STEPS = frozenset(
    {"Add", "Clip", "LeakyRelu", "Max", "Min", "Mul", "Neg", "Relu", "Sigmoid", "Sub", "Tanh"}
)
#: Steps that limit a value. A chain begins after such a step: the function then reads the limited
#: value, whose scale need not cover the original range.
_LIMITS = frozenset({"Clip", "Max", "Min", "Relu"})
#: Magnitude of a limit that a Clip does not state.
_NO_LIMIT = float(np.finfo(np.float32).max)
#: Numbers, including zero, at which two functions are compared.
_POINTS = np.linspace(-6, 6, 97)
#: Largest difference between equal functions: some constants in files are rounded to a few digits.
_TOLERANCE = 1e-4


@dataclass(frozen=True, kw_only=True)
class Chain:
    """A chain of element-wise operators, as one function of one value.

    Members
    -------
    source:
        Name of the value.
    text:
        The function as an expression of x.
    plain:
        Whether all its steps are operators of the engine.
    """

    source: str
    text: str
    plain: bool

    @property
    def function(self) -> str:
        """Name of the function in `FUNCTIONS`; if it is not there, the expression."""
        results = evaluate(self.text, _POINTS)
        return closest_function(FUNCTIONS, _POINTS, results, _TOLERANCE) or self.text


@dataclass(kw_only=True)
class Chains:
    """All chains of element-wise operators in a file, each a function of one value.

    `constants` are the file's constants by name; `chains` are the functions, by the name of their
    result.
    """

    constants: Mapping[str, Array]
    chains: dict[str, Chain] = field(default_factory=dict)

    def add(self, node: FileNode) -> None:
        """Add the output of an operator if it is a function of one value."""
        chain = self._find_chain(node)
        if chain is not None:
            self.chains[node.output] = chain

    def reciprocal(self, name: str) -> Chain:
        """Return the reciprocal of a value as a function, of the value's own source if possible."""
        chain = self.chains.get(name, Chain(source=name, text="x", plain=True))
        text = write_step("Reciprocal", [chain.text])
        if text is None:
            return Chain(source=name, text="Reciprocal(x)", plain=False)
        return Chain(source=chain.source, text=text, plain=False)

    def _find_chain(self, node: FileNode) -> Chain | None:
        """Return the chain of scalar functions that ends in a node; None if there is none."""
        if node.op == "Identity":
            return self.chains.get(node.source)
        if node.op not in STEPS or len(node.outputs) != 1:
            return None
        names = [name for name in node.inputs if name]
        if node.op in ("Max", "Min") and len(names) != 2:
            return None
        computed = [name for name in names if name not in self.constants]
        sources = {self._source(name) for name in computed}
        if len(sources) != 1:
            sources = set(computed)
        numbers = [self.constants[name] for name in names if name not in computed]
        scalars = all(
            each.size == 1 and each.dtype.kind == "f" and np.isfinite(each).all()
            for each in numbers
        )
        if len(sources) != 1 or not scalars:
            return None
        (source,) = sources
        operands = [self._operand_text(name, source) for name in names]
        if node.op == "Clip":
            operands = [operands[0], *self._clip_limits(node)]
        given = [float(node.options.get(key, value)) for key, value in STEPS[node.op][1].items()]
        text = write_step(node.op, [*operands, *given])
        inner = [self.chains[name].plain for name in computed if name != source]
        plain = all(inner) and self._is_plain(node)
        if text is None or (plain and node.op in _LIMITS):
            return None
        return Chain(source=source, text=text, plain=plain)

    def _is_plain(self, node: FileNode) -> bool:
        """Return whether the engine computes an operator without a table of the function."""
        last = self.constants.get(node.input(1))
        if node.op == "Pow":
            return last is not None and float(last.reshape(-1)[0]) == 2
        return node.op in _ENGINE_STEPS or (node.op == "Div" and last is not None)

    def _clip_limits(self, node: FileNode) -> list[float]:
        """Return the lower and the upper limit of a Clip.

        Older files state them as attributes, newer ones as constant inputs.
        """
        names = zip(("min", "max"), (-_NO_LIMIT, _NO_LIMIT), map(node.input, (1, 2)), strict=True)
        return [
            float(self.constants[name].reshape(-1)[0] if name else node.options.get(key, widest))
            for key, widest, name in names
        ]

    def _source(self, name: str) -> str:
        """Return the tensor that a value is computed from: the start of its chain, or itself."""
        return self.chains[name].source if name in self.chains else name

    def _operand_text(self, name: str, source: str) -> str | float:
        """Return an operand as a number, as `x` (the source) or as its chain's expression."""
        if name in self.constants:
            return float(self.constants[name].reshape(-1)[0])
        return "x" if name == source else self.chains[name].text


def find_chains(
    nodes: Sequence[FileNode], constants: Mapping[str, Array], outputs: Iterable[str]
) -> tuple[Chains, list[FileNode]]:
    """Return a file's chains of element-wise operators, and the operators still needed.

    An operator is needed if an output depends on it; a function depends only on its source, not on
    the steps in between. `nodes` must be in order of execution.
    """
    chains, sizes = Chains(constants=constants), set[str]()
    for node in nodes:
        if node.op == "Shape" or all(name in constants or name in sizes for name in node.inputs):
            # The reader knows what follows from shapes alone.
            sizes.update(node.outputs)
            continue
        chains.add(node)
    needed, kept = set(outputs), list[FileNode]()
    for node in reversed(nodes):
        if needed.isdisjoint(node.outputs):
            continue
        kept.append(node)
        needed.update(_needed_inputs(node, chains))
    return chains, kept[::-1]


def _needed_inputs(node: FileNode, chains: Chains) -> Sequence[str]:
    """Return the names of the values from which an operator, or its chain, is computed."""
    chain = chains.chains.get(node.output)
    if chain is not None and not chain.plain:
        return [chain.source]
    if node.op == "Div" and node.inputs[1] not in chains.constants:
        return [node.source, chains.reciprocal(node.inputs[1]).source]
    return node.inputs
