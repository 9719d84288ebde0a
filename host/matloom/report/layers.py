"""Cost of one operator, and of one loop."""

from dataclasses import dataclass

from matloom.ir.graph import short_name
from matloom.terminal.tables import macs_cell


@dataclass(frozen=True, kw_only=True)
class LayerReport:
    """One operator: where it ran, and the cycles since the previous operator's completion.

    The cycles of all operators add up to the cycles of the report. Operators that share the last
    slot of the completion-time table are marked `together`: the first has the cycles and predicted
    cycles of the whole group, the others have None and 0. `cycles` is also None if the engine did
    not count them, and `reason` says why an operator does not run on the engine.
    """

    name: str
    operator: str
    where: str
    macs: int
    cycles: int | None
    predicted_cycles: int
    reason: str = ""
    mode: str = ""
    together: bool = False

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the operator's row, as text.

        They are operator, place and mode, MACs, cycles, predicted cycles and MACs per cycle.
        """
        return self.operator, f"{self.where} {self.mode}".rstrip(), *self._figures()

    def _figures(self) -> tuple[str, str, str, str]:
        """Return cells for MACs, counted cycles, predicted cycles, and MACs per cycle."""
        if self.together:
            cycles = "together" if self.cycles is None else f"{self.cycles:,} together"
            predicted = f"{self.predicted_cycles:,} together" if self.predicted_cycles else ""
            return macs_cell(self.operator, self.macs), cycles, predicted, ""
        if self.where == "engine" and self.macs and not self.mode:
            return macs_cell(self.operator, self.macs), "fused", "", ""
        spent = self.cycles or self.predicted_cycles
        return (
            macs_cell(self.operator, self.macs),
            "" if self.cycles is None else f"{self.cycles:,}",
            f"{self.predicted_cycles:,}" if self.where == "engine" or self.predicted_cycles else "",
            f"{self.macs / spent:.1f}" if self.macs and spent else "",
        )


@dataclass(frozen=True, kw_only=True)
class LoopReport:
    """A loop whose number of iterations is known only when it runs, in one run of its network.

    Members
    -------
    name:
        Name of the loop's operator.
    iterations:
        Number of iterations in this run.
    cycles, counted:
        Cycles of all iterations, and whether the engine counted them; otherwise, they are
        predicted.
    layers:
        Operators of the body, each with its cycles in all iterations; empty if there were none.
    """

    name: str
    iterations: int
    cycles: int = 0
    counted: bool = False
    layers: tuple[LayerReport, ...] = ()

    def __str__(self) -> str:
        source = "counted" if self.counted else "predicted"
        iterations = f"{self.iterations:,} iteration{'s' * (self.iterations != 1)}"
        return (
            f"loop {short_name(self.name)}: {iterations}, {self.cycles:,} of the cycles ({source})"
        )
