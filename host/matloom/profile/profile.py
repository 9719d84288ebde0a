"""Profiles: the report of a run, its timelines, and the causes of each operator's cycles."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from types import MappingProxyType
from typing import Any

from matloom.arch.config_name import describe_config
from matloom.arch.isa import Opcode, Region
from matloom.arch.machine import Machine
from matloom.device.driver import Counters
from matloom.loop import LastIteration
from matloom.profile.advice import Advice, AdviceOptions, advice
from matloom.profile.causes import CAUSES, cycles_by_cause
from matloom.profile.timeline import Timeline, moved_bytes, timelines
from matloom.program import Program
from matloom.report import LoopReport, Report

#: Version of the JSON file, raised whenever a field changes its meaning.
_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class OperatorProfile:
    """Cost of an operator in a run: cycles and their causes, bytes on the bus, instructions.

    Members
    -------
    number:
        Position among the operators, from 1.
    cycles, predicted_cycles:
        As in `matloom.report.LayerReport`; 0 if the engine does not run the operator. Of operators
        that share a timestamp, the first has the cycles of all.
    causes:
        Cycles by the names of `CAUSES`; they add up to `cycles`.
    bytes_read, bytes_written:
        Number of bytes that the operator's LOADs and STOREs move, without commands.
    instructions:
        Number of the operator's instructions, by unit.
    """

    number: int
    name: str
    operator: str
    where: str
    mode: str
    macs: int
    cycles: int
    predicted_cycles: int
    bytes_read: int
    bytes_written: int
    ideal_cycles: float
    reason: str = ""
    causes: dict[str, int] = field(default_factory=dict)
    instructions: dict[str, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Number of multiply-accumulates per cycle."""
        return self.macs / self.cycles if self.cycles else 0.0

    @property
    def utilisation(self) -> float:
        """Cycles of a fully used array divided by the operator's cycles; 0 without cycles."""
        return self.ideal_cycles / self.cycles if self.cycles else 0.0

    @property
    def main_cause(self) -> str:
        """Name of the cause with the most cycles; empty without cycles."""
        return max(self.causes, key=lambda name: self.causes[name], default="")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Profile of a run: cost of operators, causes of cycles, bytes on the bus, advice.

    Members
    -------
    traffic:
        Bytes on the bus by kind: commands, weights and parameters, tensors read, results written.
    iterations:
        Profile of the last iteration of each loop, by the name of the loop's operator.
    untried:
        Titles of changes that were not tried because the network would have to be compiled again.
    """

    program: Program
    report: Report
    timelines: tuple[Timeline, ...]
    operators: tuple[OperatorProfile, ...]
    traffic: dict[str, int]
    advice: tuple[Advice, ...]
    iterations: "Mapping[str, Profile]" = field(default_factory=dict)
    untried: tuple[str, ...] = ()

    @property
    def causes(self) -> dict[str, int]:
        """Cycles of the run by cause, in the order of `CAUSES`."""
        total: Counter[str] = Counter()
        for each in self.operators:
            total.update(each.causes)
        return {cause.name: total[cause.name] for cause in CAUSES if total[cause.name]}

    @property
    def engine(self) -> str:
        """Name of the configuration."""
        return describe_config(self.program.config)

    def as_dict(self) -> dict[str, Any]:
        """Return the profile as a dictionary of JSON types, as `compare_profiles` takes it."""
        return {
            "format": _FORMAT,
            "network": self.report.network,
            "device": self.report.device,
            "engine": self.engine,
            "memory": self.program.memory.name,
            "cycles": self.report.cycles,
            "cycles_source": self.report.cycles_source,
            "utilisation": round(self.report.utilisation, 4),
            "causes": self.causes,
            "traffic": self.traffic,
            "operators": [asdict(each) for each in self.operators],
            "advice": [each.as_dict() for each in self.advice],
            "iterations": {name: each.as_dict() for name, each in self.iterations.items()},
            "untried": list(self.untried),
            "report": self.report.as_dict(),
        }


#: Options for advice without compiling the network again.
_BY_TIME = AdviceOptions()


def make_profile(
    program: Program,
    report: Report,
    counted: Sequence[Counters] = (),
    *,
    iterations: Mapping[str, LastIteration] = MappingProxyType({}),
    advise: AdviceOptions | None = _BY_TIME,
) -> Profile:
    """Return the profile of a run.

    Parameters
    ----------
    report, counted:
        Report and counters of the run: `Session.report`, `Session.counted`.
    iterations:
        Last iteration of each loop: `Session.last_iterations`. All iterations are assumed to be
        like the last one.
    advise:
        Options of the search for advice, which takes most of the time; None for no advice.
    """
    found = timelines(program, counted, resident=report.resident)
    machine = Machine(config=program.config, memory=program.memory)
    causes: dict[int, dict[str, int]] = {}
    for timeline in found:
        causes |= cycles_by_cause(timeline, machine)
    lines, untried = tuple[Advice, ...](), tuple[str, ...]()
    if advise is not None:
        total = sum(map(Counter, causes.values()), Counter[str]())
        lines, untried = advice(program, found, total, advise, resident=report.resident)
    inside = {
        name: make_profile(
            iteration.program,
            iteration.report,
            iteration.counted,
            iterations=iteration.inside,
            advise=None,
        )
        for name, iteration in iterations.items()
    }
    made = Profile(
        program=program,
        report=report,
        timelines=found,
        operators=_operator_profiles(program, report, found, causes),
        traffic=_bytes_by_kind(found),
        advice=lines,
        iterations=inside,
        untried=untried,
    )
    return _with_loops(made) if inside else made


def _with_loops(profile: Profile) -> Profile:
    """Return a profile whose operators and traffic include the iterations of loops."""
    loops = {loop.name: loop for loop in profile.report.loops}
    traffic = Counter(profile.traffic)
    for name, iteration in profile.iterations.items():
        traffic.update(
            {kind: loops[name].iterations * size for kind, size in iteration.traffic.items()}
        )
    operators = tuple(
        _scaled_to_loop(each, profile.iterations[each.name], loops[each.name])
        if each.name in profile.iterations
        else each
        for each in profile.operators
    )
    return replace(profile, operators=operators, traffic=dict(traffic))


def _scaled_to_loop(
    operator: OperatorProfile, iteration: Profile, loop: LoopReport
) -> OperatorProfile:
    """Return an operator with the cost of all iterations of its loop.

    Cycles are those of the loop's report; all other figures assume that each iteration is like the
    last one.
    """
    instructions: Counter[str] = Counter()
    for own in iteration.operators:
        instructions.update(
            {unit: loop.iterations * count for unit, count in own.instructions.items()}
        )
    return replace(
        operator,
        macs=loop.iterations * iteration.report.macs,
        cycles=loop.cycles,
        bytes_read=loop.iterations * sum(own.bytes_read for own in iteration.operators),
        bytes_written=loop.iterations * sum(own.bytes_written for own in iteration.operators),
        ideal_cycles=loop.iterations * sum(own.ideal_cycles for own in iteration.operators),
        causes=_scale(iteration.causes, loop.cycles),
        instructions=dict(instructions),
    )


def _scale(causes: Mapping[str, int], cycles: int) -> dict[str, int]:
    """Return the cycles by cause, scaled so that they add up to `cycles`."""
    whole = max(1, sum(causes.values()))
    ends = [cycles * until // whole for until in accumulate(causes.values(), initial=0)]
    return {name: ends[at + 1] - ends[at] for at, name in enumerate(causes)}


def _operator_profiles(
    program: Program,
    report: Report,
    timelines: tuple[Timeline, ...],
    causes: dict[int, dict[str, int]],
) -> tuple[OperatorProfile, ...]:
    """Return the cost of each operator, from instructions in the timelines and cycles by cause."""
    work: dict[int, Counter[str]] = {}
    for timeline in timelines:
        for span, owner in zip(timeline.spans, timeline.owners, strict=True):
            instruction = timeline.instructions[span.index]
            own = work.setdefault(owner, Counter())
            own[span.unit.name] += 1
            own["read" if span.unit is Opcode.LOAD else "written"] += moved_bytes(instruction)
    whole = []
    for at, (layer, cost) in enumerate(zip(program.layers, report.layers, strict=True)):
        own = work.get(at, Counter())
        spent = causes.get(at, {})
        whole.append(
            OperatorProfile(
                number=at + 1,
                name=layer.name,
                operator=layer.operator,
                where=layer.where,
                mode=layer.mode,
                macs=layer.macs,
                cycles=sum(spent.values()),
                predicted_cycles=cost.predicted_cycles,
                bytes_read=own["read"],
                bytes_written=own["written"],
                ideal_cycles=program.ideal_cycles(layer) if layer.where == "engine" else 0.0,
                reason=layer.reason,
                causes={cause.name: spent[cause.name] for cause in CAUSES if cause.name in spent},
                instructions={unit: own[unit] for unit in _UNITS if own[unit]},
            )
        )
    return tuple(whole)


_UNITS = ("LOAD", "EXEC", "POST", "STORE")


def _bytes_by_kind(timelines: tuple[Timeline, ...]) -> dict[str, int]:
    """Return the bytes on the bus by kind of content."""
    total = dict.fromkeys(("commands", "weights and parameters", "tensors read", "results"), 0)
    for timeline in timelines:
        total["commands"] += timeline.command_bytes
        for span in timeline.spans:
            instruction = timeline.instructions[span.index]
            size = moved_bytes(instruction)
            if span.unit is Opcode.STORE:
                total["results"] += size
            elif span.unit is Opcode.LOAD:
                program = instruction.values.get("region", 0) == Region.PROGRAM
                total["weights and parameters" if program else "tensors read"] += size
    return total
