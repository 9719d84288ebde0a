"""Drops a PAD of channels before an ADD, which then reads the narrower tensor."""

from collections import Counter
from dataclasses import replace

from matloom.arch.isa import Destination, Source
from matloom.ir.attributes import Pad
from matloom.ir.graph import Node, Op
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import Posts, Stage, VectorStage


def drop_addend_padding(staged: StagedRun) -> StagedRun:
    """Return a run without PADs of channels before an ADD, which reads the narrower tensor.

    Padding is at the zero point, so it adds nothing.
    """
    groups: list[tuple[Stage, ...]] = list(staged.stages)
    readers = Counter(name for group in groups for stage in group for name in stage.inputs)
    pads: dict[str, int] = {}
    for at, (node, group) in enumerate(zip(staged.run.nodes, staged.stages, strict=True)):
        name = staged.names[node.outputs[0]]
        if _pads_channels(staged, node) and readers[name] == 1 and name not in staged.kept:
            pads[name] = at
        if node.op is not Op.ADD or len(group) != 1:
            continue
        (stage,) = group
        padded = next((each for each in stage.inputs if each in pads), None)
        if padded is None or not isinstance(stage, VectorStage) or not groups[pads[padded]]:
            continue
        changed = _with_narrow_input(staged, stage, staged.run.nodes[pads[padded]], padded)
        if changed is not None:
            groups[pads[padded]], groups[at] = (), (changed,)
    return staged if groups == list(staged.stages) else staged.with_stages(groups)


def _pads_channels(staged: StagedRun, node: Node) -> bool:
    """Return whether an operator adds channels after those of an int8 tensor, at its zero point."""
    if node.op not in (Op.PAD, Op.PADV2):
        return False
    attributes, output = node.attributes_as(Pad), staged.graph.tensors[node.outputs[0]]
    value = output.zero_point if attributes.value is None else int(attributes.value)
    last = not any(attributes.before) and not any(attributes.after[:-1])
    return last and value == output.zero_point and output.dtype == "int8"


def _with_narrow_input(
    staged: StagedRun, stage: VectorStage, pad: Node, padded: str
) -> VectorStage | None:
    """Return the stage of an ADD changed to read the input of PAD instead of its output `padded`.

    Returns None if it cannot.
    """
    source, output = (staged.graph.tensors[each] for each in (pad.inputs[0], pad.outputs[0]))
    shorter, period = source.shape[-1], output.shape[-1]
    names = tuple(staged.names[pad.inputs[0]] if each == padded else each for each in stage.inputs)
    most = stage.entries(staged.config) * staged.config.columns
    if stage.period or len(set(names)) < len(names) or period > most:
        return None
    narrow = stage.inputs.index(padded)
    edge, posts = _narrow_sum_posts(stage.posts, narrow)
    return replace(
        stage,
        nodes=(pad.index, *stage.nodes),
        inputs=names,
        posts=posts,
        period=period,
        narrow=narrow,
        narrow_bytes=shorter,
        edge=edge,
    )


def _narrow_sum_posts(posts: Posts, narrow: int) -> tuple[int | None, Posts]:
    """Return an index, and the POSTs of a sum whose input number `narrow` lacks channels.

    The index, which comes first, is that of the POST for the channels that this input lacks.

    `narrow` is the index of the input that lacks channels. For these, an additional POST may zero
    the accumulators before the narrow input sets the others, or make results from the accumulators
    alone before the narrow input is added to the others. The index is None if there is none.
    """
    (first, sets), *others = posts
    if len(others) > 1:
        (second, adds), last = others
        if first == narrow:
            first, second, sets, adds = second, first, adds, sets
        sets = {**sets, "destination": Destination.ACC_SET}
        return None, ((first, sets), (second, {**adds, "destination": Destination.ACC_ADD}), last)
    ((second, adds),) = others
    if first == narrow:
        zeros = {**sets, "multiplier": 0, "bias": 0}
        return 0, ((second, zeros), (first, sets), (second, adds))
    apart = {name: value for name, value in adds.items() if name not in ("addend", "factor_zero")}
    missing = (None, {**apart, "source": Source.ACC})
    return 1, ((first, sets), missing, (second, adds))
