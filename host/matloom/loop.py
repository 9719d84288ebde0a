"""Runs the loops of a program, whose bodies are programs of their own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from matloom.device.driver import Counters
from matloom.ir.graph import Array
from matloom.program import HostStep, Program
from matloom.program.host_steps import COUNTS
from matloom.report import Report, add_iteration, with_loop

#: Maximum number of iterations of a loop without an iteration count, which its condition ends.
_ENDLESS = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class LastIteration:
    """Program, cost and counters of the last iteration of a loop, for a profile.

    Members
    -------
    program:
        The program of the loop's body.
    report:
        Cost of the iteration.
    counted:
        Counters of each engine step of the iteration.
    inside:
        The last iterations of loops within the body, by the names of their operators.
    """

    program: Program
    report: Report
    counted: tuple[Counters, ...]
    inside: "Mapping[str, LastIteration]"


class LoopSession(Protocol):
    """Session that runs the program of a loop's body or condition."""

    program: Program

    def iterate(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Run the program once; return its outputs by name."""

    def report(self) -> Report:
        """Return the cost of the last iteration."""

    @property
    def counted(self) -> tuple[Counters, ...]:
        """Counters of each engine step of the last iteration."""

    @property
    def last_iterations(self) -> Mapping[str, LastIteration]:
        """The last iterations of loops within the program, by the names of their operators."""

    def restore(self, state: Mapping[str, Array]) -> None:
        """Set the program's variables to the given values, by name."""

    @property
    def state(self) -> dict[str, Array]:
        """The values of the program's variables, by name."""


class LoopRun:
    """Runs one loop of a program, with a session for its body and one for its condition, if any.

    Members
    -------
    iterations:
        Number of iterations of the last run.
    cost:
        Total cost of these iterations; None if there were none.
    name:
        Name of the loop's operator, which is that of its first output.
    """

    def __init__(
        self, program: Program, number: int, session_of: Callable[[Program], LoopSession]
    ) -> None:
        step, programs = program.steps[number], program.loops[number]
        assert isinstance(step, HostStep)
        self.name, self.iterations = step.outputs[0], 0
        self.cost: Report | None = None
        self._step, self._programs = step, len(programs)
        self._results = step.attributes["results"]
        self._carried: int = step.attributes["carried"]
        self._body, *conditions = map(session_of, programs)
        self._condition = conditions[0] if conditions else None
        self._counts = 0 if conditions else COUNTS
        self._kept = {each.name for each in self._body.program.variables}
        #: Outputs of the body that are stacked over all iterations.
        self._stacked = self._body.program.outputs[
            bool(self._counts) + self._carried - len(self._kept) :
        ]

    def run(self, known: Mapping[str, Array]) -> dict[str, Array]:
        """Run the loop to its end on the `known` tensors; return its outputs by name.

        `known` maps names to arrays, and contains the loop's inputs.
        """
        names = self._step.inputs
        values = [known[name] for name in names[: len(names) - self._programs]]
        counts, values = values[: self._counts], values[self._counts :]
        carried, fixed = values[: self._carried], values[self._carried :]
        most, goes_on = (counts[0].item(), counts[1].item()) if counts else (_ENDLESS, True)
        self._body.restore({name: carried[int(name)] for name in self._kept})
        stacked: list[list[Array]] = [[] for _ in self._stacked]
        self.iterations, self.cost = 0, None
        while self.iterations < most and goes_on and self._continues(carried):
            counters = [np.array(self.iterations), np.array(goes_on)][: self._counts]
            plain = [value for at, value in enumerate(carried) if str(at) not in self._kept]
            made = _run_in_order(self._body, [*counters, *plain, *fixed])
            goes_on = made.pop(0).item() if counts else True
            ends = iter(made)
            carried = [
                value if str(at) in self._kept else next(ends) for at, value in enumerate(carried)
            ]
            for each, array in zip(stacked, ends, strict=True):
                each.append(array)
            cost = self._body.report()
            self.iterations, self.cost = (
                self.iterations + 1,
                add_iteration(self.cost, cost) if self.cost else cost,
            )
        state = self._body.state
        found = [state.get(str(at), value) for at, value in enumerate(carried)]
        for each, info in zip(stacked, self._stacked, strict=True):
            found.append(np.array(each, info.dtype).reshape(len(each), *info.shape))
        return {name: found[at] for name, at in zip(self._step.outputs, self._results, strict=True)}

    def add_to(self, report: Report) -> Report:
        """Return the network's report with the cost of this loop added."""
        return with_loop(report, self.name, self.iterations, self.cost)

    def last_iteration(self) -> LastIteration:
        """Return the last iteration; the last run must have had at least one."""
        body = self._body
        return LastIteration(
            program=body.program,
            report=body.report(),
            counted=body.counted,
            inside=body.last_iterations,
        )

    def _continues(self, carried: Sequence[Array]) -> bool:
        """Return whether another iteration follows: what the loop's condition returns, or True.

        `carried` has the values that one iteration passes to the next.
        """
        if self._condition is None:
            return True
        (answer,) = _run_in_order(self._condition, carried)
        return bool(answer.item())


def _run_in_order(session: LoopSession, values: Sequence[Array]) -> list[Array]:
    """Run a session once on inputs in the program's order; return its outputs in order."""
    infos = session.program.inputs
    inputs = {
        info.name: np.asarray(value, info.dtype).reshape(info.shape)
        for info, value in zip(infos, values, strict=True)
    }
    return list(session.iterate(inputs).values())
