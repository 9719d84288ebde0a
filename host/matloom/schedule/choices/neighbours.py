"""Rules for the tiles of a stage that depend on the stages before and after it."""

from matloom.arch.config import Config
from matloom.schedule import tuning
from matloom.schedule.segment import Segment


def _is_window_before_wide_stage(segment: Segment, index: int) -> bool:
    """Return whether a stride-2 sliding window precedes a stage with no fewer output blocks.

    A block is as many channels as the array has columns. That stage can start on its first channels
    while this one makes the others.
    """
    stage, after = segment.stages[index], segment.stages[min(index + 1, len(segment.stages) - 1)]
    if stage.is_elementwise or after.is_elementwise or not stage.input_layout.plane_bytes:
        return False
    return after.grid.blocks >= stage.grid.blocks


def stages_ending_by_blocks(segment: Segment) -> set[int]:
    """Return the indices of stages whose last tiles have one block of channels each.

    These are stride-2 sliding windows that do not narrow the channels, and their producers.
    """
    windows = {
        index
        for index in range(len(segment.stages))
        if _is_window_before_wide_stage(segment, index)
    }
    read = {name for index in windows for name in segment.stages[index].inputs}
    return windows | {
        index for index, producer in enumerate(segment.stages) if producer.output in read
    }


def tiles_by_blocks(segment: Segment, index: int, config: Config) -> bool:
    """Return whether to cut a stage on a small feature map by channels (output blocks), not rows.

    It should if tiles of this or of the next stage then wait only for the tile that makes their
    channels, instead of the whole map.
    """

    def is_small(number: int) -> bool:
        """Return whether one channel block of a stage's map fits the accumulators, but few do."""
        stage = segment.stages[number] if 0 <= number < len(segment.stages) else None
        if stage is None or stage.grid.blocks == 1:
            return False
        positions = stage.grid.rows * stage.grid.width
        half = stage.entries(config)
        return positions <= half and positions * stage.grid.blocks > tuning.BLOCK_ENTRIES

    def is_depthwise(number: int) -> bool:
        """Return whether there is a stage with this index, and it is depthwise."""
        stage = segment.stages[number] if 0 <= number < len(segment.stages) else None
        return stage is not None and stage.is_depthwise

    if not is_small(index):
        return False
    if is_depthwise(index + 1) or _is_window_before_wide_stage(segment, index):
        return True
    planes = segment.stages[index].input_layout.plane_bytes > 0
    return is_depthwise(index) and (planes or is_small(index - 1))


def splits_first_tile(segment: Segment, index: int, after_blocks: bool) -> bool:
    """Return whether the first tile of a stage should be computed by two EXEC instructions.

    It should if only the last steps of its reduction need the last tile of the previous stage.
    `after_blocks` says that the previous stage is tiled by output blocks.
    """
    stage, before = segment.stages[index], segment.stages[index - 1]
    if stage.is_elementwise or stage.is_depthwise or before.output not in stage.inputs:
        return False
    return after_blocks or stage.pools


def stages_before_pooling(segment: Segment) -> set[int]:
    """Return the indices of stages just before pooling: an element-wise stage and its producer.

    Their tiles should be small, since pooling waits for the POST of the last one.
    """
    stages, found = segment.stages, set[int]()
    for index, stage in enumerate(stages[2:], 2):
        before = stages[index - 1]
        if stage.pools and before.is_elementwise and before.output in stage.inputs:
            found |= {index - 2, index - 1}
    return found


def is_followed(segment: Segment, index: int) -> bool:
    """Return whether the next stage is element-wise and reads the results of this stage.

    The POSTs of both stages alternate, and those of a long tile keep the next EXEC out of its
    queue.
    """
    after = segment.stages[min(index + 1, len(segment.stages) - 1)]
    return after.is_elementwise and segment.stages[index].output in after.inputs
