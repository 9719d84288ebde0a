"""Concatenation elision: a producer writes its part of a joined tensor directly, without a copy."""

from collections import Counter
from dataclasses import replace

from matloom.select.layout.placed import Placed
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import ArrayStage, Stage

__all__ = ["elide_copies"]


def elide_copies(staged: StagedRun) -> StagedRun:
    """Return a run without the copies that their producers can replace."""
    stages, kept = staged.stages, staged.kept | staged.views.keys()
    readers = Counter(name for group in stages for stage in group for name in stage.inputs)
    makers: dict[str, list[Stage]] = {}
    for stage in (stage for group in stages for stage in group):
        makers.setdefault(stage.output, []).append(stage)
    changed: dict[int, Stage | None] = {}
    for copy in (stage for group in stages for stage in group):
        if not isinstance(copy.output_layout, Placed) or not copy.output_layout.line:
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


def _moved(maker: Stage, copy: Stage) -> ArrayStage | None:
    """Return the producer, writing to the destination of the copy; None if it cannot."""
    if not isinstance(maker, ArrayStage) or not isinstance(copy.output_layout, Placed):
        return None
    layout = copy.output_layout.taken(maker.output_layout)
    return None if layout is None else replace(maker, output=copy.output, output_layout=layout)


def _finished(groups: list[list[Stage]]) -> list[list[Stage]]:
    """Return the stages, with the last writer of each tensor marked."""
    sizes: dict[str, int] = {}
    for stage in (stage for group in groups for stage in group):
        if isinstance(stage.output_layout, Placed):
            sizes[stage.output] = max(sizes.get(stage.output, 0), stage.output_layout.complete)
    for group in reversed(groups):
        for at in reversed(range(len(group))):
            stage = group[at]
            if isinstance(stage, ArrayStage) and isinstance(stage.output_layout, Placed):
                layout = replace(stage.output_layout, complete=sizes.get(stage.output, 0))
                group[at] = replace(stage, output_layout=layout)
                sizes[stage.output] = 0
    return groups
