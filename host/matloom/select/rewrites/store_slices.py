"""Stores slices directly from larger tensors, without a copy on chip, as for variables."""

import math
from dataclasses import replace

from matloom.ir.attributes import Slice
from matloom.ir.graph import Graph, Node, Op
from matloom.select.partition import EngineRun
from matloom.select.rewrites.staged_run import StagedRun, View
from matloom.select.stage import Stage


def store_slices(staged: StagedRun) -> StagedRun:
    """Return a run in which slices that are only stored become views of the sliced tensors."""
    run, names, outside = staged.run, staged.names, staged.kept
    outputs = {stage.output for stages in run.stages for stage in stages}
    groups: list[tuple[Stage, ...]] = []
    views: dict[str, View] = {}
    for node, stages in zip(run.nodes, run.stages, strict=True):
        source, output = names[node.inputs[0]], names[node.outputs[0]]
        leaves = node.outputs[0] in staged.placed and not _is_read(run, output)
        found = contiguous_range(staged.graph, node) if leaves else None
        if found is None or source in (*views, *outside) or source not in outputs:
            groups.append(stages)
            continue
        views[source] = (output, *found)
        groups.append(())
    return replace(staged.with_stages(groups), views={**staged.views, **views})


def _is_read(run: EngineRun, name: str) -> bool:
    """Return whether any stage of a run reads the tensor `name`."""
    return any(name in stage.inputs for stages in run.stages for stage in stages)


def contiguous_range(graph: Graph, node: Node) -> tuple[int, int] | None:
    """Return the range of bytes (half open) that a slice takes from its input.

    Return None if the bytes are not contiguous, or if the operator is not a slice.
    """
    if node.op not in (Op.SLICE, Op.STRIDED_SLICE):
        return None
    data, attributes = graph.tensors[node.inputs[0]], node.attributes_as(Slice)
    start, inner, cut = 0, data.element_bytes, False
    rows = zip(data.shape, attributes.begin, attributes.size, attributes.step, strict=True)
    for length, begin, size, step in reversed(list(rows)):
        # All axes before one that is cut must have a single element.
        if size > 1 and (cut or step != 1):
            return None
        cut |= size < length
        start, inner = start + begin * inner, inner * length
    return start, start + math.prod(attributes.size) * data.element_bytes
