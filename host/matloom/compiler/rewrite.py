"""Applies the stage passes to each run of the engine."""

import os

from matloom.compiler.values import Job, Rewritten, Selected
from matloom.compiler.variables import state_places
from matloom.select.check import check_staged
from matloom.select.partition import EngineRun, HostRun
from matloom.select.rewrites.stage_passes import STAGE_PASSES
from matloom.select.rewrites.staged_run import StagedRun


def rewrite(selected: Selected, job: Job) -> Rewritten:
    """Return the runs after the passes over stages (`STAGE_PASSES`).

    With the option `plain`, which turns optimisations off, these passes are left out.
    """
    graph, parts = selected.prepared.graph, selected.parts
    state, state_bytes = state_places(graph, parts, job.host_variables)
    names = {number: selected.prepared.names[root] for number, root in parts.roots.items()}
    runs: list[StagedRun | HostRun] = []
    for run in parts.runs:
        if isinstance(run, EngineRun):
            placed = frozenset(state) if job.slices else frozenset()
            staged = StagedRun(graph=graph, config=job.config, run=run, names=names, placed=placed)
            runs.append(staged if job.options.plain else _run_passes(staged, job))
        else:
            runs.append(run)
    return Rewritten(selected=selected, runs=tuple(runs), state=state, state_bytes=state_bytes)


def _run_passes(staged: StagedRun, job: Job) -> StagedRun:
    """Return a run after all passes; with ``MATLOOM_VERIFY=1``, check it after each pass."""
    checked = os.environ.get("MATLOOM_VERIFY") == "1"
    for change in STAGE_PASSES:
        if change.__name__ in job.options.left_out:
            continue
        staged = change(staged)
        if checked:
            check_staged(staged, job.config, change.__name__)
    return staged
