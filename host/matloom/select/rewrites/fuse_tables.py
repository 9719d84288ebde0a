"""Merges a table lookup into the POSTs of the stage that makes its input."""

from collections import Counter
from dataclasses import replace

import numpy as np

from matloom.ir.graph import Array
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import Stage


def fuse_tables(staged: StagedRun) -> StagedRun:
    """Return a run in which stages look their results up in the table of their only reader.

    A producer that already has a table gets the composition of both.
    """
    kept = staged.kept
    groups = [list(group) for group in staged.stages]
    readers = Counter(name for group in groups for stage in group for name in stage.inputs)
    producers = Counter(stage.output for group in groups for stage in group)
    places: dict[str, tuple[int, int]] = {}
    fused: set[tuple[int, int]] = set()
    for number, group in enumerate(groups):
        for at, stage in enumerate(group):
            name = stage.inputs[0]
            if _is_pure_lookup(stage) and name in places and name not in kept:
                first, index = places[name]
                before = groups[first][index]
                if readers[name] == producers[name] == 1 and _can_fuse(before, stage):
                    producer = _with_table(before, stage)
                    groups[first][index] = producer
                    fused.add((number, at))
                    places[producer.output] = (first, index)
                    continue
            places[stage.output] = (number, at)
    return staged.with_stages(
        [stage for at, stage in enumerate(group) if (number, at) not in fused]
        for number, group in enumerate(groups)
    )


def _is_pure_lookup(stage: Stage) -> bool:
    """Return whether a stage does nothing but look up bytes in a table."""
    return stage.table is not None and stage.is_lookup_only


def _can_fuse(producer: Stage, stage: Stage) -> bool:
    """Return whether the producer can apply the lookup of a stage to its own results."""
    table = stage.table
    assert table is not None
    if producer.is_softmax or producer.adds_results:
        return False
    return table.ndim == 1 or producer.looks_up_channels(*table.shape[:2])


def _with_table(producer: Stage, stage: Stage) -> Stage:
    """Return the stage `producer` with the table and the output of its reader `stage`."""
    table = stage.table
    assert table is not None
    if producer.table is not None:
        table = _compose(table, producer.table)
    return replace(producer, output=stage.output, table=table)


def _compose(last: Array, first: Array) -> Array:
    """Return the table that looks up in `first`, then in `last`; both may differ by channel."""
    if last.ndim == 1 or first.ndim == 1:
        return last[..., first]
    return np.take_along_axis(last, first.astype(int), axis=-1)
