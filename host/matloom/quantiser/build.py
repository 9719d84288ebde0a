"""Builds the quantised network operator by operator, running it next to the float network."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from matloom.errors import UserError
from matloom.ir.attributes import Attributes, Pad
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.operators import OPERATORS
from matloom.ir.verify import verify
from matloom.passes.drop_unused import drop_unused_tensors
from matloom.quantiser.integers import integers_of, real
from matloom.quantiser.layer import RoundedLayer, bias_tensor, round_layer, weights_tensor
from matloom.quantiser.options import Options
from matloom.quantiser.ranges import Range
from matloom.quantiser.relevant_values import clamp_to_relevant
from matloom.quantiser.run_nodes import inputs_of_layers, last_uses, run_on_samples
from matloom.quantiser.scales import SAME_SCALE, quantisation_of


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantisationPlan:
    """Decisions (types, bits, ranges) from which the quantised network is built.

    Members
    -------
    kinds:
        Type of each node's data, by the node's index in the graph.
    bits:
        Number of bits of the weights of each layer, by the node's index in the graph.
    ranges:
        Range of each float tensor, by number.
    """

    kinds: Mapping[int, str]
    bits: Mapping[int, int]
    ranges: Mapping[int, Range]
    options: Options


@dataclass(frozen=True, kw_only=True, eq=False)
class BuildStep:
    """An operator's output on all samples.

    Members
    -------
    at, node, number:
        Index of the operator, the operator, and the tensor number of the output, all in the float
        network.
    tensor:
        The output in the quantised network.
    exact:
        Values of the output in the float network, (samples, *shape).
    rounded:
        Values of the output in the quantised network, as real numbers.

    In both, values that do not matter to their reader are replaced (`clamp_to_relevant`).
    """

    at: int
    node: Node
    number: int
    tensor: Tensor
    exact: Array
    rounded: Array


class _Builder:
    """Builds the quantised network; tensors of the float network keep their numbers."""

    def __init__(self, graph: Graph, plan: QuantisationPlan, inputs: Mapping[int, Array]) -> None:
        self.source, self._plan = graph, plan
        self._tensors = dict(graph.tensors)
        self._nodes: list[Node] = []
        self._exact: dict[int, Array] = dict(inputs)
        self._known: dict[int, Array] = dict(inputs)
        self._converted: dict[tuple[int, str, Quantisation | None], int] = {}
        self._layers: dict[object, tuple[RoundedLayer, int]] = {}
        self._biases: dict[object, int] = {}
        self._random = np.random.default_rng(plan.options.seed)
        for number in graph.inputs:
            self._add_input(number)

    def steps(self) -> Iterator[BuildStep]:
        """Add the operators one by one; yield each output as computed by both networks."""
        dropped = last_uses(self.source)
        for at, node in enumerate(self.source.nodes):
            self._exact.update(run_on_samples(self.source, node, self._exact))
            with _representable(self.source):
                self._add_operator(at, node)
            for number in node.outputs:
                rounded = real(self._tensors[number], self._known[number])
                yield BuildStep(
                    at=at,
                    node=node,
                    number=number,
                    tensor=self._tensors[number],
                    exact=clamp_to_relevant(self.source, number, self._exact),
                    rounded=clamp_to_relevant(
                        self.source, number, {**self._exact, number: rounded}
                    ),
                )
            for number in dropped[at]:
                self._forget(number)

    def graph(self) -> Graph:
        """Return the finished network; call it after all `steps`."""
        outputs = self.source.outputs
        if self._plan.options.ends == "floats":
            outputs = tuple(self._convert(number, "float32", None, index=-1) for number in outputs)
        made = replace(
            self.source,
            tensors=dict(sorted(self._tensors.items())),
            nodes=tuple(self._nodes),
            outputs=outputs,
            remarks={},
        )
        return drop_unused_tensors(made)

    def _add_input(self, number: int) -> None:
        """Quantise an input of the network, in the type that its first reader needs."""
        readers = self.source.consumers[number]
        kind = self._plan.kinds[readers[0]] if readers else "float32"
        tensor = self._tensors[number]
        if tensor.dtype != "float32" or kind == "float32" or self._plan.options.ends == "floats":
            return
        target = quantisation_of(self._plan.ranges[number], kind)
        self._tensors[number] = replace(tensor, dtype=kind, quantisation=target)
        self._known[number] = integers_of(self._tensors[number], self._known[number])

    def _forget(self, number: int) -> None:
        """Drop a tensor's values, and those of its conversions, when no more node reads them."""
        self._exact.pop(number, None)
        self._known.pop(number, None)
        for key, converted in list(self._converted.items()):
            if key[0] == number:
                self._forget(converted)

    def _add_operator(self, index: int, node: Node) -> None:
        """Add an operator of the float network in its type, and the conversions it needs."""
        kind = self._plan.kinds[index]
        for number in node.outputs:
            tensor = self._tensors[number]
            if tensor.dtype == "float32" and kind != "float32":
                target = quantisation_of(self._plan.ranges[number], kind)
                self._tensors[number] = replace(tensor, dtype=kind, quantisation=target)
        if kind != "float32" and OPERATORS[node.op].weight_axis is not None:
            self._append_and_run(self._quantise_layer(index, node, kind))
            return
        shared = self._tensors[node.outputs[0]].quantisation if node.op in SAME_SCALE else None
        inputs = [
            self._constant(number, kind, shared)
            if self._tensors[number].data is not None
            else self._convert(number, kind, shared, node.index)
            for number in node.inputs
        ]
        self._append_and_run(
            replace(node, inputs=tuple(inputs), attributes=self._with_padding_value(node, shared))
        )

    def _append_and_run(self, node: Node) -> None:
        """Append a node, and run it on all samples."""
        self._nodes.append(node)
        graph = replace(self.source, tensors=self._tensors, nodes=())
        self._known.update(run_on_samples(graph, node, self._known))

    def _new(self, tensor: Tensor) -> int:
        """Add a tensor; return its number."""
        number = max(self._tensors) + 1
        self._tensors[number] = tensor
        return number

    def _convert(self, number: int, kind: str, shared: Quantisation | None, index: int) -> int:
        """Return the number of a computed tensor in type `kind`, converted if it has another.

        A conversion is added once, for operator `index` and later ones. `shared` is the
        quantisation that the result must have; None allows any.
        """
        tensor = self._tensors[number]
        if self.source.tensors[number].dtype != "float32":
            return number
        if tensor.dtype == kind and shared in (None, tensor.quantisation):
            return number
        target = None
        if kind != "float32":
            target = shared or quantisation_of(self._plan.ranges[number], kind)
        if f"{tensor.dtype} -> {kind}" not in OPERATORS[Op.QUANTIZE].types:
            # Convert by way of floats; DEQUANTIZE converts to floats.
            number = number if kind == "float32" else self._convert(number, "float32", None, index)
        key = number, kind, target
        if key not in self._converted:
            name = f"{tensor.name}:{kind}"
            converted = self._new(replace(tensor, name=name, dtype=kind, quantisation=target))
            op = Op.DEQUANTIZE if kind == "float32" else Op.QUANTIZE
            self._append_and_run(Node(op=op, inputs=(number,), outputs=(converted,), index=index))
            self._converted[key] = converted
        return self._converted[key]

    def _constant(self, number: int, kind: str, shared: Quantisation | None) -> int:
        """Return the number of a constant in type `kind`; a converted one is a new tensor.

        `shared` is the quantisation that it must have; None derives one from its values.
        """
        tensor = self.source.tensors[number]
        data = tensor.data
        if kind == "float32" or tensor.dtype != "float32" or data is None:
            return number
        limits = min(float(data.min()), 0.0), max(float(data.max()), 0.0)
        target = shared or quantisation_of(limits, kind)
        made = replace(tensor, dtype=kind, quantisation=target)
        return self._new(replace(made, data=integers_of(made, data)))

    def _with_padding_value(self, node: Node, shared: Quantisation | None) -> Attributes:
        """Return a node's attributes, with the value of padding as an integer of the output."""
        attributes = node.attributes
        if not isinstance(attributes, Pad) or attributes.value is None or shared is None:
            return attributes
        output = self._tensors[node.output]
        value = integers_of(output, np.array(attributes.value, np.float32))
        return replace(attributes, value=int(value))

    def _quantise_layer(self, index: int, node: Node, kind: str) -> Node:
        """Return a layer with quantised weights and bias; layers of equal `_key` share them."""
        number = self._convert(node.inputs[0], kind, None, node.index)
        data, key = self._tensors[number], self._key(index)
        if key not in self._layers:
            inputs = self._exact[node.inputs[0]], real(data, self._known[number])
            sharing = self._sharing(index)
            if len(sharing) > 1:
                exact = inputs_of_layers(self.source, index, sharing, self._exact)
                inputs = exact, real(data, integers_of(data, exact))
            layer = round_layer(
                *(self.source, node, data, inputs),
                bits=self._plan.bits.get(index, 8),
                options=self._plan.options,
                random=self._random,
            )
            self._layers[key] = layer, self._new(weights_tensor(self.source, node, layer))
        layer, weights = self._layers[key]
        place = (key, data.quantisation)
        if place not in self._biases:
            self._biases[place] = self._new(bias_tensor(self.source, node, data, layer))
        return replace(node, inputs=(number, weights, self._biases[place]))

    def _key(self, index: int) -> object:
        """Return a key that is equal for layers that can share integer weights."""
        node = self.source.nodes[index]
        shape = self.source.tensors[node.inputs[0]].shape
        return node.op, node.inputs[1:], self._plan.kinds[index], self._plan.bits.get(index), shape

    def _sharing(self, index: int) -> list[int]:
        """Return the indices of layers that can share integer weights with layer `index`.

        Only that layer, which comes first, and later ones are listed.
        """
        readers = self.source.consumers[self.source.nodes[index].inputs[1]]
        return [at for at in readers if at >= index and self._key(at) == self._key(index)]


def build(
    graph: Graph,
    plan: QuantisationPlan,
    inputs: Mapping[int, Array],
    observe: Callable[[BuildStep], None],
) -> Graph:
    """Return the quantised network.

    Parameters
    ----------
    graph:
        A network that `prepare` returned.
    inputs:
        Calibration samples by input number, (samples, *shape).
    observe:
        Called with each output of each operator, whose values are not kept.
    """
    builder = _Builder(graph, plan, inputs)
    for step in builder.steps():
        observe(step)
    made = builder.graph()
    with _representable(graph):
        verify(made, "quantise")
    return made


@contextmanager
def _representable(graph: Graph) -> Iterator[None]:
    """Turn a ValueError in the `with` block (no scales suit the values) into a UserError."""
    try:
        yield
    except UserError:
        raise
    except ValueError as error:
        raise UserError(
            f"{graph.name} cannot be quantised with these samples: {error}",
            hint="check that the samples are preprocessed as in training",
        ) from error
