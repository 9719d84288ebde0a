"""Compares a quantised network with its floating-point original, layer by layer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from matloom import frontend
from matloom.errors import UserError
from matloom.ir.graph import Array, Graph, short_name
from matloom.kernels.interpreter import initial_state, interpret, next_state
from matloom.printable import printable
from matloom.terminal.tables import count_text
from matloom.tools.compare import random_inputs
from matloom.tools.counterparts import Counterpart, Pairing
from matloom.tools.layer_errors import OperatorErrors, layer_errors, operator_name, real_numbers
from matloom.tools.samples import graph_samples


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Difference between two networks, in the real numbers that their integers represent.

    Members
    -------
    layers:
        Errors of tensors that have a counterpart in the parent, as `Pairing` finds them.
    unmatched:
        Names of the operators' first outputs that have no counterpart.
    """

    network: str
    parent: str
    samples: int
    layers: tuple[OperatorErrors, ...]
    unmatched: tuple[str, ...]

    def table(self) -> Table:
        """Return the layers as a table."""
        return layer_errors(f"{self.network} against {self.parent}", self.layers)

    def __str__(self) -> str:
        tensors, samples = len(self.layers), count_text(self.samples, "sample")
        scope = f"{count_text(tensors, 'tensor')} compared, {samples}"
        lines = [f"{self.network} against {self.parent}: {scope}"]
        noisy = [layer for layer in self.layers if layer.sqnr_db is not None]
        if noisy:
            worst = min(noisy, key=_decibels)
            lines.append(f"farthest off: {short_name(worst.tensor)}, {worst.sqnr_db:.1f} dB")
        else:
            lines.append("all of them are equal")
        if self.unmatched:
            names = ", ".join(map(short_name, self.unmatched))
            lines.append(f"not in {self.parent}: {names}")
        return "\n".join(map(printable, lines))


def _decibels(layer: OperatorErrors) -> float:
    """Return the signal-to-noise ratio of a layer, which must have one."""
    assert layer.sqnr_db is not None
    return layer.sqnr_db


def compare_with_parent(
    path: str | Path,
    parent: str | Path,
    inputs: Mapping[str, Array] | None = None,
    *,
    samples: int = 4,
    seed: int = 0,
) -> Agreement:
    """Run two networks on the same numbers, and compare common tensors layer by layer.

    Parameters
    ----------
    path, parent:
        Model files of the network and of its floating-point original. Inputs whose sizes the
        original leaves open get the sizes of the network's inputs of the same name.
    inputs:
        Inputs for `path`, as for `matloom.evaluate`; None draws `samples` random ones from `seed`.
        A float parent receives the real values of the network's integers, so that quantisation of
        inputs does not count as an error.

    Raises
    ------
    UserError
        The networks have different inputs, or no tensor in common.
    """
    graph = frontend.load(path)
    other, clipped = frontend.load_with_inner_values(parent, _open_shapes(parent, graph))
    names = frontend.float_value_names(path)
    pairing = Pairing(graph=graph, other=other, float_names=names, clipped=clipped)
    pairs = _matching_tensors(pairing)
    layers = {
        number: OperatorErrors(operator=operator_name(node), tensor=graph.tensors[number].name)
        for node in graph.nodes
        for number in node.outputs
        if number in pairs
    }
    states = initial_state(graph), initial_state(other)
    done = 0
    for ours, theirs in _inputs_of_both(graph, other, inputs, samples, seed):
        done += 1
        found = interpret(graph, {**states[0], **ours}, keep=True)
        wanted = interpret(other, {**states[1], **theirs}, keep=True)
        states = next_state(graph, found), next_state(other, wanted)
        for number, twin in pairs.items():
            expected = real_numbers(other.tensors[twin.number], wanted[twin.number])
            expected = twin.reorder(expected)
            actual = real_numbers(graph.tensors[number], found[number])
            layers[number] = layers[number].with_more(expected != actual, expected, actual)
    return Agreement(
        network=graph.name,
        parent=other.name,
        samples=done,
        layers=tuple(layers.values()),
        unmatched=pairing.missing_names(pairs),
    )


def _open_shapes(parent: str | Path, graph: Graph) -> dict[str, tuple[int, ...]]:
    """Return the graph's input shapes, by name, for inputs whose sizes the parent leaves open."""
    shapes = {graph.tensors[number].name: graph.tensors[number].shape for number in graph.inputs}
    undetermined = [each.key for each in frontend.declaration(parent).inputs if each.sizes is None]
    return {name: shapes[name] for name in undetermined if name in shapes}


def _matching_tensors(pairing: Pairing) -> dict[int, Counterpart]:
    """Return the original's counterpart of each quantised tensor that has one, by tensor number.

    Raises
    ------
    UserError
        The inputs have different shapes, or no tensor has a counterpart.
    """
    graph, other = pairing.graph, pairing.other
    shapes = [[each.tensors[at].shape for at in each.inputs] for each in (graph, other)]
    if shapes[0] != shapes[1]:
        raise UserError(
            f"both networks must have inputs of one shape, not {shapes[0]} and {shapes[1]}",
            hint="--against needs the network from which NET was made",
        )
    pairs = pairing.counterparts()
    if not pairs:
        raise UserError(
            f"{graph.name} and {other.name} have no tensor of the same name and shape",
            hint="--against needs the network from which NET was made",
        )
    return pairs


def _inputs_of_both(
    graph: Graph, other: Graph, inputs: Mapping[str, Array] | None, samples: int, seed: int
) -> Iterator[tuple[dict[int, Array], dict[int, Array]]]:
    """Yield the inputs of each sample for both networks, by tensor number."""
    stacked = None if inputs is None else graph_samples(graph, inputs)
    for sample in range(samples if stacked is None else len(stacked)):
        if stacked is None:
            ours = random_inputs(graph, seed + sample)
        else:
            arrays = stacked.sample(sample)
            ours = {number: arrays[graph.tensors[number].name] for number in graph.inputs}
        theirs = {}
        for number, twin in zip(graph.inputs, other.inputs, strict=True):
            numbers = real_numbers(graph.tensors[number], ours[number])
            wanted = np.dtype(other.tensors[twin].dtype)
            if wanted != np.float32 and wanted != ours[number].dtype:
                raise UserError(
                    f"the parent's inputs must be float32 or the network's, not {wanted}",
                    hint="--against needs the network from which NET was made",
                )
            theirs[twin] = numbers.astype(wanted) if wanted == np.float32 else ours[number]
        yield ours, theirs
