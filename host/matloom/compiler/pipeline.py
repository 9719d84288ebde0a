"""The compiler from model file to program: named phases, each making one value from the previous.

    read       a model file becomes a graph                                  frontend/readers.py
    formats    layers get the number formats that a precision asks for       compiler/formats.py
    passes     graph passes, none of which changes a result                  passes/
    select     operators become stages of the engine, or stay with the host  select/
    rewrite    stage passes over each run of the engine                      select/rewrites/
    bind       inputs and outputs of runs get addresses in external memory   compiler/bind.py
    schedule   the search: tiles, order, addresses on chip, instructions     schedule/search.py
    assemble   image, steps and layers become a program                      compiler/assemble.py

Values are immutable (`compiler.values`), and each refers to the value that it was made from. A
phase that fails returns a `Retry`: the reason, what to try next, and the phase to restart from.
With ``MATLOOM_VERIFY=1`` the value of each phase is checked (`compiler.verify`).
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matloom import frontend
from matloom.arch.config import Config
from matloom.arch.garbage import gc_paused
from matloom.compiler.assemble import assemble
from matloom.compiler.bind import bind
from matloom.compiler.formats import choose_formats, engine_only_problem, unsupported_layers
from matloom.compiler.relax import next_attempt
from matloom.compiler.rewrite import rewrite
from matloom.compiler.schedule_runs import schedule_runs
from matloom.compiler.values import (
    Bound,
    Compiled,
    Job,
    Prepared,
    Retry,
    ScheduledNetwork,
    Selected,
)
from matloom.compiler.verify import verify_value
from matloom.ir.graph import Graph
from matloom.ir.names import unique_names
from matloom.passes import run_passes
from matloom.passes.choose_modes import Precision
from matloom.passes.compose_functions import compose_functions
from matloom.passes.expand_cells import expand_cells
from matloom.passes.widen_channels import widen_channels
from matloom.schedule import CompileError, CompileOptions, DoesNotFit
from matloom.select.partition import partition


def read(source: str | Path | Graph, job: Job) -> Graph:
    """Return the graph of a model file; a graph is returned as it is."""
    return source if isinstance(source, Graph) else frontend.load(source)


def prepare(meaning: Graph, job: Job) -> Prepared:
    """Return the graph after all passes; its tensors have unique names."""
    graph = run_passes(expand_cells(meaning, job.config))
    if job.config.tables:
        graph = compose_functions(graph)
    graph = widen_channels(graph, job.config)
    return Prepared(meaning=meaning, graph=graph, names=unique_names(graph))


def select(prepared: Prepared, job: Job) -> Selected | Retry:
    """Divide the graph into runs of the engine, with the stages of each, and runs of the host.

    Return a `Retry` if the engine cannot run a layer in its new number format (the next attempt
    then keeps the layer's own), or if it cannot run an operator that the host does not support.
    """
    parts = partition(prepared.graph, job.machine, prepared.names, job.refused)
    reason = engine_only_problem(parts)
    if reason is not None:
        return Retry(reason=reason)
    on_host = frozenset() if job.precision is None else unsupported_layers(parts)
    if on_host:
        again = replace(job, unlowered=job.unlowered | on_host)
        layers = ", ".join(prepared.names[number] for number in sorted(on_host))
        reason = f"the engine cannot run {layers} in another number format"
        return Retry(reason=reason, remedy="their own format", phase="formats", job=again)
    return Selected(prepared=prepared, parts=parts)


def schedule(bound: Bound, job: Job) -> ScheduledNetwork | Retry:
    """Return the instructions of all runs, that is, groups of operators on the engine.

    If a run does not fit the engine, or would read a variable after overwriting it, return a
    `Retry`: the choices with which to compile again.
    """
    found = schedule_runs(bound, job)
    if isinstance(found, DoesNotFit):
        return next_attempt(bound.rewritten.selected, job, found.reason)
    if found.overwritten:
        again = replace(job, host_variables=job.host_variables | found.overwritten)
        reason = f"{len(found.overwritten)} variables would be read after they are written"
        return Retry(reason=reason, remedy="they are the host's", phase="rewrite", job=again)
    return found


@dataclass(frozen=True)
class Phase:
    """A compilation phase: turns the value of the previous phase into its own, or a `Retry`."""

    name: str
    run: Callable[[Any, Job], Any]


PHASES = (
    Phase("read", read),
    Phase("formats", choose_formats),
    Phase("passes", prepare),
    Phase("select", select),
    Phase("rewrite", rewrite),
    Phase("bind", bind),
    Phase("schedule", schedule),
    Phase("assemble", assemble),
)


@dataclass(frozen=True, kw_only=True)
class PhaseResults:
    """Result of the compiler's phases: the value of each, by name, and the failed attempts."""

    values: Mapping[str, Any]
    retries: tuple[Retry, ...]


def run_phases(source: str | Path | Graph, job: Job, last: str = PHASES[-1].name) -> PhaseResults:
    """Run the phases up to and including `last`, and repeat them as each `Retry` says.

    Raises
    ------
    CompileError
        A phase fails, and nothing is left to try.
    """
    with gc_paused():
        return _run_phases(source, job, last)


def _run_phases(source: str | Path | Graph, job: Job, last: str) -> PhaseResults:
    """Run the phases up to `last`, and repeat them as each `Retry` says."""
    names = [phase.name for phase in PHASES]
    checked = os.environ.get("MATLOOM_VERIFY") == "1"
    values: list[Any] = [source]
    retries: list[Retry] = []
    while len(values) <= names.index(last) + 1:
        phase = PHASES[len(values) - 1]
        found = phase.run(values[-1], job)
        if isinstance(found, Retry):
            retries.append(found)
            if found.job is None:
                raise CompileError(found.reason)
            job = found.job
            del values[names.index(found.phase) + 1 :]
            continue
        if checked:
            verify_value(phase.name, found, job)
        values.append(found)
    return PhaseResults(values=dict(zip(names, values[1:], strict=False)), retries=tuple(retries))


def compile_unchecked(
    graph: Graph,
    config: Config,
    options: CompileOptions,
    precision: Precision | None = None,
    refused: Mapping[int, str] | None = None,
) -> Compiled:
    """Return the program of a network, unchecked; raises the same errors as `compile_network`.

    `refused` gives reasons to leave operators to the host, by their index in the model file.
    """
    job = Job(config=config, options=options, precision=precision, refused=dict(refused or {}))
    run = run_phases(graph, job)
    result = run.values["assemble"]
    assert isinstance(result, Compiled)
    return replace(result, retries=run.retries)
