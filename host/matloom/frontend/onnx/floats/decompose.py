"""Decomposes operators of ONNX into several simpler ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from matloom.frontend.onnx.file_node import FileNode
from matloom.ir.graph import Array

#: Lower limit of a norm, so that a vector of zeros is not divided by zero.
_BELOW_ANY_NORM = 1e-30


@dataclass(kw_only=True)
class _Parts:
    """The simpler operators, `nodes`, that replace the operator `node`.

    Constants that they read are added to `constants`, by name.
    """

    node: FileNode
    constants: dict[str, Array]
    nodes: list[FileNode] = field(default_factory=list)

    def add(self, op: str, *inputs: str, **options: object) -> str:
        """Add an operator; return the name of its output."""
        name = f"{self.node.output}/{len(self.nodes)}"
        self.nodes.append(
            replace(self.node, op=op, inputs=inputs, outputs=(name,), options=options)
        )
        return name

    def reduce(self, op: str, name: str, **options: object) -> str:
        """Add a reduction of a value along the axes of `node`; return the name of its output.

        `options` override the attributes of `node`.
        """
        self.nodes.append(
            replace(
                self.node,
                op=op,
                inputs=(name, *self.node.inputs[1:]),
                outputs=(f"{self.node.output}/{len(self.nodes)}",),
                options={**self.node.options, **options},
            )
        )
        return self.nodes[-1].output

    def number(self, value: float) -> str:
        """Add a constant without axes; return its name."""
        name = f"{self.node.output}/number {value!r}"
        self.constants[name] = np.array(value, np.float32)
        return name

    def finish(self) -> Iterator[FileNode]:
        """Yield the operators; the last one makes the outputs of the original."""
        yield from self.nodes[:-1]
        yield replace(self.nodes[-1], outputs=self.node.outputs)


def _decompose_l1_norm(parts: _Parts) -> None:
    """Replace ReduceL1 by a sum of absolute values."""
    parts.reduce("ReduceSum", parts.add("Abs", parts.node.source))


def _decompose_square_sum(parts: _Parts) -> str:
    """Replace ReduceSumSquare by a sum of squares, and return the sum's name."""
    source = parts.node.source
    return parts.reduce("ReduceSum", parts.add("Mul", source, source))


def _decompose_l2_norm(parts: _Parts) -> None:
    """Replace ReduceL2 by the square root of a sum of squares."""
    parts.add("Sqrt", _decompose_square_sum(parts))


def _decompose_log_sum(parts: _Parts) -> None:
    """Replace ReduceLogSum by the logarithm of a sum."""
    parts.add("Log", parts.reduce("ReduceSum", parts.node.source))


def _decompose_log_sum_of_exponentials(parts: _Parts) -> None:
    """Decompose ReduceLogSumExp; the maximum is subtracted first, so that nothing overflows."""
    source = parts.node.source
    most = parts.reduce("ReduceMax", source, keepdims=1)
    shares = parts.add("Exp", parts.add("Sub", source, most))
    logarithm = parts.add("Log", parts.reduce("ReduceSum", shares))
    parts.add("Add", logarithm, parts.reduce("ReduceMax", source))


def _decompose_reduce_min(parts: _Parts) -> None:
    """Replace ReduceMin by the negative maximum of the negatives."""
    parts.add("Neg", parts.reduce("ReduceMax", parts.add("Neg", parts.node.source)))


def _decompose_lp_normalisation(parts: _Parts) -> None:
    """Decompose LpNormalization: a value divided by its norm along an axis; zeros stay zeros."""
    node = parts.node
    source, axis = node.source, [int(node.options.get("axis", -1))]
    squares = node.options.get("p", 2) == 2
    each = parts.add("Mul", source, source) if squares else parts.add("Abs", source)
    places = f"{node.output}/axes"
    parts.constants[places] = np.array(axis, np.int64)
    norm = parts.add("ReduceSum", each, places, keepdims=1)
    norm = parts.add("Sqrt", norm) if squares else norm
    parts.add("Div", source, parts.add("Max", norm, parts.number(_BELOW_ANY_NORM)))


def _decompose_mish(parts: _Parts) -> None:
    """Replace Mish by x * tanh(softplus(x))."""
    source = parts.node.source
    parts.add("Mul", source, parts.add("Tanh", parts.add("Softplus", source)))


def _decompose_swish(parts: _Parts) -> None:
    """Replace Swish by x * sigmoid(alpha * x)."""
    source, alpha = parts.node.source, float(parts.node.options.get("alpha", 1.0))
    scaled = source if alpha == 1 else parts.add("Mul", source, parts.number(alpha))
    parts.add("Mul", source, parts.add("Sigmoid", scaled))


def _decompose_sum_or_mean(parts: _Parts) -> None:
    """Decompose Sum and Mean of any number of values."""
    total, *others = parts.node.inputs
    for other in others:
        total = parts.add("Add", total, other)
    if not others:
        parts.add("Identity", total)
    elif parts.node.op == "Mean":
        parts.add("Mul", total, parts.number(1 / len(parts.node.inputs)))


#: Functions that decompose an operator, by its name.
DECOMPOSITIONS: Mapping[str, Callable[[_Parts], object]] = {
    "LpNormalization": _decompose_lp_normalisation,
    "Mean": _decompose_sum_or_mean,
    "Mish": _decompose_mish,
    "ReduceL1": _decompose_l1_norm,
    "ReduceL2": _decompose_l2_norm,
    "ReduceLogSum": _decompose_log_sum,
    "ReduceLogSumExp": _decompose_log_sum_of_exponentials,
    "ReduceMin": _decompose_reduce_min,
    "ReduceSumSquare": _decompose_square_sum,
    "Sum": _decompose_sum_or_mean,
    "Swish": _decompose_swish,
}
#: float32, float16, float64 and bfloat16 in `onnx.TensorProto.DataType`.
_FLOATS = frozenset({1, 10, 11, 16})


def decompose(nodes: Iterable[FileNode], constants: dict[str, Array]) -> Iterator[FileNode]:
    """Yield the operators of a file, some of them decomposed into several simpler ones.

    Constants that the simpler operators read are added to `constants`. A Where that replaces NaN is
    left out: exporters add it after a Softmax whose mask may exclude a whole row.
    """
    tested = dict[str, str]()
    for node in nodes:
        parts = _Parts(node=node, constants=constants)
        if node.op == "IsNaN":
            tested[node.output] = node.source
        elif node.op == "Where" and tested.get(node.source) == node.input(2):
            parts.add("Identity", node.input(2))
        elif node.op in DECOMPOSITIONS:
            DECOMPOSITIONS[node.op](parts)
        elif node.op == "Cast" and node.options["to"] in _FLOATS:
            # The type remains: integers do not become floats.
            parts.add("Identity", node.source, to=node.options["to"])
        yield from parts.finish() if parts.nodes else [node]
