"""Runs the loops of a program, whose bodies are programs of their own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from matloom.ir.graph import Array
from matloom.program import HostStep, Program
from matloom.program.host_steps import COUNTS
from matloom.report import LoopReport

__all__ = ["LoopRun", "Turns"]

#: The largest number of turns, where a condition decides.
_ENDLESS = np.iinfo(np.int64).max


class Turns(Protocol):
    """A session on a program of a loop."""

    program: Program

    def turn(self, inputs: dict[str, Array]) -> tuple[dict[str, Array], int]:
        """Run the program once; return its outputs by name, and the cycles that were counted."""

    def restore(self, state: Mapping[str, Array]) -> None:
        """Set the variables."""

    @property
    def state(self) -> dict[str, Array]:
        """The variables, by name."""


class LoopRun:
    """A loop of a program.

    Members
    -------
    turns, cycles:
        Number of turns of the last run, and the cycles of the engine in them.
    """

    def __init__(
        self, program: Program, number: int, session_of: Callable[[Program], Turns]
    ) -> None:
        step, programs = program.steps[number], program.loops[number]
        assert isinstance(step, HostStep)
        self.turns, self.cycles = 0, 0
        self._step, self._programs = step, len(programs)
        self._results = step.attributes["results"]
        self._carried: int = step.attributes["carried"]
        self._body, *conditions = map(session_of, programs)
        self._condition = conditions[0] if conditions else None
        self._counts = 0 if conditions else COUNTS
        self._kept = {each.name for each in self._body.program.variables}
        #: Outputs of the body that are stacked over all turns.
        self._stacked = self._body.program.outputs[
            bool(self._counts) + self._carried - len(self._kept) :
        ]

    def run(self, known: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name; the inputs are among `known`."""
        names = self._step.inputs
        values = [known[name] for name in names[: len(names) - self._programs]]
        counts, values = values[: self._counts], values[self._counts :]
        carried, fixed = values[: self._carried], values[self._carried :]
        most, goes_on = (counts[0].item(), counts[1].item()) if counts else (_ENDLESS, True)
        self._body.restore({name: carried[int(name)] for name in self._kept})
        stacked: list[list[Array]] = [[] for _ in self._stacked]
        self.turns, self.cycles = 0, 0
        while self.turns < most and goes_on and self._begins(carried):
            counters = [np.array(self.turns), np.array(goes_on)][: self._counts]
            plain = [value for at, value in enumerate(carried) if str(at) not in self._kept]
            made, cycles = _outputs(self._body, [*counters, *plain, *fixed])
            goes_on = made.pop(0).item() if counts else True
            ends = iter(made)
            carried = [
                value if str(at) in self._kept else next(ends) for at, value in enumerate(carried)
            ]
            for each, array in zip(stacked, ends, strict=True):
                each.append(array)
            self.turns, self.cycles = self.turns + 1, self.cycles + cycles
        state = self._body.state
        found = [state.get(str(at), value) for at, value in enumerate(carried)]
        for each, info in zip(stacked, self._stacked, strict=True):
            found.append(np.array(each, info.dtype).reshape(len(each), *info.shape))
        return {name: found[at] for name, at in zip(self._step.outputs, self._results, strict=True)}

    def report(self) -> LoopReport:
        """Return the cost of the last run; predicted on a device without a clock."""
        predicted = self.turns * self._body.program.predicted_cycles
        return LoopReport(
            name=self._step.outputs[0],
            turns=self.turns,
            cycles=self.cycles or predicted,
            counted=bool(self.cycles),
        )

    def _begins(self, carried: Sequence[Array]) -> bool:
        """Return whether the condition, if there is one, allows another turn."""
        if self._condition is None:
            return True
        (answer,), _cycles = _outputs(self._condition, carried)
        return bool(answer.item())


def _outputs(session: Turns, values: Sequence[Array]) -> tuple[list[Array], int]:
    """Return the outputs of a turn for inputs in order, and its cycles."""
    infos = session.program.inputs
    given = {
        info.name: np.asarray(value, info.dtype).reshape(info.shape)
        for info, value in zip(infos, values, strict=True)
    }
    outputs, cycles = session.turn(given)
    return list(outputs.values()), cycles
