"""Concatenation elision: a producer writes its part of a joined tensor in place, without a copy."""

from collections import Counter
from dataclasses import replace

from matloom.arch.isa import Opcode, largest
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import ArrayStage, Stage

__all__ = ["elide_copies"]

#: The maximum steps of POST between positions and between rows.
_LONGEST_X = largest(Opcode.POST, "x_step")
_LONGEST_ROW = largest(Opcode.POST, "dest_pitch")


def elide_copies(staged: StagedRun) -> StagedRun:
    """Return a run without copies that their producers can replace."""
    stages, kept = staged.stages, staged.kept | staged.views.keys()
    readers = Counter(name for group in stages for stage in group for name in stage.inputs)
    makers: dict[str, list[Stage]] = {}
    for stage in (stage for group in stages for stage in group):
        makers.setdefault(stage.output, []).append(stage)
    changed: dict[int, Stage | None] = {}
    for copy in (stage for group in stages for stage in group):
        if not isinstance(copy, ArrayStage) or copy.placement is None or not copy.placement.line:
            continue
        (name,) = copy.inputs
        if name in kept or readers[name] > 1 or len(makers.get(name, ())) != 1:
            continue
        maker = _moved(makers[name][0], copy)
        if maker is not None:
            changed[id(makers[name][0])], changed[id(copy)] = maker, None
    if not changed:
        return staged
    groups = [[changed.get(id(stage), stage) for stage in group] for group in stages]
    present = [[stage for stage in group if stage is not None] for group in groups]
    return staged.with_stages(_finished(present))


def _moved(maker: Stage, copy: ArrayStage) -> ArrayStage | None:
    """Return a stage that writes to the copy's output placement, None where it cannot."""
    if not isinstance(maker, ArrayStage) or maker.placement is not None:
        return None
    part = copy.placement
    assert part is not None
    sizes = (maker.position_bytes, maker.row_bytes, maker.out_rows * maker.row_bytes)
    if part.line not in (*sizes, maker.size):
        return None
    # Positions within a line stay contiguous; only lines move apart.
    x_step, row_step, image_step = (
        size if size < part.line else size // part.line * part.row_step for size in sizes
    )
    if x_step > _LONGEST_X or row_step > _LONGEST_ROW:
        return None
    place = replace(part, x_step=x_step, row_step=row_step, image_step=image_step, line=0)
    return replace(maker, output=copy.output, placement=place)


def _finished(groups: list[list[Stage]]) -> list[list[Stage]]:
    """Return the stages, the last writer of each tensor marked as the one that finishes it."""
    sizes: dict[str, int] = {}
    for stage in (stage for group in groups for stage in group):
        if isinstance(stage, ArrayStage) and stage.placement is not None:
            sizes[stage.output] = max(sizes.get(stage.output, 0), stage.placement.finished)
    for group in reversed(groups):
        for at in reversed(range(len(group))):
            stage = group[at]
            if isinstance(stage, ArrayStage) and stage.placement is not None:
                finished = sizes.get(stage.output, 0)
                group[at] = replace(stage, placement=replace(stage.placement, finished=finished))
                sizes[stage.output] = 0
    return groups
