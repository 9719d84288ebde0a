"""Chooses the next attempt when the runs of a network do not fit the engine."""

from collections.abc import Iterator
from dataclasses import replace

from matloom.compiler.bind import bind
from matloom.compiler.rewrite import rewrite
from matloom.compiler.schedule_runs import schedule_runs
from matloom.compiler.values import Job, Retry, Selected
from matloom.schedule import DoesNotFit
from matloom.select.partition import EngineRun, HostRun


def next_attempt(selected: Selected, job: Job, reason: str) -> Retry:
    """Return what to try after the runs did not fit, for the given reason.

    First, copy variables instead of storing slices of larger tensors; next, move operators that do
    not fit even alone to the host; then run one stage after another; finally give up.
    """
    if job.slices and selected.prepared.graph.variables:
        # A tensor of which a slice is stored stays whole on chip, which may need too much room.
        remedy = "copies of variables"
        return Retry(reason=reason, remedy=remedy, phase="rewrite", job=replace(job, slices=False))
    too_large = dict(_operators_too_large(selected, job))
    if too_large:
        remedy = f"{len(too_large)} operators that do not fit even alone on the host"
        again = job.with_changes(refused={**job.refused, **too_large})
    elif not job.options.plain:
        remedy = "one stage after another"
        again = job.with_changes(options=replace(job.options, plain=True, tiling_seed=None))
    else:
        return Retry(reason=reason)
    return Retry(reason=reason, remedy=remedy, phase="select", job=again)


def _operators_too_large(selected: Selected, job: Job) -> Iterator[tuple[int, str]]:
    """Yield the index of each operator that does not fit the engine even alone, with the reason."""
    for run in selected.parts.runs:
        if isinstance(run, HostRun):
            continue
        for at in range(len(run.nodes)):
            reason = _reason_not_to_fit(_single_operator(selected, run, at), job.with_changes())
            if reason is not None:
                yield run.nodes[at].index, reason


def _single_operator(selected: Selected, run: EngineRun, index: int) -> Selected:
    """Return a copy of `selected` with a single run, of the operator at `index` of `run`."""
    node, parts = run.nodes[index], selected.parts
    tensors = selected.prepared.graph.tensors
    inputs = [number for number in node.inputs if tensors[number].data is None]
    alone = EngineRun(
        nodes=(node,),
        stages=(run.stages[index],),
        consumed=tuple(dict.fromkeys(parts.roots[number] for number in inputs)),
        produced=node.outputs,
    )
    return replace(selected, parts=replace(parts, runs=(alone,)))


def _reason_not_to_fit(selected: Selected, job: Job) -> str | None:
    """Return why a network does not fit on the engine; None if it fits.

    If the network has variables (state that it keeps between calls), it is also scheduled with
    variables that have memory of their own, instead of being slices of larger tensors.
    """
    reason = None
    for slices in (True, False) if selected.prepared.graph.variables else (False,):
        tried = replace(job, slices=slices)
        found = schedule_runs(bind(rewrite(selected, tried), tried), tried)
        if not isinstance(found, DoesNotFit):
            return None
        reason = found.reason
    return reason
