"""Advice: changes that would make a network faster, each with predicted cycles, best first."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from matloom.arch.config import Config, ConfigError
from matloom.arch.config_name import config_name
from matloom.arch.machine import Machine
from matloom.arch.memory import Memory
from matloom.cost import predict
from matloom.profile.changes import Change, changes
from matloom.profile.timeline import Timeline
from matloom.program import Program
from matloom.schedule import CompileError
from matloom.terminal.progress import set_activity

#: Function that compiles the profiled network for another engine, memory and effort.
Compiler: TypeAlias = Callable[[Config, Memory, int], Program]

#: Maximum number of instructions of a network that is compiled again for each change. A compilation
#: takes about a hundred times as long as a prediction from existing instructions.
_COMPILED_AGAIN = 2500

#: Maximum number of instructions of a network that is compiled again for the best line.
_FIRST_COMPILED = 5000

#: Methods by which gains are predicted.
_COMPILED = "compiled again with the change"
_TIMED = "the same instructions, timed with the change"

#: Minimum share of the cycles that a change's causes must have for it to be tried, and minimum gain
#: to be listed.
_WORTH_A_TRY, _WORTH_A_LINE = 0.03, 0.01


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A line of advice: a change to make, and the cycles before and after it.

    Members
    -------
    title, needs:
        Description and requirement, as in `Change`.
    how:
        Command-line options or a phrase that tell how to apply the advice.
    before, after:
        Predicted cycles of a call without and with the change.
    method:
        Method by which `after` was predicted.
    change:
        The change; None if the advice needs no other program.
    """

    title: str
    needs: str
    how: str
    before: int
    after: int
    method: str
    change: Change | None = None

    @property
    def gain(self) -> float:
        """Share of the cycles saved."""
        return 1 - self.after / self.before

    def sentence(self) -> str:
        """Return the advice as a line of text, without `how`."""
        return f"{self.title}: {-self.gain:+.0%} of the cycles ({self.before:,} to {self.after:,})"

    def as_dict(self) -> dict[str, Any]:
        """Return the advice as a dictionary of JSON types."""
        shown = {name: getattr(self, name) for name in ("title", "needs", "how", "method")}
        return {**shown, "before": self.before, "after": self.after, "gain": round(self.gain, 4)}


@dataclass(frozen=True, kw_only=True)
class AdviceOptions:
    """Options of the search for advice.

    Members
    -------
    effort:
        Effort with which the profiled program was compiled.
    compile_again:
        Function that compiles the network with a change; None if it cannot be compiled again.
    thorough:
        Whether to compile the network again for each change even if it has many instructions.
    """

    effort: int = 1
    compile_again: Compiler | None = None
    thorough: bool = False


def advice(
    program: Program,
    timelines: tuple[Timeline, ...],
    causes: Mapping[str, int],
    options: AdviceOptions,
    *,
    resident: bool,
) -> tuple[tuple[Advice, ...], tuple[str, ...]]:
    """Return advice, the largest gain first, and the titles of changes that need `thorough`.

    A network of few instructions is compiled again with each change. For a larger one, unless
    `thorough`, the existing instructions are timed with the change, and changes that need other
    instructions are skipped. Lines are then compiled again, the best first, until the best line has
    been, unless the network is very large.

    Parameters
    ----------
    timelines:
        Timelines of the run's engine steps.
    causes:
        Cycles of the run by cause, which decide what is tried.
    resident:
        Whether the run found its weights on chip.
    """
    total = sum(causes.values())
    if not timelines or not total:
        return (), ()
    count, able = sum(len(each.spans) for each in timelines), options.compile_again is not None
    again = options if count <= _FIRST_COMPILED else replace(options, compile_again=None)
    if count > _COMPILED_AGAIN and not options.thorough:
        options = replace(options, compile_again=None)
    lines = [] if resident else list(_repeated_call_advice(program))
    untried = []
    for change in changes(program, timelines, options.effort):
        if sum(causes.get(name, 0) for name in change.causes) < _WORTH_A_TRY * total:
            continue
        if options.compile_again is None and not change.timing_only:
            untried += [change.title] * able
            continue
        set_activity(change.title)
        line = _try_change(change, program, timelines, options, resident=resident)
        lines += [] if line is None else [line]
    while again.compile_again is not None and lines:
        first = min(lines, key=_sort_key)
        if first.change is None or first.method == _COMPILED:
            break
        lines.remove(first)
        line = _try_change(first.change, program, timelines, again, resident=resident)
        lines += [] if line is None else [line]
    worth = [each for each in lines if each.gain >= _WORTH_A_LINE]
    return tuple(sorted(worth, key=_sort_key)), tuple(untried)


def _sort_key(line: Advice) -> tuple[int, str]:
    """Return the key that sorts advice: cycles after the change, then title."""
    return line.after, line.title


def _predicted_cycles(program: Program, *, resident: bool) -> int:
    """Return the predicted cycles of a first call, or of a later one if weights are `resident`."""
    if resident and program.repeat is not None:
        return program.repeat.predicted_cycles
    return program.predicted_cycles


def _repeated_call_advice(program: Program) -> Iterator[Advice]:
    """Yield the advice to keep a session open, if later calls need fewer cycles than the first."""
    if program.repeat is None:
        return
    yield Advice(
        title="Weights stay on chip from the second call of a session on",
        needs="nothing",
        how="keep one session open: run it again instead of loading the network again",
        before=program.predicted_cycles,
        after=program.repeat.predicted_cycles,
        method="the program's own commands for later calls",
    )


def _try_change(
    change: Change,
    program: Program,
    timelines: tuple[Timeline, ...],
    options: AdviceOptions,
    *,
    resident: bool,
) -> Advice | None:
    """Return the advice to make a change, with predicted cycles; None if it is impossible."""
    try:
        config = change.apply(program.config)
    except ConfigError:
        return None
    memory = change.memory or program.memory
    if options.compile_again is not None:
        effort = options.effort if change.effort is None else change.effort
        try:
            other = options.compile_again(config, memory, effort)
        except CompileError:
            return None
        after, method = _predicted_cycles(other, resident=resident), _COMPILED
    else:
        machine = Machine(config=config, memory=memory)
        after = sum(predict(list(each.instructions), machine).cycles for each in timelines)
        method = _TIMED
    return Advice(
        title=change.title,
        needs=change.needs,
        how=_command(change, config, memory),
        before=_predicted_cycles(program, resident=resident),
        after=after,
        method=method,
        change=change,
    )


def _command(change: Change, config: Config, memory: Memory) -> str:
    """Return the option that makes a change, or a description of it, for the user."""
    if change.effort is not None:
        return f"--effort {change.effort}"
    if change.memory is not None:
        return f"a memory like {memory.name}"
    name = config_name(config)
    return f"--config {name}" if name else ", ".join(f"{k}={v}" for k, v in change.fields.items())
