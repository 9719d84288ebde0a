"""Decides whether to balance the ranges of channels, by quantising with and without it."""

from collections.abc import Mapping
from dataclasses import replace

from matloom.ir.graph import Array, Graph
from matloom.quantiser.calibrate import calibrate, quantise_calibrated
from matloom.quantiser.equalise import equalised_tensors
from matloom.quantiser.expected import expected_share
from matloom.quantiser.judge import watched_tensors
from matloom.quantiser.measure import noise_share, rounded_outputs
from matloom.quantiser.options import Options
from matloom.quantiser.relevant_values import clamp_to_relevant
from matloom.quantiser.run_nodes import outputs_of
from matloom.terminal.progress import set_activity


def decide_equalise(graph: Graph, inputs: Mapping[int, Array], options: Options) -> Options:
    """Return the options with `equalise` decided by trial; unchanged if it is not None.

    Each variant is quantised on one half of the samples and measured on the other half, and then
    with the halves exchanged. With a single sample, channels are balanced without a trial.

    Parameters
    ----------
    inputs:
        Calibration samples by input number, (samples, *shape).
    """
    if options.equalise is not None:
        return options
    known, others = ({number: array[at::2] for number, array in inputs.items()} for at in (0, 1))
    if not equalised_tensors(graph) or not all(map(len, others.values())):
        return replace(options, equalise=True)
    set_activity("balanced channels or not")
    ways = [replace(options, equalise=way) for way in (True, False)]
    return min(
        ways, key=lambda way: _loss(graph, known, others, way) + _loss(graph, others, known, way)
    )


def _loss(
    graph: Graph,
    calibration_inputs: Mapping[int, Array],
    held_out_inputs: Mapping[int, Array],
    options: Options,
) -> float:
    """Return the loss of a network that is calibrated on some inputs and measured on others.

    Weights have 8 bits. The loss is a sum over the outputs. An output of SOFTMAX, or of a similar
    operator, adds the share of its results that are expected to change; other outputs add their
    noise as a share of their power.
    """
    made = quantise_calibrated(
        calibrate(graph, calibration_inputs, options), "i8xi8", calibration_inputs, options
    )
    numbers = watched_tensors(graph)
    exact = outputs_of(replace(graph, outputs=numbers), held_out_inputs)
    rounded = rounded_outputs(made, numbers, held_out_inputs)
    lost = 0.0
    for number, *pair in zip(numbers, exact, rounded, strict=True):
        whole, found = (clamp_to_relevant(graph, number, {number: each}) for each in pair)
        if number in graph.outputs or whole.shape[-1] == 1:
            lost += noise_share(whole, found)
        else:
            exact_rows, rows = (each.reshape(-1, each.shape[-1]) for each in (whole, found))
            lost += 1 - expected_share(exact_rows, rows, exact_rows.argmax(axis=1))
    return lost
