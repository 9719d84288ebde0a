"""Text of the results of compiler phases, as `matloom compile NET --stop-after PHASE` prints it.

`schedule` is one phase, because each candidate of its search goes through all steps before it is
compared. The steps of the chosen candidate can be printed one by one.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from matloom.compiler.pipeline import run_phases
from matloom.compiler.values import Bound, BoundRun, Job, Rewritten, ScheduledNetwork, Selected
from matloom.errors import UserError, unknown_name_error
from matloom.ir.graph import Graph
from matloom.ir.text import to_text
from matloom.printable import printable
from matloom.program.disassemble import disassemble
from matloom.schedule import Scheduled
from matloom.schedule.text import (
    allocation_lines,
    buffer_lines,
    load_lines,
    order_lines,
    search_lines,
    tile_lines,
)
from matloom.select.partition import HostRun
from matloom.select.text import run_lines


def _describe_stages(selected: Selected) -> Iterator[str]:
    """Yield lines for the stages of each run, after operators are selected."""
    for run in selected.parts.runs:
        yield from run_lines(run, selected.prepared.names)


def _describe_rewritten(rewritten: Rewritten) -> Iterator[str]:
    """Yield lines for the stages of each run after the stage passes, and for views of outputs."""
    names = rewritten.selected.prepared.names
    for run in rewritten.runs:
        yield from run_lines(run if isinstance(run, HostRun) else run.run, names)
        views = {} if isinstance(run, HostRun) else run.views
        for name, (output, start, end) in views.items():
            yield f"  {output} is bytes {start}..{end} of {name}"


def _describe_addresses(bound: Bound) -> Iterator[str]:
    """Yield lines for the addresses that each run reads and writes in external memory."""
    for run in bound.runs:
        yield from ("host",) if isinstance(run, HostRun) else _describe_engine_addresses(run)


def _describe_engine_addresses(run: BoundRun) -> Iterator[str]:
    """Yield lines for the tensors that an engine run reads, writes, makes, or has as constants."""
    yield "engine"
    for kind, places in (("reads", run.segment.sources), ("writes", run.segment.results)):
        for name, place in places.items():
            size = run.segment.sizes.get(name, 0)
            yield f"  {kind} {name}: {size} bytes from {place.region.name} {place.offset}"
    for name, values in run.constants.items():
        yield f"  constant {name}: {len(values)} bytes"
    for name, size in run.segment.sizes.items():
        if name not in (*run.segment.sources, *run.segment.results, *run.constants):
            yield f"  makes {name}: {size} bytes"


def _lines_by_run(
    lines: Callable[[Scheduled], Iterable[str]],
) -> Callable[[ScheduledNetwork], Iterator[str]]:
    """Turn a function that yields lines for one schedule into one for all runs of a network."""

    def lines_of_network(network: ScheduledNetwork) -> Iterator[str]:
        """Yield the lines of all runs; each run starts with a heading."""
        for number, run in enumerate(network.runs):
            if isinstance(run, HostRun):
                yield f"run {number}: host"
                continue
            yield f"run {number}: engine, {run.scheduled.prediction.cycles:,} cycles predicted"
            yield from (f"  {line}" for line in lines(run.scheduled))

    return lines_of_network


def _describe_instructions(network: ScheduledNetwork) -> Iterator[str]:
    """Yield the disassembled commands of all engine runs, with headings."""
    for number, run in enumerate(network.runs):
        if isinstance(run, HostRun):
            yield f"run {number}: host"
            continue
        yield f"run {number}: engine"
        yield from disassemble(run.commands).splitlines()
        if run.repeat_commands is not None:
            yield f"run {number}, weights on chip: engine"
            yield from disassemble(run.repeat_commands).splitlines()


#: For each name of a stop, the last phase to run, and a function that yields its value as lines.
STOPS: dict[str, tuple[str, Callable[[Any], Iterable[str]]]] = {
    "read": ("read", lambda graph: to_text(graph).splitlines()),
    "formats": ("formats", lambda graph: to_text(graph).splitlines()),
    "passes": ("passes", lambda prepared: to_text(prepared.graph).splitlines()),
    "select": ("select", _describe_stages),
    "rewrite": ("rewrite", _describe_rewritten),
    "bind": ("bind", _describe_addresses),
    "search": ("schedule", _lines_by_run(search_lines)),
    "tile": ("schedule", _lines_by_run(tile_lines)),
    "order": ("schedule", _lines_by_run(order_lines)),
    "assign_buffers": ("schedule", _lines_by_run(buffer_lines)),
    "prefetch": ("schedule", _lines_by_run(load_lines)),
    "allocate": ("schedule", _lines_by_run(allocation_lines)),
    "emit": ("schedule", _describe_instructions),
    "assemble": ("assemble", lambda compiled: disassemble(compiled.program).splitlines()),
}


def describe(source: str | Path | Graph, job: Job, stop: str) -> str:
    """Compile up to the phase or step `stop`, and return its result as text.

    One line for each failed attempt comes first.

    Raises
    ------
    ValueError
        If `stop` is not in `STOPS`.
    """
    if stop not in STOPS:
        raise unknown_name_error(
            UserError, "--stop-after", stop, STOPS, hint="try select, or search"
        )
    phase, lines = STOPS[stop]
    run = run_phases(source, job, phase)
    tried = (f"; dropped: {each.reason}; next: {each.remedy}" for each in run.retries)
    return "\n".join(map(printable, (*tried, *lines(run.values[phase]))))
