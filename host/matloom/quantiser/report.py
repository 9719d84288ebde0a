"""Report of a quantisation: how close each layer and the outputs are to the float network."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from matloom.quantiser.compress import Compression
from matloom.quantiser.levels import Level
from matloom.quantiser.measure import Closeness, Share
from matloom.quantiser.options import Options
from matloom.quantiser.search import LEVEL_POINTS, Search
from matloom.terminal.tables import as_text, count_text, layer_table

#: Maximum number of layers with the greatest loss to list.
_WORST_LAYERS = 5


@dataclass(frozen=True, kw_only=True)
class LayerQuality:
    """Quality of an operator's output, over the calibration samples.

    In all figures, values that do not matter to their reader are replaced (`clamp_to_relevant`).

    Members
    -------
    kind:
        Type of the operator's data.
    bits:
        Number of bits of the operator's weights; None without weights.
    low, high:
        Range that the integers represent; zeros for floats.
    least, largest:
        Range of the float network's values.
    saturated:
        Share of the float network's values beyond `low` and `high`.
    sqnr_db:
        Signal-to-noise ratio, with the errors of all earlier operators; None without an error.
    lost:
        Percentage of the results that are expected to change because of this operator; None if not
        requested.
    predicted_cycles:
        Predicted cycles of the operator, 0 if the engine does not run it; None if the network was
        not compiled.
    """

    name: str
    operator: str
    kind: str
    bits: int | None
    low: float
    high: float
    least: float
    largest: float
    saturated: float
    sqnr_db: float | None
    lost: float | None = None
    predicted_cycles: int | None = None

    def cells(self) -> tuple[str, ...]:
        """Return a table row: layer, operator, type, SQNR, low, high, saturated, cycles."""
        return (
            self.name.split(";")[0],
            self.operator,
            self.kind if self.bits is None else f"{self.kind} x int{self.bits}",
            "" if self.sqnr_db is None else f"{self.sqnr_db:.1f}",
            f"{self.low:.4g}",
            f"{self.high:.4g}",
            f"{self.saturated:.2%}",
            "" if self.predicted_cycles is None else f"{self.predicted_cycles:,}",
        )


@dataclass(frozen=True, kw_only=True)
class QuantisationReport:
    """Result of a quantisation.

    Members
    -------
    calibrated:
        Positions in the data of the samples on which the network was calibrated.
    tried:
        Positions of the samples on which a search measured networks; empty without a search.
    tested:
        Positions of the samples on which `outputs` were measured.
    bytes_before, bytes_after:
        Sizes of the float and of the quantised model file.
    config, cycles:
        Configuration, and predicted cycles of a call; None without a configuration.
    search:
        The search that chose the layers with 4-bit weights; None if there was none.
    compression:
        The search that chose layers to rewrite; None if there was none.
    levels:
        The levels below the requested one.
    """

    network: str
    options: Options
    calibrated: tuple[int, ...]
    tried: tuple[int, ...]
    tested: tuple[int, ...]
    layers: tuple[LayerQuality, ...]
    outputs: tuple[Closeness, ...]
    bytes_before: int
    bytes_after: int
    config: str | None = None
    cycles: int | None = None
    search: Search | None = None
    compression: Compression | None = None
    levels: tuple[Level, ...] = ()

    @property
    def mean_sqnr_db(self) -> float | None:
        """Mean signal-to-noise ratio in decibels of the layers with an error; None without any."""
        ratios = [layer.sqnr_db for layer in self.layers if layer.sqnr_db is not None]
        return sum(ratios) / len(ratios) if ratios else None

    @property
    def levels_up_to_requested(self) -> tuple[Level, ...]:
        """Levels (such as "O2", each an allowed loss of accuracy) up to the requested one.

        Empty if none was requested.
        """
        found = self.search
        if found is None or found.target.level is None:
            return ()
        chosen = Level(
            name=found.target.level,
            points=LEVEL_POINTS[found.target.level],
            layers=found.chosen.layers,
            cycles=found.chosen.cycles,
            outputs=self.outputs,
        )
        return (*self.levels, chosen)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a dictionary of JSON types."""
        return {**dataclasses.asdict(self), "mean_sqnr_db": self.mean_sqnr_db}

    def to_json(self) -> str:
        """Return the report as a JSON text."""
        return json.dumps(self.as_dict(), indent=2, default=str) + "\n"

    def table(self) -> Table:
        """Return the layers as a table."""
        figures = ["SQNR,\ndB", "low", "high", "saturated", "cycles"]
        if self.cycles is None:
            figures.pop()
        words = ("layer", "operator", "type")
        table = layer_table(self.network, words, figures, spare=("type", "saturated"))
        for layer in self.layers:
            table.add_row(*layer.cells()[: len(words) + len(figures)])
        return table

    def lines(self) -> list[str]:
        """Return lines of text on searches, losses, levels, outputs and sizes."""
        lines = [] if self.compression is None else self.compression.lines()
        lines += [] if self.search is None else _search_lines(self.search)
        lines += _loss_lines(self.layers) + [
            line for level in self.levels_up_to_requested for line in _level_lines(level)
        ]
        lines += [line for output in self.outputs for line in _output_lines(output)]
        ratio = self.bytes_after / self.bytes_before
        lines.append(f"{self.bytes_after:,} bytes, {ratio:.0%} of the float file")
        if self.cycles is not None:
            lines.append(f"{self.cycles:,} cycles per call predicted for {self.config}")
        return lines

    def __str__(self) -> str:
        return as_text((self.table(), *self.lines()))


