"""Fuses an ADD into the layer before it, whose POST adds the other tensor by a table."""

from collections import Counter
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from matloom.ir.graph import Node, Op
from matloom.kernels.result_sums import add_results, sum_table
from matloom.select.post_input import PostInput
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import ArrayStage, Stage, VectorStage


def fuse_additions(staged: StagedRun) -> StagedRun:
    """Return a run in which layers compute the ADD that is the only reader of their results.

    The later producer of the two operands does so if it can, otherwise the earlier one. It moves to
    the position of the ADD.
    """
    if not staged.config.has_result_sums:
        return staged
    groups: list[tuple[Stage, ...]] = list(staged.stages)
    readers = Counter(name for group in groups for stage in group for name in stage.inputs)
    producers = Counter(stage.output for group in groups for stage in group)
    places: dict[str, int] = {}
    for at, (node, group) in enumerate(zip(staged.run.nodes, staged.stages, strict=True)):
        places |= {stage.output: at for stage in group[-1:]}
        if node.op is not Op.ADD or not group:
            continue
        # An operand that is broadcast is made by a stage before the sum.
        *made, adding = group
        places |= {stage.output: at for stage in made}
        if not _adds_tensors(adding, staged.config.columns):
            continue
        inputs = [name for name in adding.inputs if name in places and name not in staged.kept]
        for name in sorted(inputs, key=lambda name: -places[name]):
            *before, producer = made or groups[places[name]]
            if not (readers[name] == producers[name] == 1 and _can_add_to_results(producer)):
                continue
            if name != producer.output or name == _narrow_input(adding):
                continue
            if not set(producer.inputs).isdisjoint(adding.inputs):
                # It would read two ranges of the same tensor.
                continue
            operand = producer.inputs[0] if made else name
            summed = _with_sum(staged, node, operand, producer, adding)
            if summed is not None:
                groups[places[name]] = tuple(before)
                groups[at] = (*before, summed) if made else (summed,)
                break
    return staged if groups == list(staged.stages) else staged.with_stages(groups)


def _adds_tensors(stage: Stage, columns: int) -> bool:
    """Return whether the stage of an ADD adds two tensors of bytes.

    They have equal shapes, but one may have fewer blocks of channels.
    """
    if not isinstance(stage, VectorStage) or stage.table is not None or stage.starts:
        return False
    plain = not stage.period if stage.narrow is None else stage.narrow_bytes % columns == 0
    return plain and stage.element_bytes == 1 and len(set(stage.inputs)) > 1


def _narrow_input(stage: Stage) -> str | None:
    """Return the name of the input of an ADD that has fewer channels; None if there is none."""
    return None if stage.narrow is None else stage.inputs[stage.narrow]


def _can_add_to_results(stage: Stage) -> TypeGuard[ArrayStage]:
    """Return whether a stage's results may be added to another tensor as they are written.

    That is done by POST, the unit that turns sums into result bytes.
    """
    if not isinstance(stage, ArrayStage) or stage.post_input is not None:
        return False
    plain = stage.makes_dense_bytes and stage.sums_per_output == 1
    return plain and stage.table is None and stage.computed is None


def _with_sum(
    staged: StagedRun, node: Node, operand: str, producer: ArrayStage, stage: Stage
) -> ArrayStage | None:
    """Return a layer's stage that also computes an ADD; None if no table gives the exact sums.

    `operand` is the name of the operand of the ADD that `producer` makes.
    """
    first = staged.names[node.inputs[0]] == operand
    table = _sum_table(staged, node, first)
    if table is None:
        return None
    (other,) = (name for name in stage.inputs if name != producer.output)
    post_input = PostInput()
    if stage.vector is not None and stage.narrow is not None:
        zero = staged.graph.tensors[node.inputs[first]].zero_point
        channels, block = stage.vector.narrow_bytes, producer.grid.block_bytes
        missing = bytes([zero % 256]) * ((producer.grid.blocks - channels // block) * block)
        post_input = PostInput(position_bytes=channels, missing=missing)
    return replace(
        producer,
        nodes=(*producer.nodes, *stage.nodes),
        inputs=(*producer.inputs, other),
        output=stage.output,
        table=table,
        post_input=post_input,
    )


def _sum_table(staged: StagedRun, node: Node, first: bool) -> np.ndarray | None:
    """Return the table with which POST adds results to bytes exactly as an ADD; None if none does.

    `first` says whether the layer makes the first operand; otherwise, it makes the second.
    """
    sums = add_results(staged.graph, node)
    tensors = [staged.graph.tensors[number] for number in (*node.inputs, node.output)]
    slopes = tuple(tensor.scale / tensors[2].scale for tensor in tensors[:2])
    if not first:
        sums, slopes = sums.T, slopes[::-1]
    return sum_table(sums, (slopes[0], slopes[1]))
