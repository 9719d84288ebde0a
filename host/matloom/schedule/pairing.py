"""Depthwise layers at stride 2 take four positions a cycle where their input is made for them."""

from collections import Counter
from dataclasses import replace

from matloom.arch.config import WINDOW_TAPS, Config
from matloom.arch.isa import Opcode, largest
from matloom.schedule.segment import Segment
from matloom.select.sliding import LONGEST_LINE, SlidingWindow
from matloom.select.space_to_depth import Blocks, PolyphaseWindow
from matloom.select.stage import ArrayStage, LoopNest, Stage

__all__ = ["in_blocks"]

#: Bytes from row to row of a POST, which are planes where it makes a border.
_LONGEST_PITCH = largest(Opcode.POST, "dest_pitch")


def in_blocks(segment: Segment, config: Config) -> Segment | None:
    """Return a segment whose tensors lie in blocks where paired windows read them; None for none.

    Such a tensor never leaves the chip: one convolution makes it, row by row of positions, and
    one depthwise layer reads it.
    """
    if not config.has_paired_windows:
        return None
    made = Counter(stage.output for stage in segment.stages)
    read = Counter(name for stage in segment.stages for name in stage.inputs)
    stages: list[Stage] = list(segment.stages)
    sizes = dict(segment.sizes)
    for index, reader in enumerate(segment.stages):
        loop_nest = _paired(reader, config)
        if loop_nest is None:
            continue
        (name,) = reader.inputs
        inside = name not in segment.sources and name not in segment.results
        if not inside or made[name] != 1 or read[name] != 1:
            continue
        place = next(at for at, stage in enumerate(stages) if stage.output == name)
        maker = stages[place]
        if not isinstance(maker, ArrayStage) or not _makes_rows(maker, loop_nest.blocks):
            continue
        assert isinstance(reader, ArrayStage)
        size = reader.oc_blocks * loop_nest.blocks.plane_bytes
        if size > config.spad_bytes:
            continue
        sizes[name] = size
        stages[place] = replace(maker, blocks=loop_nest.blocks)
        stages[index] = replace(
            reader,
            in_rows=loop_nest.blocks.rows,
            in_row_bytes=loop_nest.blocks.row_bytes,
            loop_nest=loop_nest,
        )
    on_chip = {
        stage.output
        for stage in stages
        if isinstance(stage, ArrayStage) and stage.blocks is not None
    }
    if not on_chip:
        return None
    return replace(segment, stages=tuple(stages), sizes=sizes, on_chip=frozenset(on_chip))


def _paired(stage: Stage, config: Config) -> PolyphaseWindow | None:
    """Return the walk of a 3x3 layer of stride 2 that pads by at most one position a side."""
    if not isinstance(stage, ArrayStage) or not isinstance(stage.loop_nest, SlidingWindow):
        return None
    loop_nest = stage.loop_nest
    kernel = (loop_nest.kernel_rows, loop_nest.kernel_width, loop_nest.stride_x, loop_nest.y_step)
    if kernel != (WINDOW_TAPS, WINDOW_TAPS, 2, 2) or max(loop_nest.pad_top, loop_nest.pad_left) > 1:
        return None
    height, width = loop_nest.pad_top + stage.in_rows, loop_nest.pad_left + loop_nest.in_width
    # A last window ends in a block that is there, or is padding as a whole.
    if 2 * stage.out_rows > height or 2 * stage.width > width:
        return None
    if stage.images > 1 or stage.width >= LONGEST_LINE:
        return None
    blocks = Blocks(
        height=stage.in_rows,
        width=loop_nest.in_width,
        columns=config.columns,
        above=loop_nest.pad_top,
        left=loop_nest.pad_left,
        pad_value=loop_nest.pad_value,
    )
    if max(loop_nest.pad_top, loop_nest.pad_left) and blocks.plane_bytes > _LONGEST_PITCH:
        return None
    return PolyphaseWindow(blocks=blocks)


def _makes_rows(stage: ArrayStage, blocks: Blocks) -> bool:
    """Return whether an EXEC can make every other row of a stage, and POST write bytes of it."""
    return (
        isinstance(stage.loop_nest, LoopNest)
        and (stage.images, stage.out_rows, stage.width) == (1, blocks.height, blocks.width)
        and min(blocks.height, blocks.width) > 1
        and 2 * stage.loop_nest.y_step < 256
        and stage.placement is None
        and stage.halves == stage.limbs == stage.element_bytes == 1
        and stage.block_bytes == blocks.columns
    )
