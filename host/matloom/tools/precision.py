"""Measures the effect of another precision: weights, cycles, and outputs for given inputs."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from matloom import frontend
from matloom.arch.config import Config
from matloom.arch.floats import FLOAT_FORMATS, narrow, widen
from matloom.errors import UserError
from matloom.ir.graph import Array, Graph, Op, Tensor, short_name
from matloom.passes.choose_modes import FLOAT32_MODES, Precision, choose_modes
from matloom.passes.lower_precision import dequantise, lower_precision
from matloom.program import LayerInfo, Program
from matloom.runtime import compile, load
from matloom.terminal.tables import as_text, layer_table

Inputs = Array | Mapping[str, Array]


@dataclass(frozen=True, kw_only=True)
class OutputChange:
    """Change of an output between two precisions, in real numbers, over all samples.

    `largest` and `mean` are absolute differences. `agreement` is the share of positions at which
    the largest element along the last axis keeps its index.
    """

    name: str
    largest: float
    mean: float
    agreement: float


@dataclass(frozen=True, kw_only=True)
class LayerChange:
    """Change of a convolution or dense layer between two precisions.

    Members
    -------
    mode:
        Number format of its products on the engine; empty on the host.
    weights_sqnr_db:
        Signal-to-noise ratio of the changed weights; None if they do not change.
    cycles_before, cycles_after:
        Predicted cycles, 0 on the host.
    alone:
        Change of the first output if only this layer has its mode; None if not requested.
    """

    name: str
    operator: str
    mode: str
    weights_sqnr_db: float | None
    cycles_before: int
    cycles_after: int
    alone: OutputChange | None = None


@dataclass(frozen=True, kw_only=True)
class PrecisionReport:
    """Comparison of a network before and after a change of precision.

    Members
    -------
    cycles_before, cycles_after:
        Predicted cycles of the engine; host operators count 0.
    samples:
        Number of samples; 0 without inputs.
    outputs:
        Change of each output; empty without inputs.
    accuracy_before, accuracy_after:
        Share of labels that the first output predicts correctly; None without labels.
    """

    network: str
    layers: tuple[LayerChange, ...]
    cycles_before: int
    cycles_after: int
    samples: int = 0
    outputs: tuple[OutputChange, ...] = ()
    accuracy_before: float | None = None
    accuracy_after: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a dictionary of JSON types."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """Return the report as a JSON text."""
        return json.dumps(self.as_dict(), indent=2) + "\n"

    def table(self) -> Table:
        """Return the layers as a table."""
        alone = any(layer.alone for layer in self.layers)
        figures = ["weights,\ndB", "cycles\nbefore", "cycles\nafter"]
        if alone:
            figures.append("alone:\nsame result")
        title = f"{self.network}: what the precision changes"
        table = layer_table(title, ("layer", "operator", "mode"), figures, spare=figures[:1])
        for layer in self.layers:
            sqnr_db = layer.weights_sqnr_db
            cells = [short_name(layer.name), layer.operator, layer.mode or "host"]
            cells += ["" if sqnr_db is None else f"{sqnr_db:.1f}"]
            cells += [f"{count:,}" for count in (layer.cycles_before, layer.cycles_after)]
            if alone:
                cells.append("" if layer.alone is None else f"{layer.alone.agreement:.1%}")
            table.add_row(*cells)
        return table

    def sentences(self) -> list[str]:
        """Return sentences on cycles, outputs and accuracy of the whole network."""
        lines = [f"{self.cycles_before:,} cycles (predicted) before, {self.cycles_after:,} after"]
        lines += [
            f"{output.name}: differs by {output.largest:.3g} at most and {output.mean:.3g} in "
            f"the mean of {self.samples} samples; {output.agreement:.1%} have the same result"
            for output in self.outputs
        ]
        if self.accuracy_before is not None and self.accuracy_after is not None:
            lines.append(
                f"accuracy {self.accuracy_before:.1%} before, {self.accuracy_after:.1%} after"
            )
        return lines

    def __str__(self) -> str:
        return as_text((self.table(), *self.sentences()))


def precision_report(
    model: str | Path | Graph,
    precision: Precision,
    inputs: Inputs | None = None,
    labels: npt.ArrayLike | None = None,
    config: Config | str | Path = "reference",
    device: str = "model",
    *,
    by_layer: bool = False,
) -> PrecisionReport:
    """Return the effect of a precision on a network: weights, cycles, outputs, accuracy.

    Parameters
    ----------
    model, precision, config, device:
        As for `matloom.load`; modes are added to the configuration.
    inputs:
        As for `Session.run`, with any number of samples.
    labels:
        Integers, with the shape of the first output without its last axis.
    by_layer:
        Also run the network with one layer at a time in its new mode, to find layers that are
        better left unchanged.

    Raises
    ------
    ValueError, TypeError
        Inputs, labels or precision do not fit the network.
    """
    if inputs is None and (labels is not None or by_layer):
        raise UserError("labels and by_layer must go with inputs", hint="give inputs, too")
    graph = model if isinstance(model, Graph) else frontend.load(Path(model))
    before, after = compile(graph, config), compile(graph, config, precision=precision)
    if inputs is None:
        return PrecisionReport(
            network=graph.name,
            layers=tuple(_layer_changes(graph, precision, before, after)),
            cycles_before=before.predicted_cycles,
            cycles_after=after.predicted_cycles,
        )
    plain, changed = _outputs(before, inputs, device), _outputs(after, inputs, device)
    first = next(iter(plain))
    alone = {}
    if by_layer:
        for number, mode in choose_modes(graph, precision).items():
            name = graph.tensors[number].name
            single = compile(graph, config, precision={name: mode})
            alone[name] = _output_change(
                first, plain[first], _outputs(single, inputs, device)[first]
            )
    return PrecisionReport(
        network=graph.name,
        layers=tuple(
            dataclasses.replace(layer, alone=alone.get(layer.name))
            for layer in _layer_changes(graph, precision, before, after)
        ),
        cycles_before=before.predicted_cycles,
        cycles_after=after.predicted_cycles,
        samples=len(plain[first]) // (before.outputs[0].shape or (1,))[0],
        outputs=tuple(_output_change(name, plain[name], changed[name]) for name in plain),
        accuracy_before=_accuracy(plain[first], labels),
        accuracy_after=_accuracy(changed[first], labels),
    )


def _outputs(program: Program, inputs: Inputs, device: str) -> dict[str, Array]:
    """Return the outputs of a program for `inputs`, by name, as real numbers."""
    with load(program, device=device) as session:
        results = session.run(inputs)
    found = results if isinstance(results, dict) else {program.outputs[0].name: results}
    real = {}
    for info in program.outputs:
        array = found[info.name].astype(np.float64)
        if info.quantised is not None:
            array = (array - info.quantised.zero_point) * info.quantised.scale
        real[info.name] = array
    return real


def _output_change(name: str, plain: Array, changed: Array) -> OutputChange:
    """Return the change of an output between two precisions, given its values with each."""
    deviation = np.abs(changed - plain)
    return OutputChange(
        name=name,
        largest=float(deviation.max()),
        mean=float(deviation.mean()),
        agreement=float((_predicted_classes(plain) == _predicted_classes(changed)).mean()),
    )


def _predicted_classes(output: Array) -> Array:
    """Return the index of the largest element along the last axis."""
    return np.asarray(output.argmax(axis=-1)) if output.ndim else np.zeros(())


def _accuracy(output: Array, labels: npt.ArrayLike | None) -> float | None:
    """Return the share of labels that an output predicts correctly; None without labels."""
    if labels is None:
        return None
    results, wanted = _predicted_classes(output).reshape(-1), np.asarray(labels).reshape(-1)
    if wanted.dtype.kind not in "iu" or wanted.shape != results.shape:
        raise UserError(
            f"labels must be {len(results)} integers, not {len(wanted)} of {wanted.dtype}",
            hint="give a whole number for each sample: the index of its class",
        )
    return float((results == wanted).mean())


def _layer_changes(
    graph: Graph, precision: Precision, before: Program, after: Program
) -> Iterator[LayerChange]:
    """Yield the change of each convolution and dense layer between two programs."""
    changed, modes = lower_precision(graph, precision), choose_modes(graph, precision)
    nodes = {node.outputs[0]: node for node in changed.nodes}
    for node in graph.nodes:
        if node.op not in (Op.CONV_2D, Op.FULLY_CONNECTED):
            continue
        was, now = (_layer_of_tensor(program, graph, node.output) for program in (before, after))
        sqnr_db = None
        # A layer whose mode the engine cannot run stays unchanged.
        if modes.get(node.output) == now.mode:
            weights = changed.tensors[nodes[node.output].inputs[1]]
            sqnr_db = _sqnr_db(graph.tensors[node.inputs[1]], weights, now.mode)
        yield LayerChange(
            name=graph.tensors[node.output].name,
            operator=str(node.op),
            mode=now.mode,
            weights_sqnr_db=sqnr_db,
            cycles_before=was.predicted_cycles,
            cycles_after=now.predicted_cycles,
        )


def _layer_of_tensor(program: Program, graph: Graph, number: int) -> LayerInfo:
    """Return the layer of a program that computes tensor `number`.

    A program appends the tensor number to names that are not unique.
    """
    name = graph.tensors[number].name
    layers = {layer.name: layer for layer in program.layers}
    return layers[name] if name in layers else layers[f"{name}:{number}"]


def _sqnr_db(before: Tensor, after: Tensor, mode: str) -> float | None:
    """Return the signal-to-noise ratio (dB) of weights changed by a mode; None if unchanged."""
    plain, changed = (dequantise(tensor).data for tensor in (before, after))
    assert plain is not None
    assert changed is not None
    if mode in FLOAT32_MODES:
        raw = np.ascontiguousarray(changed).view(np.uint32).astype(np.int64)
        wide = widen(narrow(raw, FLOAT_FORMATS[mode]), FLOAT_FORMATS[mode])
        changed = np.asarray(wide).astype(np.uint32).view(np.float32)
    error = np.square(changed.astype(np.float64) - plain).sum()
    return (
        float(10 * np.log10(np.square(plain.astype(np.float64)).sum() / error)) if error else None
    )
