"""Merges a table lookup into the copy that reads its result."""

from collections import Counter
from dataclasses import replace

from matloom.select.context import bias_post
from matloom.select.layout.placed import Placed
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import Stage


def fuse_tables_into_copies(staged: StagedRun) -> StagedRun:
    """Return a run in which copies look up in tables, where only the copy reads a lookup's result.

    If nothing else reads the input of a lookup, `fuse_tables` merges the lookup into the stage that
    makes that input.
    """
    stages = [stage for group in staged.stages for stage in group]
    readers = Counter(name for stage in stages for name in stage.inputs)
    lookups = {
        stage.output: stage
        for stage in stages
        if _is_byte_table(stage) and readers[stage.output] == 1 and stage.output not in staged.kept
    }
    changed: dict[int, Stage | None] = {}
    for stage in stages:
        lookup = lookups.get(stage.inputs[0])
        if lookup is not None and _copies_bytes(stage):
            changed[id(lookup)] = None
            changed[id(stage)] = replace(stage, inputs=lookup.inputs, table=lookup.table)
    if not changed:
        return staged
    groups = [[changed.get(id(stage), stage) for stage in group] for group in staged.stages]
    return staged.with_stages([stage for stage in group if stage is not None] for group in groups)


def _is_byte_table(stage: Stage) -> bool:
    """Return whether a stage only looks up bytes in one table for all channels."""
    return stage.is_lookup_only and stage.table is not None and stage.table.ndim == 1


def _copies_bytes(stage: Stage) -> bool:
    """Return whether a stage copies lines of bytes unchanged, without padding."""
    copy = stage.array
    return (
        copy is not None
        and isinstance(copy.output_layout, Placed)
        and copy.output_layout.line > 0
        and copy.pools
        and copy.steps == 1
        and copy.table is None
        and all(region.post == bias_post() for region in copy.regions)
    )
