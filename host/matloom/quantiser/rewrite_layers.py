"""Rewrites layers of a float network: as two of low rank, or with fewer channels.

The rewritten network runs next to the float network. Each layer is fitted to its inputs in the
rewritten network, so that it compensates for the losses of earlier layers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from matloom.ir.graph import Array, Graph, Node, Op, Tensor, short_name
from matloom.ir.operators import OPERATORS
from matloom.ir.verify import verify
from matloom.passes.drop_unused import drop_unused_tensors
from matloom.quantiser.channels import Removal, removals
from matloom.quantiser.factors import LayerPart, Splitter, product
from matloom.quantiser.layer import layer_bias
from matloom.quantiser.moments import as_channels, as_weights, layer_moments
from matloom.quantiser.rounding import fit_weights, quadratic_form
from matloom.quantiser.run_nodes import last_uses, run_on_samples

#: Name of the form in which a layer reads fewer channels.
CHANNELS = "channels"

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class FormChange:
    """Change of a layer to another form: fewer input channels, or two smaller layers.

    Members
    -------
    number:
        Number of the layer's output tensor.
    layer:
        Short name of this tensor.
    form:
        One of `matloom.quantiser.factors.full_rank`, or ``"channels"``.
    rank:
        Number of channels between both layers, or of remaining input channels.
    error:
        Share of the variance of the layer's outputs that this change alone loses.
    cycles:
        Predicted cycles that this change alone saves.
    """

    number: int
    layer: str
    form: str
    rank: int
    error: float
    cycles: int


class _Rewriter:
    """Builds the rewritten network; tensors of the float network keep their numbers."""

    def __init__(
        self, graph: Graph, changes: Sequence[FormChange], inputs: Mapping[int, Array], seed: int
    ) -> None:
        self._source, self._changes = graph, changes
        self._random = np.random.default_rng(seed)
        self._exact, self._known = dict(inputs), dict(inputs)
        self.tensors = dict(graph.tensors)
        #: Operators in execution order, by the number of their first output.
        self.nodes: dict[int, Node] = {}

    def run(self) -> None:
        """Add all operators of the float network, in their new form if they are to be changed."""
        dropped = last_uses(self._source)
        for at, node in enumerate(self._source.nodes):
            self._exact.update(run_on_samples(self._source, node, self._exact))
            ranks = {each.form: each.rank for each in self._changes if each.number in node.outputs}
            if ranks:
                self._add_changed_layer(node, ranks)
            else:
                self._append_and_run(node)
            for number in dropped[at]:
                self._exact.pop(number, None)
                self._known.pop(number, None)

    def _append_and_run(self, node: Node) -> None:
        """Append a node and compute its outputs for the samples."""
        self.nodes[node.outputs[0]] = node
        graph = replace(self._source, tensors=self.tensors, nodes=())
        self._known.update(run_on_samples(graph, node, self._known))

    def _add_constant(self, name: str, data: Array) -> int:
        """Add a constant and return its tensor number."""
        number = max(self.tensors) + 1
        self.tensors[number] = Tensor.constant(name, data)
        return number

    def _add_changed_layer(self, node: Node, ranks: dict[str, int]) -> None:
        """Append a layer in its new forms; `ranks` maps each form to its number of channels."""
        source = self._source.tensors[node.inputs[1]].data
        assert source is not None
        channels = as_channels(node, source).astype(np.float64)
        inputs = self._exact[node.inputs[0]], self._known[node.inputs[0]]
        bias = layer_bias(self._source, node, len(channels))
        moments = layer_moments(node, source, bias, inputs, self._random)
        assert moments is not None
        form, mean = quadratic_form(moments, channels.shape[1]), moments.mean[0]
        weights = as_weights(node, fit_weights(channels, form, moments), source.shape)
        if CHANNELS in ranks:
            rank = ranks.pop(CHANNELS)
            taps = weights.reshape(len(weights), -1, weights.shape[-1])
            left = removals(taps, form[0], {rank})[rank]
            self._remove_channels(node.inputs[0], left)
            weights = left.weights.reshape(*weights.shape[:-1], rank)
            places = np.arange(mean.size).reshape(-1, source.shape[-1])[:, left.kept].reshape(-1)
            form, mean = form[:, places][:, :, places], mean[places]
        parts: tuple[LayerPart, ...] = (LayerPart(weights=weights, attributes=node.attributes),)
        for kind, rank in ranks.items():
            pair = Splitter(node, weights, form[0]).parts(kind, rank)
            parts, weights = pair, product(pair)
        bias = moments.expected - weights.reshape(len(weights), -1) @ mean
        self._replace(node, parts, bias)

    def _replace(self, node: Node, parts: tuple[LayerPart, ...], bias: _Numbers) -> None:
        """Add the layers that replace a layer; the last one has the bias."""
        name, data = short_name(self.tensors[node.output].name), node.inputs[0]
        for part in parts:
            last = part is parts[-1]
            added = bias if last else np.zeros(len(part.weights))
            output = (
                node.output if last else self._add_intermediate(f"{name}:first", node, data, part)
            )
            constants = [
                self._add_constant(f"{name}:{len(self.tensors)}", each.astype(np.float32))
                for each in (part.weights, added)
            ]
            inputs = (data, *constants)
            made = replace(node, inputs=inputs, outputs=(output,), attributes=part.attributes)
            self._append_and_run(made)
            data = output

    def _add_intermediate(self, name: str, node: Node, data: int, part: LayerPart) -> int:
        """Add a tensor for the output of `part`, which reads tensor `data`; return its number."""
        rule = OPERATORS[node.op].shape
        assert rule is not None
        shape = rule([self.tensors[data].shape, part.weights.shape], part.attributes)
        number = max(self.tensors) + 1
        self.tensors[number] = Tensor(name=name, shape=shape, dtype="float32")
        return number

    def _remove_channels(self, number: int, removal: Removal) -> None:
        """Remove channels of a tensor, in all operators back to the layer that computes them."""
        self._known[number] = self._known[number][..., removal.kept]
        while True:
            tensor, node = self.tensors[number], self.nodes[number]
            self.tensors[number] = replace(tensor, shape=(*tensor.shape[:-1], len(removal.kept)))
            weighted = OPERATORS[node.op].weight_axis is not None
            if weighted:
                self.nodes[number] = self._narrow(node, removal)
            if weighted and node.op is not Op.DEPTHWISE_CONV_2D:
                return
            number = node.inputs[0]

    def _narrow(self, node: Node, removal: Removal) -> Node:
        """Return a layer without the output channels that are removed."""
        constants, axis = [], -1 if node.op is Op.DEPTHWISE_CONV_2D else 0
        for place, number in enumerate(node.inputs[1:]):
            data, name = self.tensors[number].data, short_name(self.tensors[number].name)
            assert data is not None
            made = np.take(data.reshape(-1) if place else data, removal.kept, axis=axis)
            constants.append(self._add_constant(f"{name}:{len(self.tensors)}", made))
        return replace(node, inputs=(node.inputs[0], *constants))


def compress_network(
    graph: Graph, changes: Sequence[FormChange], inputs: Mapping[int, Array], seed: int
) -> Graph:
    """Return a float network with layers in other, smaller forms, fitted to samples.

    Parameters
    ----------
    graph:
        A network that `prepare` returned.
    inputs:
        Calibration samples by input number, (samples, *shape).
    seed:
        Seed of the choice of positions in large images.
    """
    if not changes:
        return graph
    rewriter = _Rewriter(graph, changes, inputs, seed)
    rewriter.run()
    made = replace(graph, tensors=rewriter.tensors, nodes=tuple(rewriter.nodes.values()))
    made = drop_unused_tensors(made)
    verify(made, "compress")
    return made
