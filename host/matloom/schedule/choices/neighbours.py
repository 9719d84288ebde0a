"""Rules for the tiles of a stage that follow from the stages before and after it."""

from matloom.arch.config import Config
from matloom.schedule import tuning
from matloom.schedule.segment import Segment

__all__ = ["before_pooling", "by_blocks", "ending_by_blocks", "followed", "splits"]


def _widens(segment: Segment, index: int) -> bool:
    """Return whether a stage of paired windows is before one of as many output blocks or more.

    That has work with the first channels while the last are made.
    """
    stage, after = segment.stages[index], segment.stages[min(index + 1, len(segment.stages) - 1)]
    if stage.elementwise or after.elementwise or not stage.input_layout.plane_bytes:
        return False
    return after.grid.blocks >= stage.grid.blocks


def ending_by_blocks(segment: Segment) -> set[int]:
    """Return the stages whose last tiles are of single blocks: windows that widen, their makers."""
    windows = {index for index in range(len(segment.stages)) if _widens(segment, index)}
    read = {name for index in windows for name in segment.stages[index].inputs}
    return windows | {index for index, made in enumerate(segment.stages) if made.output in read}


def by_blocks(segment: Segment, index: int, config: Config) -> bool:
    """Return whether a stage on a small map makes channels for another such stage, or reads them.

    Where neighbours make and read channels apart, a tile of channels waits for the tile before
    it, not for all of the map.
    """

    def small(number: int) -> bool:
        stage = segment.stages[number] if 0 <= number < len(segment.stages) else None
        if stage is None or stage.grid.blocks == 1:
            return False
        positions = stage.grid.rows * stage.grid.width
        half = stage.entries(config)
        return positions <= half and positions * stage.grid.blocks > tuning.BLOCK_ENTRIES

    def apart(number: int) -> bool:
        stage = segment.stages[number] if 0 <= number < len(segment.stages) else None
        return stage is not None and stage.depthwise

    if not small(index):
        return False
    if apart(index + 1) or _widens(segment, index):
        return True
    return apart(index) and small(index - 1)


def splits(segment: Segment, index: int, after_blocks: bool) -> bool:
    """Return whether a stage's first tile reads the last tile of the previous stage."""
    stage, before = segment.stages[index], segment.stages[index - 1]
    if stage.elementwise or stage.depthwise or before.output not in stage.inputs:
        return False
    return after_blocks or stage.pools


def before_pooling(segment: Segment) -> set[int]:
    """Return the stages whose last rows pooling waits for: an element-wise one, and its maker.

    Each of its POSTs takes as long as the tile is large, and pooling has nothing else to do.
    """
    stages, found = segment.stages, set[int]()
    for index, stage in enumerate(stages[2:], 2):
        before = stages[index - 1]
        if stage.pools and before.elementwise and before.output in stage.inputs:
            found |= {index - 2, index - 1}
    return found


def followed(segment: Segment, index: int) -> bool:
    """Return whether an element-wise stage follows the tiles of a stage closely.

    Its POSTs come between theirs, and those of a long tile keep the next EXEC from its queue.
    """
    after = segment.stages[min(index + 1, len(segment.stages) - 1)]
    return after.elementwise and segment.stages[index].output in after.inputs
