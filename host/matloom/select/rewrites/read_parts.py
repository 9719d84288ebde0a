"""Drops slices of contiguous bytes where element-wise readers can read part of the source."""

from collections.abc import Iterable

from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.rewrites.store_slices import contiguous_range
from matloom.select.stage import Stage


def read_slices_in_place(staged: StagedRun) -> StagedRun:
    """Return a run without slices of contiguous bytes that only element-wise stages read.

    A stage of the run must make the sliced tensor, densely. The readers must not read that tensor
    already, nor have inputs that repeat or are narrow.
    """
    run, names, outside = staged.run, staged.names, staged.kept | staged.views.keys()
    every = [stage for group in run.stages for stage in group]
    producers: dict[str, list[Stage]] = {}
    for stage in every:
        producers.setdefault(stage.output, []).append(stage)
    groups: dict[int, tuple[Stage, ...]] = dict(enumerate(run.stages))
    parts: dict[str, tuple[str, int]] = {}
    for at, node in enumerate(run.nodes):
        source, output = names[node.inputs[0]], names[node.outputs[0]]
        found = contiguous_range(staged.graph, node)
        if found is None or output in outside or source in outside or source not in producers:
            continue
        readers = [stage for stage in every if output in stage.inputs]
        copied = _is_copy(run.stages[at], output) and _write_dense_bytes(producers[source])
        if copied and readers and all(_can_read_part(each, source, parts) for each in readers):
            groups[at] = ()
            parts[output] = source, found[0]
    if not parts:
        return staged
    return staged.with_stages([stage.with_parts(parts) for stage in groups[at]] for at in groups)


def _is_copy(stages: tuple[Stage, ...], output: str) -> bool:
    """Return whether the stages of a slice only copy, so no table was fused into them."""
    return all(stage.output == output and stage.table is None for stage in stages)


def _write_dense_bytes(producers: Iterable[Stage]) -> bool:
    """Return whether all stages write one contiguous tensor of single bytes."""
    return all(
        stage.output_layout.contiguous and stage.output_layout.limbs == 1 for stage in producers
    )


def _can_read_part(reader: Stage, source: str, parts: dict[str, tuple[str, int]]) -> bool:
    """Return whether a stage can read a part of `source`, a tensor that it does not read yet.

    `parts` are the parts that it is to read already: for each input, the tensor and the first byte.
    """
    known = {parts[name][0] if name in parts else name for name in reader.inputs}
    return reader.reads_parts and source not in known
