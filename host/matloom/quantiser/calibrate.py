"""Observes a float network on calibration samples, and plans the quantised network."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from matloom.errors import UserError
from matloom.ir.graph import Array, Graph, Op
from matloom.quantiser.build import QuantisationPlan, build
from matloom.quantiser.equalise import equalise, equalised_tensors
from matloom.quantiser.histogram import Histogram, histogram_of
from matloom.quantiser.kinds import choose_kinds
from matloom.quantiser.options import Options
from matloom.quantiser.precisions import layer_precisions
from matloom.quantiser.ranges import Range, choose_range, grid_range
from matloom.quantiser.relevant_values import clamp_to_relevant
from matloom.quantiser.run_nodes import run_nodes
from matloom.quantiser.scales import LEVELS, shared_ranges


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """A prepared network, and the values that its tensors take on samples.

    Members
    -------
    histograms:
        Histogram of each float tensor, by number; values that do not matter to their reader are
        replaced (`clamp_to_relevant`).
    grids:
        Ranges of those inputs whose values integers represent exactly, by number (`grid_range`).
    """

    graph: Graph
    histograms: Mapping[int, Histogram]
    grids: Mapping[int, Range]


def calibrate(graph: Graph, inputs: Mapping[int, Array], options: Options) -> Calibration:
    """Observe a prepared network on samples, after balancing channels if the options say so.

    Raises
    ------
    UserError
        The network's values are not finite on some sample.
    """
    if options.equalise:
        peaks = None if options.weight_scales == "per-tensor" else _channel_peaks(graph, inputs)
        graph = equalise(graph, peaks)
    return observe(graph, inputs)


def observe(graph: Graph, inputs: Mapping[int, Array]) -> Calibration:
    """Observe a prepared network on samples; raise UserError as `calibrate` does."""
    histograms = {
        number: histogram_of(array)
        for number, array in inputs.items()
        if graph.tensors[number].dtype == "float32"
    }
    for _at, node, values in run_nodes(graph, inputs):
        for number in node.outputs:
            if graph.tensors[number].dtype != "float32":
                continue
            if not np.isfinite(values[number]).all():
                raise UserError(
                    f"{node} computes NaN or infinity from the calibration samples",
                    hint="check that the samples are preprocessed as in training",
                )
            table = graph.tensors[node.inputs[0]].data if node.op is Op.GATHER else None
            # Samples read some rows of a table; others must have the same scale.
            seen = clamp_to_relevant(graph, number, values) if table is None else table
            histograms[number] = histogram_of(seen)
    grids = {
        number: grid_range(array, LEVELS["int8"])
        for number, array in inputs.items()
        if graph.tensors[number].dtype == "float32"
    }
    return Calibration(
        graph=graph,
        histograms=histograms,
        grids={number: grid for number, grid in grids.items() if grid is not None},
    )


def _channel_peaks(graph: Graph, inputs: Mapping[int, Array]) -> dict[int, Array]:
    """Return the largest magnitude in each channel of tensors that can be balanced, by number."""
    balanced, peaks = equalised_tensors(graph), {}
    for _at, node, values in run_nodes(graph, inputs):
        for number in balanced.intersection(node.outputs):
            axes = tuple(range(values[number].ndim - 1))
            peaks[number] = np.abs(values[number]).max(axis=axes)
    return peaks


def plan_network(
    calibration: Calibration, precision: str | Mapping[str, str], options: Options
) -> QuantisationPlan:
    """Return the plan for quantising a network; `precision` is as for `layer_precisions`."""
    graph = calibration.graph
    kinds, bits = layer_precisions(graph, precision)
    chosen = choose_kinds(graph, kinds)
    made_as = {number: chosen[at] for number, at in graph.producers.items()}
    for number in graph.inputs:
        readers = graph.consumers[number]
        made_as[number] = chosen[readers[0]] if readers else "float32"
    ranges = {
        number: choose_range(
            histogram, options.calibration, LEVELS.get(made_as[number], LEVELS["int8"])
        )
        for number, histogram in calibration.histograms.items()
    }
    ranges.update(
        (number, grid) for number, grid in calibration.grids.items() if made_as[number] == "int8"
    )
    return QuantisationPlan(
        kinds=chosen, bits=bits, ranges=shared_ranges(graph, ranges, chosen), options=options
    )


def quantise_calibrated(
    calibration: Calibration,
    precision: str | Mapping[str, str],
    inputs: Mapping[int, Array],
    options: Options,
) -> Graph:
    """Return a quantised network, fitted to samples; `precision` is as for `layer_precisions`."""
    plan = plan_network(calibration, precision, options)
    return build(calibration.graph, plan, inputs, lambda _step: None)
