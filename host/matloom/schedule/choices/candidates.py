"""Candidates of a search; the one with the fewest predicted cycles is chosen."""

from dataclasses import replace

from matloom.arch.config import Config
from matloom.schedule import tuning
from matloom.schedule.choices.policies import addends, weights_lifetime
from matloom.schedule.params import Candidate, FirstTiles, Prologue, WeightsLifetime
from matloom.schedule.segment import Segment
from matloom.select.loop_nest import as_loop_nest
from matloom.select.stage import Stage

#: Candidates if all weights fit and there are no prologues; the first of equally fast ones wins.
_RESIDENT_CANDIDATES = (
    Candidate(),
    Candidate(tiles=2),
    Candidate(tiles=3),
    Candidate(tiles=8),
    Candidate(tiles=16),
    Candidate(first=FirstTiles.RAMP),
    Candidate(tiles=8, first=FirstTiles.RAMP),
)

#: Prologues to try: rows, output blocks, and bytes per input row of a panel.
_PROLOGUES = ((128, 4, 32), (128, 4, 64), (128, 8, 32), (128, 8, 48), (80, 8, 32))


def is_large(segment: Segment) -> bool:
    """Return whether the weights of any stage are too large to stay on chip while it runs."""
    return any(
        weights_lifetime(stage, segment.config) is not WeightsLifetime.RESIDENT
        for stage in segment.stages
    )


def candidates(segment: Segment, *, effort: int = 1) -> tuple[Candidate, ...]:
    """Return the candidates for the schedule's start, to compare by predicted cycles.

    Different ways to reload the data of large stages are tried if there are few stages or `effort`
    is 2. In a long network, where planning is slow and a single stage matters little, `policies`
    estimates the best way instead.
    """
    chosen = _weight_candidates(segment, segment.config, effort)
    if not addends(segment):
        return chosen
    return (*chosen, *(replace(each, addends_by_tile=True) for each in chosen))


def _weight_candidates(segment: Segment, config: Config, effort: int) -> tuple[Candidate, ...]:
    """Return candidates with different first tiles and different lifetimes of weights."""
    prologues = _prologues(config) if _has_prologue(segment, config) else ()
    if is_large(segment):
        # Panels of few weights, next to an input that stays on chip.
        first = segment.stages[0]
        fits = bool(prologues) and _prologue_bytes(first, _PROLOGUES[0][1]) < config.spad_bytes
        starts = (Candidate(), *(prologues[: tuning.LARGE_PROLOGUES] if fits else ()))
        if effort <= 1 and len(segment.stages) > tuning.FEW_STAGES:
            return starts
        once = tuple(replace(start, streamed=False) for start in starts)
        return (once[0], Candidate(streamed=True), *once[1:], *(starts if effort > 1 else ()))
    if not prologues:
        return _RESIDENT_CANDIDATES
    return (*(Candidate(tiles=tiles) for tiles in (4, 3, 8, 16)), *prologues)


def _prologue_bytes(stage: Stage, blocks: int) -> int:
    """Return the size in bytes of a stage's input, and of the weights of `blocks` output blocks.

    A block is as many output channels as the array has columns.
    """
    weights = blocks * stage.weight_block_bytes
    return stage.grid.images * stage.input_layout.rows * stage.input_layout.row_bytes + weights


def _prologues(config: Config) -> tuple[Candidate, ...]:
    """Return candidates whose first tiles have the shapes in `_PROLOGUES`."""
    return tuple(
        Candidate(first=Prologue(rows=rows, blocks=blocks, steps=max(1, size // config.rows)))
        for rows, blocks, size in _PROLOGUES
    )


def _has_prologue(segment: Segment, config: Config) -> bool:
    """Return whether the first stage is a tall matrix product with constant weights.

    Its first tiles may then be shaped so that work starts before all operands have arrived.
    """
    stage = segment.stages[0].array
    loop_nest = None if stage is None else as_loop_nest(stage.loop_nest)
    if stage is None or loop_nest is None:
        return False
    single = (
        loop_nest.kernel_rows
        == loop_nest.kernel_cols
        == loop_nest.y_step
        == stage.grid.images
        == stage.grid.width
        == 1
    )
    return (
        single
        and stage.computed is None
        and stage.grid.blocks > 1
        and loop_nest.blocks > 1
        and loop_nest.oc_step == loop_nest.pad_top == loop_nest.pad_left_bytes == 0
        and stage.grid.rows >= 4 * config.tile_load_cycles
    )
