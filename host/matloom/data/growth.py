"""Builds random networks operator by operator, with sample values."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from matloom.ir.attributes import Attributes, BatchMatmul
from matloom.ir.graph import RESHAPES, Array, Graph, Node, Op, Quantisation, Tensor, Variable
from matloom.ir.operators import OPERATORS
from matloom.kernels.interpreter import run_node

Item = TypeVar("Item")

#: Scale and zero point of int8 outputs that the operator fixes.
_FIXED_OUTPUTS = {Op.SOFTMAX: (1 / 256, -128), Op.LOGISTIC: (1 / 256, -128), Op.TANH: (1 / 128, 0)}

#: Outputs that may have any scale; all others keep that of their first input.
_FREELY_SCALED = frozenset(
    {
        *(Op.ADD, Op.SUB, Op.MUL, Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED, Op.MEAN),
        *(Op.SUM, Op.PRELU, Op.LEAKY_RELU, Op.HARD_SWISH, Op.QUANTIZE, Op.RELU, Op.TRANSPOSE_CONV),
        Op.SQUARED_DIFFERENCE,
        Op.BATCH_MATMUL,
    }
)


#: Layers of weights.
_LAYERS = (Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED, Op.TRANSPOSE_CONV)

#: Scales of outputs lie between these; those of words between a 256th of them.
_LEAST, _MOST = 2.0**-14, 16.0


class Growth:
    """A growing network: tensors and nodes so far, and their values for one random sample.

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
        """Return True with the given probability."""
        return bool(self.random.random() < probability)

    def choose(self, items: Sequence[Item]) -> Item:
        """Return a random item."""
        return items[self.integer(0, len(items) - 1)]

    def scale(self, low: float = 0.002, high: float = 0.2) -> float:
        """Return a random scale, rounded to float32 as in files."""
        return float(np.float32(np.exp(self.random.uniform(np.log(low), np.log(high)))))

    def quantisation(self, dtype: str) -> Quantisation:
        """Return a random scale and zero point for a type; int16 has zero point 0."""
        if dtype == "int16":
            return Quantisation(scale=(float(np.float32(self.scale() / 100)),), zero_point=(0,))
        return Quantisation(scale=(self.scale(),), zero_point=(self.integer(-128, 127),))

    def values_of(self, dtype: str, shape: tuple[int, ...]) -> Array:
        """Return random integers over the range of a type."""
        limits = np.iinfo(dtype)
        kind = np.dtype(dtype).type
        return self.random.integers(limits.min, limits.max, shape, kind, endpoint=True)

    def tensor(
        self, shape: tuple[int, ...], dtype: str, quantisation: Quantisation | None, **fields: Any
    ) -> int:
        """Add a tensor, with further fields of `Tensor` if given; return its number."""
        number = len(self.tensors)
        self.tensors[number] = Tensor(
            name=f"t{number}", shape=shape, dtype=dtype, quantisation=quantisation, **fields
        )
        return number

    def input(self, shape: tuple[int, ...], dtype: str) -> int:
        """Add an input of the network; return its tensor number."""
        number = self.tensor(shape, dtype, self.quantisation(dtype))
        self.values[number] = self.values_of(dtype, shape)
        return number

    def variable(
        self, shape: tuple[int, ...], dtype: str, quantisation: Quantisation | None
    ) -> int:
        """Add a variable's initial tensor, whose next value `assign` sets; return its number."""
        number = self.tensor(shape, dtype, quantisation)
        self.values[number] = self.values_of(dtype, shape)
        return number

    def assign(self, before: int, after: int) -> None:
        """Set a variable's tensor at the end of a call; the sample gives its initial value."""
        self.variables.append(
            Variable(
                name=f"v{len(self.variables)}",
                before=before,
                after=after,
                initial=self.values[before],
            )
        )

    def constant(self, data: Array, quantisation: Quantisation | None) -> int:
        """Add a constant; return its tensor number."""
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
        """Add an operator; return the tensor numbers of its outputs.

        `shape` is needed if the inputs do not determine it.
        """
        attributes = Attributes() if attributes is None else attributes
        rules, input_shapes = OPERATORS[op], [self.tensors[number].shape for number in inputs]
        if rules.output_shapes is not None:
            shapes = rules.output_shapes(input_shapes, attributes)
        elif rules.shape is not None:
            shapes = [rules.shape(input_shapes, attributes)]
        else:
            assert op in RESHAPES
            assert shape is not None
            shapes = [shape]
        first = self.tensors[inputs[0]]
        kept = first.quantisation
        if op in _FIXED_OUTPUTS:
            scale, zero = _FIXED_OUTPUTS[op]
            kept = Quantisation(scale=(scale,), zero_point=(zero,))
        numbers = tuple(self.tensor(each, dtype or first.dtype, kept) for each in shapes)
        node = Node(
            op=op,
            inputs=tuple(inputs),
            outputs=numbers,
            attributes=attributes,
            index=len(self.nodes),
        )
        if op in _FREELY_SCALED:
            self._calibrate(node)
        self.nodes.append(node)
        self.values.update(self._run(node))
        return numbers

    def _run(self, node: Node) -> dict[int, Array]:
        """Compute a node from the values so far; return its outputs by tensor number."""
        graph = Graph(name="", inputs=(), outputs=(), tensors=self.tensors, nodes=(node,))
        return run_node(graph, node, self.values)

    def _calibrate(self, node: Node) -> None:
        """Set the scale and zero point of an output to suit the sample."""
        (number,) = node.outputs
        tensor = self.tensors[number]
        words = tensor.dtype == "int16"
        coarse = max(_LEAST, self._unsaturated_scale(node))
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
        scale = max(scale, self._finest_scale(node) if words else 0.0)
        zero = round(-float(found.mean()) / scale) + self.integer(-20, 20)
        zero = 0 if words else min(127, max(-128, zero))
        self.tensors[number] = replace(
            tensor, quantisation=Quantisation(scale=(scale,), zero_point=(zero,))
        )

    def _finest_scale(self, node: Node) -> float:
        """Return the smallest output scale that suits 64-bit sums of a layer; 0 for others."""
        if node.op not in _LAYERS:
            return 0.0
        data, weights = (self.tensors[number] for number in node.inputs[:2])
        assert weights.quantisation is not None
        return float(np.float32(data.scale * max(weights.quantisation.scale) / 100))

    def _unsaturated_scale(self, node: Node) -> float:
        """Return an output scale at which the sample's result does not saturate."""
        operands = [self.tensors[number] for number in node.inputs[:2]]
        scale = max(
            max(tensor.quantisation.scale) for tensor in operands if tensor.quantisation is not None
        )
        if node.op in _LAYERS:
            weights = operands[1]
            assert weights.quantisation is not None
            size = weights.size if node.op is not Op.DEPTHWISE_CONV_2D else weights.size * 4
            reduction = size / max(1, self.tensors[node.output].shape[-1])
            widest = max(weights.quantisation.scale)
            return float(operands[0].scale * widest * 74 * 4 * reduction**0.5)
        if node.op is Op.BATCH_MATMUL:
            inner = operands[0].shape[-2 if node.attributes_as(BatchMatmul).adj_x else -1]
            return operands[0].scale * operands[1].scale * 74 * 4 * inner
        if node.op is Op.SQUARED_DIFFERENCE:
            return scale**2 * 128
        if node.op is Op.MUL:
            return operands[0].scale * operands[1].scale * 128
        if node.op is Op.SUM:
            return scale * max(1, operands[0].size // max(1, self.tensors[node.output].size))
        if node.op is Op.PRELU:
            return operands[0].scale * max(1.0, operands[1].scale * 128)
        return 2 * scale

    def requantise(self, source: int, like: int) -> int:
        """Add a QUANTIZE of tensor `source` to the scale of `like`; return its output's number."""
        tensor, wanted = self.tensors[source], self.tensors[like].quantisation
        number = self.tensor(tensor.shape, tensor.dtype, wanted)
        node = Node(op=Op.QUANTIZE, inputs=(source,), outputs=(number,), index=len(self.nodes))
        self.nodes.append(node)
        self.values.update(self._run(node))
        return number

    def graph(self, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
        """Return the finished network."""
        return Graph(
            name=name,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            tensors=self.tensors,
            nodes=tuple(self.nodes),
            variables=tuple(self.variables),
        )