def _search_lines(search: Search) -> list[str]:
    """Return lines on the sensitivities and the points of a search."""
    lines = ["each layer alone with 4-bit weights: cycles saved, noise added to the outputs"]
    lines += [
        f"  {each.cycles:>8,}  {each.noise:>8.4%}  {each.name.split(';')[0]}"
        for each in search.sensitivities
    ]
    lines.append(
        "mixtures: cycles, SQNR of the outputs, agreement, expected to be right, 4-bit layers"
    )
    for point in search.points:
        mark = "*" if point.layers == search.chosen.layers else " " if point.best else "-"
        lines.append(f"{mark} {point.text()}  {len(point.layers)}")
    lines.append("* chosen, - another mixture is faster and closer")
    return lines


def _loss_lines(layers: tuple[LayerQuality, ...]) -> list[str]:
    """Return lines on the layers that cause the most loss; none if losses were not requested."""
    known = [(layer.lost, layer) for layer in layers if layer.lost is not None]
    if not known:
        return []
    total = sum(lost for lost, _layer in known)
    worst = sorted(known, key=lambda each: -each[0])[:_WORST_LAYERS]
    lines = [f"{total:.2f} % of the results are expected to change; the most because of"]
    return lines + [
        f"  {lost:>6.2f} %  {layer.name.split(';')[0]} ({layer.operator})" for lost, layer in worst
    ]


def _level_lines(level: Level) -> list[str]:
    """Return lines on the cycles and the accuracy of a level."""
    count = count_text(len(level.layers), "layer")
    lines = [f"level {level.name}: {level.cycles:,} cycles predicted, {count} with 4-bit weights"]
    for output in level.outputs:
        if output.agreement is not None:
            lines.append(f"  agreement {_percent_text(output.agreement)}")
        if output.accuracy is not None:
            lines.append(f"  accuracy {_percent_text(output.accuracy)}")
    return lines


def _output_lines(output: Closeness) -> list[str]:
    """Return the lines about one output: its samples, agreement, SQNR and accuracy."""
    of = "the calibration samples" if output.calibrated else "samples it was not calibrated on"
    lines = [f"output {output.output!r}, on {count_text(output.samples, 'sample')}: {of}"]
    if output.agreement is not None:
        lines.append(f"  agrees with the float network on {_percent_text(output.agreement)}")
    if output.sqnr_db is not None:
        lines.append(f"  SQNR {output.sqnr_db:.1f} dB")
    if output.accuracy is not None and output.accuracy_float is not None:
        lines.append(
            f"  accuracy {_percent_text(output.accuracy)}, of the float network "
            f"{_percent_text(output.accuracy_float)} (McNemar p = {output.mcnemar:.2f})"
        )
    return lines


def _percent_text(share: Share) -> str:
    """Return a share and its confidence interval in percent, as text."""
    low, high = 100 * share.low, 100 * share.high
    return f"{100 * share.value:.2f} % ({low:.1f} to {high:.1f})"
