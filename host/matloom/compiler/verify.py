"""Checks the result of each compiler phase with ``MATLOOM_VERIFY=1``, to find compiler bugs."""

import itertools
from collections.abc import Callable
from typing import Any

from matloom.arch.isa import Region
from matloom.compiler.values import (
    Bound,
    Compiled,
    Job,
    Prepared,
    Rewritten,
    ScheduledNetwork,
    Selected,
)
from matloom.ir.graph import RESHAPES
from matloom.ir.verify import verify
from matloom.program.validate import validate
from matloom.program.verify import verify_program
from matloom.schedule.check import check_plan
from matloom.select.check import check_staged
from matloom.select.errors import PhaseError
from matloom.select.partition import HostRun

__all__ = ["PhaseError", "verify_value"]


def _verify_prepared(prepared: Prepared, job: Job) -> None:
    """Check the graph after all passes, and that the names of its tensors are unique."""
    verify(prepared.graph, "passes")
    if len(set(prepared.names.values())) != len(prepared.graph.tensors):
        raise PhaseError("passes: names of tensors must differ")


def _verify_selected(selected: Selected, job: Job) -> None:
    """Check that each operator is in one run, after the operators that make its inputs."""
    graph, roots = selected.prepared.graph, selected.parts.roots
    known = {roots[number] for number in graph.entering}
    known.update(number for number, tensor in graph.tensors.items() if tensor.data is not None)
    waiting = [id(node) for node in graph.nodes if node.op not in RESHAPES]
    for run in selected.parts.runs:
        for node in (run.node,) if isinstance(run, HostRun) else run.nodes:
            late = [number for number in node.inputs if roots[number] not in known]
            if late:
                raise PhaseError(f"select: {node.op} must run after what makes tensor {late[0]}")
            known.update(roots[number] for number in node.outputs)
            if node.op not in RESHAPES:
                waiting.remove(id(node))
    if waiting:
        raise PhaseError(f"select: every operator must be in a run; {len(waiting)} are in none")


def _verify_rewritten(rewritten: Rewritten, job: Job) -> None:
    """Check the stages of each engine run after the stage passes."""
    for run in rewritten.runs:
        if not isinstance(run, HostRun):
            check_staged(run, job.config, "rewrite")


def _verify_bound(bound: Bound, job: Job) -> None:
    """Check that inputs and outputs of each run lie in their regions, without overlaps."""
    ends = {Region.INPUT: bound.input_bytes, Region.OUTPUT: bound.output_bytes}
    for run in bound.runs:
        if isinstance(run, HostRun):
            continue
        ranges: dict[tuple[Region, int], int] = {}
        for item in (*run.inputs, *run.outputs):
            size = run.staged.graph.tensors[_tensor_number(bound, item.name)].size_bytes
            limit = ends.get(item.region, bound.rewritten.state_bytes)
            if item.offset + size > limit:
                raise PhaseError(f"bind: {item.name} must end in its {limit} bytes of region")
            ranges[item.region, item.offset] = size
        ordered = sorted(ranges.items())
        for (place, size), (following, _) in itertools.pairwise(ordered):
            if place[0] == following[0] and place[1] + size > following[1]:
                raise PhaseError(f"bind: tensors must not overlap at {following[1]} of {place[0]}")


def _tensor_number(bound: Bound, name: str) -> int:
    """Return the number of the tensor with this unique name."""
    names = bound.rewritten.selected.prepared.names
    return next(number for number, each in names.items() if each == name)


def _verify_scheduled(network: ScheduledNetwork, job: Job) -> None:
    """Check the chosen plan of each run, and its plan for repeated calls."""
    for run in network.runs:
        if isinstance(run, HostRun):
            continue
        check_plan(run.scheduled.plan, job.config)
        if run.scheduled.repeat is not None:
            check_plan(run.scheduled.repeat.plan, job.config)


def _verify_assembled(compiled: Compiled, job: Job) -> None:
    """Check the program's parts, and that no instruction overtakes one it depends on."""
    validate(compiled.program)
    verify_program(compiled.program)


#: Check of each phase's value, by the name of the phase.
CHECKS: dict[str, Callable[[Any, Job], None]] = {
    "read": lambda graph, job: verify(graph, "read"),
    "formats": lambda graph, job: verify(graph, "formats"),
    "passes": _verify_prepared,
    "select": _verify_selected,
    "rewrite": _verify_rewritten,
    "bind": _verify_bound,
    "schedule": _verify_scheduled,
    "assemble": _verify_assembled,
}


def verify_value(phase: str, value: Any, job: Job) -> None:
    """Check the value that a phase returned.

    Raises
    ------
    PhaseError, ValueError
        A rule is broken; the verifiers of graphs and programs raise ValueError.
    """
    CHECKS[phase](value, job)
