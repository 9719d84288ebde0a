"""Attributes the lost results of a network to its operators.

Operators are quantised one after another, with later ones still in floats. The increase of the loss
is attributed to the operator, so that the losses of all operators add up to the whole loss.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from matloom.ir.graph import Array, Graph
from matloom.quantiser.build import BuildStep
from matloom.quantiser.expected import expected_share
from matloom.quantiser.judge import watched_tensors
from matloom.quantiser.relevant_values import clamp_to_relevant
from matloom.quantiser.run_nodes import last_uses, outputs_of

#: Maximum number of samples on which the rest of the network runs again after each operator.
_MOST_SAMPLES = 128


class Losses:
    """Computes the percentage of the results that are expected to change because of each operator.

    Parameters
    ----------
    graph, inputs:
        The float network, and samples by input number, (samples, *shape): those with which it is
        quantised.
    """

    def __init__(self, graph: Graph, inputs: Mapping[int, Array]) -> None:
        self._whole, self._graph = graph, replace(graph, outputs=watched_tensors(graph))
        self._known = {number: array[:_MOST_SAMPLES] for number, array in inputs.items()}
        self._exact = self._relevant_outputs(self._graph, self._known)
        self._dropped = last_uses(self._graph)
        self._lost = 0.0

    def after(self, step: BuildStep) -> float | None:
        """Return the loss that an operator adds, in percent; it may be negative.

        Call it with all steps, in order. Return None if further outputs of the operator follow, or
        if no output of the network has two elements or more.
        """
        self._known[step.number] = step.rounded[:_MOST_SAMPLES]
        if step.number != step.node.outputs[-1]:
            return None
        rest = replace(self._graph, nodes=self._graph.nodes[step.at + 1 :])
        known = dict(self._known)
        for number in self._dropped[step.at]:
            self._known.pop(number, None)
        shares = [
            _unchanged_share(exact, rounded)
            for exact, rounded in zip(self._exact, self._relevant_outputs(rest, known), strict=True)
            if exact.ndim > 1 and exact.shape[-1] > 1
        ]
        if not shares:
            return None
        before, self._lost = self._lost, 100 * (1 - float(np.mean(shares)))
        return self._lost - before

    def _relevant_outputs(self, graph: Graph, values: Mapping[int, Array]) -> list[Array]:
        """Return the outputs of a graph, with values that do not matter replaced."""
        results = zip(graph.outputs, outputs_of(graph, values), strict=True)
        return [clamp_to_relevant(self._whole, number, {number: each}) for number, each in results]


def _unchanged_share(exact: Array, rounded: Array) -> float:
    """Return the expected share of rows whose largest element stays the same after rounding."""
    rows = [each.reshape(-1, each.shape[-1]) for each in (exact, rounded)]
    return expected_share(rows[0], rows[1], rows[0].argmax(axis=1))
