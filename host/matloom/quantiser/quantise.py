"""Quantises a network: calibrates, builds, measures, writes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from matloom import frontend
from matloom.errors import UserError, unknown_name_error
from matloom.frontend.readers import Source
from matloom.ir.attributes import Function
from matloom.ir.graph import Array, Graph, Op
from matloom.quantiser.levels import Level
from matloom.quantiser.options import Options
from matloom.quantiser.prepare import prepare
from matloom.quantiser.quantiser import Quantiser, four_bit_layers
from matloom.quantiser.report import QuantisationReport
from matloom.quantiser.samples import check_labels, split_samples
from matloom.quantiser.search import EXACT, Goal, Search, require_mode
from matloom.quantiser.separate import separate
from matloom.quantiser.state import with_state, without_state
from matloom.terminal.progress import set_activity

#: Default configuration for which a search predicts cycles.
_ENGINE = "reference"


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantisedNetwork:
    """A quantised network, with its file and the report on its quality.

    Members
    -------
    graph:
        The network as a graph, which `matloom.load` and `matloom.compile` take.
    content:
        The same as a TensorFlow Lite file.
    """

    graph: Graph
    content: bytes
    report: QuantisationReport

    def onnx(self) -> bytes:
        """Return an ONNX file, whose inputs and outputs are floats.

        8-bit tensors lie between QuantizeLinear and DequantizeLinear. Results are those of ONNX
        Runtime, which rounds differently from TensorFlow Lite Micro.

        Raises
        ------
        UserError
            ONNX has no such operator, or activations have 16 bits.
        """
        try:
            return frontend.write(self.graph, ".onnx")[1]
        except ValueError as error:
            raise UserError(
                f"{self.report.network} cannot be written as an .onnx file: {error}",
                hint="write a .tflite file",
            ) from None

    def save(self, path: str | Path) -> None:
        """Write a TensorFlow Lite file, or an ONNX file if the path ends in ``.onnx``."""
        path = Path(path)
        path.write_bytes(self.onnx() if path.suffix == ".onnx" else self.content)


def quantise(
    model: Source | Graph,
    data: Array | Mapping[str, Array],
    *,
    labels: npt.ArrayLike | None = None,
    samples: int = 100,
    precision: str | Mapping[str, str] = "i8xi8",
    config: str | None = None,
    target: str | None = None,
    **choices: Any,
) -> QuantisedNetwork:
    """Return a float network with integer weights and activations.

    At most `samples` of the samples, drawn by a seed, calibrate the network. It is measured on the
    others, except those that a search uses, or on the same ones if there are no others.

    Parameters
    ----------
    model:
        A float network: a model file, its bytes, or a graph. In an ONNX file, pairs of
        QuantizeLinear and DequantizeLinear on activations are left out.
    data:
        Samples as for `matloom.evaluate`: float32 arrays by the names of the inputs, or one array.
        If the network has variables, the samples must be in the order in which it is called.
    labels:
        Class of each sample, to measure the accuracy too.
    precision:
        ``"i8xi8"``, ``"i8xi4"`` (weights of four bits in convolutions and dense layers) or
        ``"i16xi8"`` for all layers; or a table by the names of layers, in which ``*`` stands for
        all others, and ``float32`` leaves one unchanged.
    config:
        Configuration to predict cycles for; None predicts none.
    target:
        Search for a mixture of 8-bit and 4-bit weights instead of taking `precision`:
        ``"points=0.5"``, the fastest that is expected to lose at most 0.5 % of the results that
        8-bit weights get right (by `labels`, or without them by the float network);
        ``"cycles=60000"``, the most accurate within 60,000 cycles; or a level: ``"O1"``, 8-bit
        weights, ``"O2"``, as ``"points=0.5"``, or ``"O3"``, as ``"points=1"``, measured together
        with the levels below it. `config` must have the mode i8xi4.
    choices:
        Members of `Options`.

    Raises
    ------
    UserError
        The network has integer operators or no layers, the samples do not fit it or are not
        finite, or an option is wrong.
    """
    options, engine = _options_of(choices), config or _ENGINE
    goal = _goal(target, engine)
    source = model if isinstance(model, Graph) else frontend.load_floats(model)
    opened, data = without_state(source, data)
    exact = prepare(opened)
    searching = goal is not None or options.compress is not None
    split = split_samples(exact, data, samples, options.seed, searching=searching)
    classes = check_labels(labels, split, exact)
    work, found, levels = _search(Quantiser(exact, split, classes, options, engine), goal)
    made, layers = work.quantise(precision if found is None else four_bit_layers(found.chosen))
    whole = with_state(made, source)
    content = _tflite_file(whole)
    set_activity("measuring")
    report = QuantisationReport(
        network=exact.name,
        options=work.options,
        calibrated=tuple(split.chosen.tolist()),
        tried=tuple(split.for_trials().tried.tolist()) if searching else (),
        tested=tuple(split.measured.tolist()),
        layers=layers,
        outputs=work.outputs(made)[: len(source.outputs)],
        bytes_before=_float_bytes(exact),
        bytes_after=len(content),
        search=found,
        compression=work.compression,
        levels=levels,
    )
    report = _with_cycles(report, whole, config)
    return QuantisedNetwork(graph=whole, content=content, report=report)


def _search(
    quantiser: Quantiser, goal: Goal | None
) -> tuple[Quantiser, Search | None, tuple[Level, ...]]:
    """Search for 4-bit layers; return the quantiser to use, the search, and its lower levels.

    Lower levels are less aggressive than the requested one; they are measured for comparison.
    Without a goal, there is no search (None) and no level.
    """
    if goal is None:
        return quantiser, None, ()
    match = quantiser.search(goal)
    levels = tuple(quantiser.levels(match))
    return *quantiser.rewrite(match), levels


def _tflite_file(graph: Graph) -> bytes:
    """Return a graph as a TensorFlow Lite file."""
    return frontend.write(separate(graph))[1]


def _float_bytes(graph: Graph) -> int:
    """Return the size in bytes of a float network as a TensorFlow Lite file.

    A FUNCTION counts as EXP, because TensorFlow Lite has no operators for most functions.
    """
    any_function = Function(function="EXP")
    nodes = [
        replace(node, attributes=any_function) if node.op is Op.FUNCTION else node
        for node in graph.nodes
    ]
    return len(_tflite_file(replace(graph, nodes=tuple(nodes))))


def _options_of(choices: Mapping[str, Any]) -> Options:
    """Return options by name, or raise `UserError` for an unknown name."""
    known = Options.__dataclass_fields__
    for name in choices:
        if name not in known:
            raise unknown_name_error(UserError, "an option", name, known)
    return Options(**choices)


def _goal(target: str | None, config: str) -> Goal | None:
    """Return the goal of a search; None without a target, or for the level with 8-bit weights."""
    goal = None if target is None else Goal.parse(target)
    if goal is None or goal.level == EXACT:
        return None
    require_mode(config)
    return goal


def _with_cycles(
    report: QuantisationReport, graph: Graph, config: str | None
) -> QuantisationReport:
    """Return a report with predicted cycles; unchanged if no configuration is given."""
    if config is None:
        return report
    from matloom.runtime import compile

    program = compile(graph, config, check="none")
    cycles = {layer.name: layer.predicted_cycles for layer in program.layers}
    layers = tuple(
        replace(layer, predicted_cycles=cycles.get(layer.name)) for layer in report.layers
    )
    return replace(report, layers=layers, config=config, cycles=program.predicted_cycles)
