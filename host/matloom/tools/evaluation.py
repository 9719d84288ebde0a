"""Accuracy of a network on labelled samples, as a table, sentences or JSON."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from matloom.terminal.tables import NameTable, as_text

#: Number of wrong classes listed for each right one.
_LISTED_MISTAKES = 3


@dataclass(frozen=True, kw_only=True)
class ClassResult:
    """Counts for one class: its samples, samples predicted as it, and correct predictions.

    `taken` is the number of samples predicted as the class, `right` that of correct predictions.
    """

    label: int
    samples: int
    taken: int
    right: int

    @property
    def recall(self) -> float | None:
        """Correct predictions divided by samples of the class; None without samples."""
        return self.right / self.samples if self.samples else None

    @property
    def precision(self) -> float | None:
        """Correct predictions divided by predictions of the class; None without predictions."""
        return self.right / self.taken if self.taken else None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Results of a network on labelled samples.

    Members
    -------
    metric, value, low, high, interval:
        The metric, its value, the ends of its 95 % interval and the method; the ends are None if
        there are too few samples.
    classes, confusion:
        For ``topK``: results by class, and how often each class (row) was predicted as each
        (column).
    cycles:
        Median cycles of the engine per sample; `cycles_first` is for the first sample, which may
        have to load weights. `cycles_source` says whether they were counted.
    computed_by, equality:
        As in `matloom.report.Report`.
    seconds:
        Duration of all samples on this machine.
    conversions:
        Conversions applied to the inputs, as sentences.
    """

    network: str
    device: str
    config_digest: str
    samples: int
    metric: str
    value: float
    low: float | None
    high: float | None
    interval: str
    cycles: int
    cycles_first: int
    cycles_source: str
    computed_by: str
    equality: str
    output: str = ""
    seconds: float = 0.0
    classes: tuple[ClassResult, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    conversions: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the evaluation as a dictionary of JSON types."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """Return the evaluation as a JSON text."""
        return json.dumps(self.as_dict(), indent=2) + "\n"

    def table(self) -> Table | None:
        """Return the classes as a table; None for a metric without classes."""
        if not self.classes:
            return None
        table = NameTable("classes, by the largest element")
        for heading in ("class", "samples", "right", "recall", "precision"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("mistaken for (times)")
        for item, row in zip(self.classes, self.confusion, strict=True):
            shares = (
                "" if share is None else f"{share:.3f}" for share in (item.recall, item.precision)
            )
            wrong = [
                (count, predicted) for predicted, count in enumerate(row) if predicted != item.label
            ]
            most = sorted((pair for pair in wrong if pair[0]), key=lambda pair: -pair[0])
            named = ", ".join(
                f"{predicted} ({count})" for count, predicted in most[:_LISTED_MISTAKES]
            )
            more = ", ..." if len(most) > _LISTED_MISTAKES else ""
            figures = map(str, (item.label, item.samples, item.right))
            table.add_row(*figures, *shares, named + more)
        return table

    def lines(self) -> list[str]:
        """Return lines with the metric, the cost, and the conversions of inputs."""
        within = ""
        if self.low is not None and self.high is not None:
            within = f" (95 % interval {self.low:.4g} to {self.high:.4g}, {self.interval})"
        first = f", the first {self.cycles_first:,}" if self.cycles_first != self.cycles else ""
        how = "counted" if self.cycles_source == "counters" else "predicted, not counted"
        lines = [
            f"{self.metric} {self.value:.4g}{within}",
            f"{self.samples:,} samples on {self.device} in {self.seconds:.1f} s",
            f"{self.cycles:,} cycles per sample{first} ({how})",
        ]
        if self.computed_by == "kernels":
            lines.append(f"outputs are those of the operators' kernels; {self.equality}")
        return [*lines, *self.conversions]

    def __str__(self) -> str:
        table = self.table()
        return as_text((*([] if table is None else [table]), *self.lines()))
