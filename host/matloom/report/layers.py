"""Cost of one operator, and of one loop."""

from dataclasses import dataclass

from matloom.ir.graph import short_name
from matloom.terminal.tables import macs_cell


@dataclass(frozen=True, kw_only=True)
class LayerReport:
    """One operator: where it ran, and the cycles since the previous operator's completion.

    The cycles of all operators add up to the cycles of the report. Operators beyond the last slot
    of the completion-time table are `together`: the first has the cycles and predicted cycles of
    the whole group, the others have None and 0.
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
        """Return operator, place, multiply-accumulates, cycles, predicted ones and rate as text."""
        return self.operator, f"{self.where} {self.mode}".rstrip(), *self._figures()

    def _figures(self) -> tuple[str, str, str, str]:
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
    """A loop whose number of iterations an input decides, in one run of its network.

    Members
    -------
    name:
        That of its operator.
    iterations:
        Number of iterations.
    cycles, counted:
        Cycles of all iterations, and whether the engine counted them; else they are predicted.
    layers:
        Operators of its body, each with the cycles of all iterations; empty without an iteration.
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
