"""Finds the forms in which each layer could be rewritten, with their savings and losses."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from matloom.arch.config import load_config
from matloom.ir.graph import Array, Graph, Node, short_name
from matloom.quantiser.channels import channel_chains, removals
from matloom.quantiser.factors import LayerPart, Splitter, full_rank
from matloom.quantiser.journal import Journal
from matloom.quantiser.layer import layer_bias
from matloom.quantiser.layer_cycles import LayerCycles
from matloom.quantiser.moments import as_channels, as_weights, layer_moments
from matloom.quantiser.precisions import NARROW
from matloom.quantiser.rewrite_layers import CHANNELS, FormChange
from matloom.quantiser.rounding import quadratic_form
from matloom.quantiser.run_nodes import run_nodes
from matloom.terminal.progress import set_activity

#: Maximum number of ranks to try for a form.
_MOST_RANKS = 5
#: Maximum share of a layer's variance that may be lost.
_MOST_ERROR = 0.5


def layer_changes(
    graph: Graph, inputs: Mapping[int, Array], config: str, seed: int, journal: Journal
) -> Iterator[FormChange]:
    """Yield the changes of single layers that save cycles and lose at most `_MOST_ERROR`.

    Parameters
    ----------
    inputs:
        Samples by input number, (samples, *shape).
    config:
        Configuration to predict cycles for; ranks are multiples of its columns.
    seed:
        Seed of the choice of positions in large images.
    journal:
        Results for layers that were tried earlier.
    """
    cycles, chains = LayerCycles(config), channel_chains(graph)
    step = load_config(config).columns

    def measure(node: Node, data: Array) -> dict[str, Any]:
        """Return the changes to try for one layer, as JSON can hold them."""
        set_activity(f"forms of {short_name(graph.tensors[node.output].name)}")
        layer = _Layer(graph, node, data, np.random.default_rng((seed, node.output)))
        changes = [*layer.splits(cycles, step)]
        if node.output in chains:
            changes += layer.removals(cycles, step, chains[node.output])
        return {"changes": [asdict(each) for each in changes]}

    for _at, node, values in run_nodes(graph, inputs):
        if node.op not in NARROW or graph.tensors[node.inputs[1]].data is None:
            continue
        if graph.tensors[node.output].dtype == "float32":
            trial = partial(measure, node, values[node.inputs[0]])
            changes = journal.get_or_run(f"forms of {node.output}", trial)["changes"]
            for change in (FormChange(**each) for each in changes):
                if change.cycles > 0 and change.error <= _MOST_ERROR:
                    yield change


class _Layer:
    """A layer to rewrite, and the covariance of its inputs."""

    def __init__(self, graph: Graph, node: Node, data: Array, random: np.random.Generator) -> None:
        self._graph, self._node = graph, node
        weights = graph.tensors[node.inputs[1]].data
        assert weights is not None
        channels = as_channels(node, weights).astype(np.float64)
        bias = layer_bias(graph, node, len(channels))
        moments = layer_moments(node, weights, bias, (data, data), random)
        assert moments is not None
        self._form = quadratic_form(moments, channels.shape[1])[0]
        self._weights = as_weights(node, channels, weights.shape)

    def splits(self, cycles: LayerCycles, step: int) -> Iterator[FormChange]:
        """Yield the changes that replace the layer by two smaller ones.

        Their ranks are multiples of `step`, and together they have fewer weights than the layer.
        """
        splitter = Splitter(self._node, self._weights, self._form)
        shape = self._graph.tensors[self._node.inputs[0]].shape
        whole = LayerPart(weights=self._weights, attributes=self._node.attributes)
        now = cycles.predict(shape, [whole])
        for form, full in full_rank(self._node, self._weights.shape).items():
            for rank in _tried_ranks(full, step):
                parts = splitter.parts(form, rank)
                if sum(part.weights.size for part in parts) < self._weights.size:
                    saved = now - cycles.predict(shape, parts)
                    yield self._change(form, rank, splitter.error(parts), saved)

    def removals(self, cycles: LayerCycles, step: int, chain: list[Node]) -> Iterator[FormChange]:
        """Yield the changes that remove input channels of the layer.

        The numbers of channels that remain are multiples of `step`. `chain` are the layers from
        which the channels are removed (`channel_chains`).
        """
        weights = self._weights
        channels = weights.shape[-1]
        counts = set(_tried_ranks(channels, step))
        taps = weights.reshape(len(weights), -1, channels)
        now = sum(cycles.with_channels(self._graph, chain, channels))
        for rank, left in removals(taps, self._form, counts).items():
            saved = now - sum(cycles.with_channels(self._graph, chain, rank))
            yield self._change(CHANNELS, rank, left.error, saved)

    def _change(self, form: str, rank: int, error: float, saved: int) -> FormChange:
        """Return a change of this layer's form, with its error and the cycles it saves."""
        number = self._node.output
        return FormChange(
            number=number,
            layer=short_name(self._graph.tensors[number].name),
            form=form,
            rank=rank,
            error=error,
            cycles=saved,
        )


def _tried_ranks(full: int, step: int) -> list[int]:
    """Return up to `_MOST_RANKS` multiples of `step` below `full`, evenly distributed."""
    known = range(step, full, step)
    places = np.linspace(0, len(known) - 1, min(_MOST_RANKS, len(known)))
    return [known[int(place)] for place in places]
