"""Moves copies into panels before attention's scores, so that a product can follow SOFTMAX."""

from collections.abc import Sequence

from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import Stage


def hoist_panel_copies(staged: StagedRun) -> StagedRun:
    """Return a run in which the product that reads SOFTMAX's results directly follows SOFTMAX.

    The copies into panels that the product needs move before the scores, the inputs of SOFTMAX, if
    the tensors that they read exist there.
    """
    groups = list(staged.stages)
    for at, group in enumerate(groups):
        place = _group_of_scores(groups, at)
        if place is None:
            continue
        *before, product = group
        made = {stage.output for each in groups[place:at] for stage in each}
        if made.isdisjoint(name for stage in before for name in stage.inputs):
            groups[place] = (*before, *groups[place])
            groups[at] = (product,)
    return staged if groups == list(staged.stages) else staged.with_stages(groups)


def _group_of_scores(groups: Sequence[Sequence[Stage]], at: int) -> int | None:
    """Return the index of the group that makes the inputs of the SOFTMAX before group `at`.

    Return None if the last stage of group `at` is not a product of the SOFTMAX's results, or
    follows no copies in its group.
    """
    if not groups[at][:-1]:
        return None
    rows = groups[at][-1].inputs[0]
    producers = {stage.output: place for place in range(at) for stage in groups[place]}
    place = producers.get(rows, -1)
    if place < 0 or not groups[place] or not groups[place][-1].is_softmax:
        return None
    return producers.get(groups[place][-1].inputs[0])
