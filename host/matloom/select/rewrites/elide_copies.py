"""Removes copies by letting producers write to the destination: a joined tensor, or panels."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from matloom.select.layout.panels import Panels, panel_layout
from matloom.select.layout.placed import Placed
from matloom.select.operand import ComputedWeights
from matloom.select.rewrites.regrid import resize_rows
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import ArrayStage, Stage

_Changed = dict[int, Stage | None]


def elide_copies(staged: StagedRun) -> StagedRun:
    """Return a run without copies into joined tensors where producers can write there directly."""
    stages, kept = staged.stages, staged.kept | staged.views.keys()
    readers = Counter(name for group in stages for stage in group for name in stage.inputs)
    producers: dict[str, list[Stage]] = {}
    for stage in (stage for group in stages for stage in group):
        producers.setdefault(stage.output, []).append(stage)
    changed: _Changed = {}
    for copy in (stage for group in stages for stage in group):
        if not isinstance(copy.output_layout, Placed) or not copy.output_layout.line:
            continue
        (name,) = copy.inputs
        if name in kept or readers[name] > 1 or len(producers.get(name, ())) != 1:
            continue
        producer = _with_destination(producers[name][0], copy)
        if producer is not None:
            changed[id(producers[name][0])], changed[id(copy)] = producer, None
    if not changed:
        return staged
    return staged.with_stages(_mark_last_writers(_apply_changes(stages, changed)))


def elide_panel_copies(staged: StagedRun) -> StagedRun:
    """Return a run without copies into weight tiles (panels) that producers can write directly."""
    stages, kept = staged.stages, staged.kept | staged.views.keys()
    every = [stage for group in stages for stage in group]
    changed: _Changed = {}
    for weights in (stage.computed for stage in every if stage.computed is not None):
        name, heads, between = weights.copied_tensor, 1, list[Stage]()
        producers = [stage for stage in every if stage.output == name]
        swap = _separated_matrices(producers, weights.layout)
        if swap is not None and name not in kept:
            between, heads, (name,) = producers, swap, producers[0].inputs
            producers = [stage for stage in every if stage.output == name]
        readers = [stage for stage in every if {name, weights.copied_tensor} & {*stage.inputs}]
        copies = all(stage.output == weights.tensor or stage in between for stage in readers)
        if name is None or name in kept or len(producers) != 1 or not copies:
            continue
        producer = _with_panels(producers[0], weights, heads)
        if producer is not None:
            changed |= {id(producers[0]): producer, **dict.fromkeys(map(id, readers))}
    return staged.with_stages(_apply_changes(stages, changed)) if changed else staged


def _separated_matrices(producers: Sequence[Stage], panels: Panels) -> int | None:
    """Return the number of side-by-side matrices that a TRANSPOSE before the copy separates.

    Return None for other moves. `producers` are the stages that make the separated matrices, whose
    panels are `panels`.
    """
    layout = producers[0].output_layout if len(producers) == 1 else None
    if not isinstance(layout, Placed) or layout.swap is None:
        return None
    rows, heads, columns = layout.swap
    return heads if (rows, columns) == (panels.inner, panels.columns) else None


def _with_panels(producer: Stage, weights: ComputedWeights, heads: int) -> ArrayStage | None:
    """Return the producer changed to write its outputs as weight tiles (panels), or None.

    It makes `heads` matrices side by side.
    """
    layer = producer.array
    if layer is None or not layer.makes_dense_bytes:
        return None
    panels = weights.layout
    if panels.is_in_bands:
        layer = resize_rows(layer, panels.band) or layer
    layout = panel_layout(layer.output_layout, panels, heads)
    return None if layout is None else replace(layer, output=weights.tensor, output_layout=layout)


def _apply_changes(groups: Iterable[Iterable[Stage]], changed: _Changed) -> list[list[Stage]]:
    """Return all stages, with those in `changed`, a mapping by id, replaced or removed (None)."""
    new = [[changed.get(id(stage), stage) for stage in group] for group in groups]
    return [[stage for stage in group if stage is not None] for group in new]


def _with_destination(producer: Stage, copy: Stage) -> ArrayStage | None:
    """Return the producer changed to write where a copy would write; None if it cannot."""
    layer = producer.array
    if layer is None or not isinstance(copy.output_layout, Placed):
        return None
    layout = copy.output_layout.for_producer(layer.output_layout)
    if layout is None:
        return None
    post_input = layer.post_input
    if post_input is not None and layer.addend is not None:
        # The tensor that POST adds stays dense.
        size = post_input.position_bytes or layer.grid.position_bytes
        post_input = replace(post_input, position_bytes=size)
    return replace(layer, output=copy.output, output_layout=layout, post_input=post_input)


def _mark_last_writers(groups: list[list[Stage]]) -> list[list[Stage]]:
    """Set `complete` in the last stage that writes each shared tensor, and clear it in others.

    `groups` is changed in place and returned.
    """
    sizes: dict[str, int] = {}
    for stage in (stage for group in groups for stage in group):
        if isinstance(stage.output_layout, Placed):
            sizes[stage.output] = max(sizes.get(stage.output, 0), stage.output_layout.complete)
    for group in reversed(groups):
        for at in reversed(range(len(group))):
            layer = group[at].array
            if layer is not None and isinstance(layer.output_layout, Placed):
                layout = replace(layer.output_layout, complete=sizes.get(layer.output, 0))
                group[at] = replace(layer, output_layout=layout)
                sizes[layer.output] = 0
    return groups
