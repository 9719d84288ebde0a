"""A network that grows operator by operator on the tensors it has."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from matloom.ir.attributes import Attributes
from matloom.ir.graph import RESHAPES, Array, Graph, Node, Op, Quantisation, Tensor, Variable
from matloom.ir.operators import OPERATORS
from matloom.kernels.interpreter import run_node

__all__ = ["Growth"]

Item = TypeVar("Item")

#: Outputs whose scale and zero point the operator fixes, of int8.
_FIXED = {Op.SOFTMAX: (1 / 256, -128), Op.LOGISTIC: (1 / 256, -128), Op.TANH: (1 / 128, 0)}

#: Outputs that may have any scale; all others keep that of their first input.
_FREE = frozenset(
    {
        *(Op.ADD, Op.SUB, Op.MUL, Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED, Op.MEAN),
        *(Op.SUM, Op.PRELU, Op.LEAKY_RELU, Op.HARD_SWISH, Op.QUANTIZE, Op.RELU, Op.TRANSPOSE_CONV),
    }
)


#: Scales of outputs lie between these; those of words between a 256th of them.
_LEAST, _MOST = 2.0**-14, 16.0


class Growth:
    """Tensors and nodes so far, with the values of one random sample.

    Scales of outputs are chosen by those values, so that numbers neither saturate nor vanish
    however deep the network is.
    """

    def __init__(self, seed: Sequence[int]) -> None:
        self.random = np.random.default_rng(list(seed))
        self.tensors: dict[int, Tensor] = {}
        self.nodes: list[Node] = []
        self.variables: list[Variable] = []
        self.values: dict[int, Array] = {}

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`."""
        return int(self.random.integers(low, high, endpoint=True))

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return bool(self.random.random() < probability)

    def choose(self, items: Sequence[Item]) -> Item:
        """Return one of some items."""
        return items[self.integer(0, len(items) - 1)]

    def scale(self, low: float = 0.002, high: float = 0.2) -> float:
        """Return a scale, as a file holds it."""
        return float(np.float32(np.exp(self.random.uniform(np.log(low), np.log(high)))))

    def quantisation(self, dtype: str) -> Quantisation:
        """Return any scale and zero point of a type; int16 has none."""
        if dtype == "int16":
            return Quantisation(scale=(float(np.float32(self.scale() / 100)),), zero_point=(0,))
        return Quantisation(scale=(self.scale(),), zero_point=(self.integer(-128, 127),))

    def values_of(self, dtype: str, shape: tuple[int, ...]) -> Array:
        """Return random integers over the range of a type."""
        limits = np.iinfo(dtype)
        kind = np.dtype(dtype).type
        return self.random.integers(limits.min, limits.max, shape, kind, endpoint=True)

    def tensor(
        self, shape: tuple[int, ...], dtype: str, quantisation: Quantisation | None, **more: Any
    ) -> int:
        """Add a tensor and return its number."""
        number = len(self.tensors)
        self.tensors[number] = Tensor(
            name=f"t{number}", shape=shape, dtype=dtype, quantisation=quantisation, **more
        )
        return number

    def input(self, shape: tuple[int, ...], dtype: str) -> int:
        """Add an input of the network."""
        number = self.tensor(shape, dtype, self.quantisation(dtype))
        self.values[number] = self.values_of(dtype, shape)
        return number

    def variable(
        self, shape: tuple[int, ...], dtype: str, quantisation: Quantisation | None
    ) -> int:
        """Add what a variable holds as a call begins; `assign` gives it what is next."""
        number = self.tensor(shape, dtype, quantisation)
        self.values[number] = self.values_of(dtype, shape)
        return number

    def assign(self, before: int, after: int) -> None:
        """Let a variable hold a tensor as a call ends, and the sample's value at first."""
        self.variables.append(
            Variable(
                name=f"v{len(self.variables)}",
                before=before,
                after=after,
                initial=self.values[before],
            )
        )

    def constant(self, data: Array, quantisation: Quantisation | None) -> int:
        """Add a constant."""
        return self.tensor(data.shape, data.dtype.name, quantisation, data=data)

    def operator(
        self,
        op: Op,
        inputs: Sequence[int],
        attributes: Attributes | None = None,
        *,
        shape: tuple[int, ...] | None = None,
        dtype: str = "",
    ) -> tuple[int, ...]:
        """Add an operator and return its outputs; `shape` is of one whose rule leaves it open."""
        attributes = Attributes() if attributes is None else attributes
        rules, given = OPERATORS[op], [self.tensors[number].shape for number in inputs]
        if rules.parts is not None:
            shapes = rules.parts(given, attributes)
        elif rules.shape is not None:
            shapes = [rules.shape(given, attributes)]
        else:
            assert op in RESHAPES
            assert shape is not None
            shapes = [shape]
        first = self.tensors[inputs[0]]
        kept = first.quantisation
        if op in _FIXED:
            scale, zero = _FIXED[op]
            kept = Quantisation(scale=(scale,), zero_point=(zero,))
        numbers = tuple(self.tensor(each, dtype or first.dtype, kept) for each in shapes)
        node = Node(
            op=op,
            inputs=tuple(inputs),
            outputs=numbers,
            attributes=attributes,
            index=len(self.nodes),
        )
        if op in _FREE:
            self._calibrate(node)
        self.nodes.append(node)
        self.values.update(self._run(node))
        return numbers

    def _run(self, node: Node) -> dict[int, Array]:
        graph = Graph(name="", inputs=(), outputs=(), tensors=self.tensors, nodes=(node,))
        return run_node(graph, node, self.values)

    def _calibrate(self, node: Node) -> None:
        """Give an output the scale and zero point that suit the sample."""
        (number,) = node.outputs
        tensor = self.tensors[number]
        words = tensor.dtype == "int16"
        coarse = max(_LEAST, self._coarse(node))
        for _attempt in range(2):
            quantisation = Quantisation(scale=(float(np.float32(coarse)),), zero_point=(0,))
            self.tensors[number] = replace(tensor, quantisation=quantisation)
            found = coarse * self._run(node)[number].astype(np.float64)
            if found.std() > 2 * coarse or words or node.op is Op.HARD_SWISH:
                break
            coarse = max(_LEAST / 256, coarse / 16)
        reach = max(float(found.std()), coarse / 4) * self.random.uniform(1.5, 4)
        scale = float(np.float32(reach / (2**15 if words else 128)))
        least = self.tensors[node.inputs[0]].scale / 50 if node.op is Op.HARD_SWISH else _LEAST
        scale = min(_MOST, max(scale, least / 256 if words else least))
        zero = round(-float(found.mean()) / scale) + self.integer(-20, 20)
        zero = 0 if words else min(127, max(-128, zero))
        self.tensors[number] = replace(
            tensor, quantisation=Quantisation(scale=(scale,), zero_point=(zero,))
        )

    def _coarse(self, node: Node) -> float:
        """Return a scale at which the output does not saturate."""
        given = [self.tensors[number] for number in node.inputs[:2]]
        scale = max(
            max(tensor.quantisation.scale) for tensor in given if tensor.quantisation is not None
        )
        if node.op in (Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED, Op.TRANSPOSE_CONV):
            weights = given[1]
            assert weights.quantisation is not None
            size = weights.size if node.op is not Op.DEPTHWISE_CONV_2D else weights.size * 4
            reduction = size / max(1, self.tensors[node.output].shape[-1])
            widest = max(weights.quantisation.scale)
            return float(given[0].scale * widest * 74 * 4 * reduction**0.5)
        if node.op is Op.MUL:
            return given[0].scale * given[1].scale * 128
        if node.op is Op.SUM:
            return scale * max(1, given[0].size // max(1, self.tensors[node.output].size))
        if node.op is Op.PRELU:
            return given[0].scale * max(1.0, given[1].scale * 128)
        return 2 * scale

    def requantised(self, source: int, like: int) -> int:
        """Return the output of a new QUANTIZE: a tensor with the scale of another of its type."""
        tensor, wanted = self.tensors[source], self.tensors[like].quantisation
        number = self.tensor(tensor.shape, tensor.dtype, wanted)
        node = Node(op=Op.QUANTIZE, inputs=(source,), outputs=(number,), index=len(self.nodes))
        self.nodes.append(node)
        self.values.update(self._run(node))
        return number

    def graph(self, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
        """Return the network."""
        return Graph(
            name=name,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            tensors=self.tensors,
            nodes=tuple(self.nodes),
            variables=tuple(self.variables),
        )
