"""The space-to-depth (2x2) layout, and the polyphase stride-2 window over it (decision 0002).

Depthwise layers with stride 2 process four positions per cycle if their input has this layout.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from matloom.arch.config import WINDOW_TAPS, Config
from matloom.arch.isa import Destination, Opcode, Source, largest
from matloom.select.context import constant_post
from matloom.select.layout.base import Fields, OnChipLayout, Outputs, Write
from matloom.select.loop_nest import SingleSums, as_loop_nest
from matloom.select.sliding import LONGEST_LINE, as_sliding_window
from matloom.select.stage import ArrayStage, Stage

#: Maximum distance in bytes between rows of a POST, which are planes when it writes a border.
_LONGEST_PITCH = largest(Opcode.POST, "dest_pitch")

#: Cycles that a POST takes beyond its vectors.
_POST_CYCLES = 24

#: Maximum number of input rows between output rows of an EXEC.
_LONGEST_STEP = largest(Opcode.EXEC, "y_step")


@dataclass(frozen=True, kw_only=True)
class SpaceToDepth(OnChipLayout):
    """Space-to-depth layout of a tensor: planes of blocks of 2 x 2 positions.

    A plane holds the channels of an output block in rows of blocks. A block has the bytes of four
    positions, (x, y) = (0, 0), (0, 1), (1, 0), (1, 1). Unused positions at an odd edge, and unused
    channels of the last plane, are never written.

    Members
    -------
    above, left:
        Number of rows and of positions of halo before the tensor, 0 or 1.
    pad_value:
        Signed value of padding.
    """

    above: int
    left: int
    pad_value: int

    row_stride: ClassVar[int] = 2

    @property
    def channels(self) -> int:
        """Number of channels of a plane, of one byte each."""
        return self.grid.block_bytes

    @property
    def block_bytes(self) -> int:
        """Size in bytes of a block of 2 x 2 positions."""
        return 4 * self.channels

    @property
    def rows(self) -> int:
        """Number of rows of blocks of a plane."""
        return -(-(self.above + self.grid.rows) // 2)

    @property
    def row_bytes(self) -> int:
        """Size in bytes of a row of blocks."""
        return -(-(self.left + self.grid.width) // 2) * self.block_bytes

    @property
    def plane_bytes(self) -> int:
        """Size in bytes of a plane."""
        return self.rows * self.row_bytes

    @property
    def size(self) -> int:
        """Size in bytes of all planes."""
        return self.grid.blocks * self.plane_bytes

    @property
    def strides(self) -> tuple[int, int]:
        """Distance in bytes between positions of a row, and from a row to the next but one."""
        return 2 * self.channels, self.row_bytes

    @property
    def text(self) -> str:
        """Name of the layout, for people."""
        return "2 x 2 blocks"

    def byte(self, image: int, row: int, x: int, block: int) -> int:
        """Return the byte of the tensor with the first channel of a position's output block."""
        assert image == 0
        row_of_blocks, lower = divmod(self.above + row, 2)
        return (
            block * self.plane_bytes
            + row_of_blocks * self.row_bytes
            + (self.left + x) * 2 * self.channels
            + lower * self.channels
        )

    def writes(self, tile: Outputs) -> Iterator[Write]:
        """Yield what each POST of a tile writes: one write for each plane of channels."""
        x_step, row_step = self.strides
        for number, plane in enumerate(range(tile.first_block, tile.end_block)):
            first = self.byte(tile.image, tile.first_row, tile.first_x, plane)
            size = self.grid.tail if plane + 1 == self.grid.blocks else self.channels
            yield Write(first, x_step, row_step, size, block=number)

    def borders(self) -> Iterator[Fields]:
        """Yield the fields of POSTs that write the halo, row by row of each plane.

        They do not overwrite any position of the tensor.
        """
        fields = {
            "source": Source.SPAD,
            "destination": Destination.SPAD,
            "source_pitch": self.plane_bytes,
            "dest_pitch": self.plane_bytes,
            "height": self.grid.blocks,
            "tail": self.channels,
            **constant_post(self.pad_value),
        }
        x_step, _row_step = self.strides
        if self.above:
            width = self.left + self.grid.width
            yield {**fields, "width": width, "x_step": x_step, "oc_blocks": 1}
        if self.left:
            # Both positions of a block are contiguous.
            yield {**fields, "width": self.rows, "x_step": self.row_bytes, "oc_blocks": 2}


@dataclass(frozen=True, kw_only=True)
class PolyphaseWindow(SingleSums):
    """Window of 3 x 3 taps with stride 2, which slides over blocks of 2 x 2 positions.

    Rows and bytes refer to a plane; each output block is a separate EXEC on its plane.

    Members
    -------
    channels:
        Number of channels of a plane.
    pad_value:
        Signed value of padding.
    """

    channels: int
    pad_value: int

    #: Members of `ExecLoops`: an output row reads the row of blocks at its place and the next one.
    weights_fixed = is_long = False
    slides = True
    steps = kernel_row_step = y_step = 1
    kernel_rows = 2

    @property
    def oc_step(self) -> int:
        """Number of channels of an output block (as many as the array has columns)."""
        return self.channels

    def vectors_per_step(self, height: int, width: int) -> int:
        """Return how many 2 x 2 blocks are streamed for `height` rows of `width` outputs."""
        return (height + 1) * max(width + 1, WINDOW_TAPS)

    def fields(self, rows: tuple[int, int], columns: tuple[int, int], block: int) -> Fields:
        """Return EXEC's fields for `rows` and `columns` of outputs (half open), of any block."""
        height, width = rows[1] - rows[0], columns[1] - columns[0]
        line = max(width + 1, WINDOW_TAPS)
        block_bytes = 4 * self.channels
        return {
            "window": 1,
            "paired": 1,
            "first_row": rows[0],
            "first_byte": columns[0] * block_bytes,
            "pad_value": self.pad_value,
            "width": line,
            "height": height + 1,
            "x_step": block_bytes,
            "y_step": 1,
            "kernel_rows": 1,
            "kernel_row_step": 0,
            "kernel_cols": 1,
            "kernel_col_step": 0,
            "blocks": 1,
            "oc_step": 0,
            "line": line,
            "first_output": line + 1,
            "out_width": width,
            "out_height": height,
        }


def use_space_to_depth(
    stages: Sequence[Stage], internal: Collection[str], config: Config
) -> tuple[list[Stage], dict[str, int]]:
    """Put tensors between convolutions and stride-2 depthwise layers in blocks of 2 x 2 positions.

    Such a tensor never leaves the chip: one convolution makes it, row by row, and one depthwise
    layer reads it.

    Parameters
    ----------
    internal:
        Tensors with one producer and one consumer within the segment.

    Returns
    -------
    tuple
        All stages, and the sizes of the tensors that lie in blocks.
    """
    rewritten, sizes = list(stages), dict[str, int]()
    if not config.has_paired_windows:
        return rewritten, sizes
    for index, stage in enumerate(stages):
        reader = stage.array
        if reader is None or reader.inputs[0] not in internal:
            continue
        name = reader.inputs[0]
        place = next(at for at, stage in enumerate(rewritten) if stage.output == name)
        producer = rewritten[place].array
        if producer is None:
            continue
        layout = _block_layout(producer, reader, config)
        if layout is None or layout.size > config.spad_bytes:
            continue
        sizes[name] = layout.size
        window = PolyphaseWindow(channels=layout.channels, pad_value=layout.pad_value)
        rewritten[place] = replace(producer, output_layout=layout)
        rewritten[index] = replace(reader, input_layout=layout, loop_nest=window)
    return rewritten, sizes


def _block_layout(
    producer: ArrayStage, consumer: ArrayStage, config: Config
) -> SpaceToDepth | None:
    """Return the layout of the tensor between a convolution and a 3x3 depthwise layer of stride 2.

    The layer may pad by at most one position on each side. Return None if it cannot read blocks, if
    the convolution cannot write them, or if that saves no cycles.
    """
    window = as_sliding_window(consumer.loop_nest)
    if window is None:
        return None
    kernel = (window.kernel_rows, window.kernel_width, window.stride_x, window.y_step)
    if kernel != (WINDOW_TAPS, WINDOW_TAPS, 2, 2) or max(window.pad_top, window.pad_left) > 1:
        return None
    height = window.pad_top + consumer.input_layout.rows
    width = window.pad_left + window.in_width
    # The last window ends in an existing block, or the block is all padding.
    if 2 * consumer.grid.rows > height or 2 * consumer.grid.width > width:
        return None
    if consumer.grid.images > 1 or consumer.grid.width >= LONGEST_LINE:
        return None
    if not _can_write_blocks(producer, (consumer.input_layout.rows, window.in_width), config):
        return None
    layout = SpaceToDepth(
        grid=producer.grid, above=window.pad_top, left=window.pad_left, pad_value=window.pad_value
    )
    if max(window.pad_top, window.pad_left) and layout.plane_bytes > _LONGEST_PITCH:
        return None
    return layout if _saved_cycles(layout, consumer) > 0 else None


def _saved_cycles(layout: SpaceToDepth, consumer: ArrayStage) -> int:
    """Return the cycles that the layout saves the depthwise layer, minus those of additional POSTs.

    Each plane has separate POSTs for even and for odd rows. On small feature maps, they take longer
    than the window, whose vectors are few.
    """
    grid = consumer.grid
    paired = PolyphaseWindow(channels=layout.channels, pad_value=layout.pad_value)
    nests = consumer.loop_nest, paired
    plain, blocks = (nest.vectors_per_step(grid.rows, grid.width) for nest in nests)
    return grid.blocks * (plain - blocks) - 2 * (grid.blocks - 1) * _POST_CYCLES


def _can_write_blocks(stage: ArrayStage, shape: tuple[int, int], config: Config) -> bool:
    """Return whether a stage can make every second row, and POST can write its bytes in blocks.

    `shape` has the rows and positions of its output.
    """
    grid, nest = stage.grid, as_loop_nest(stage.loop_nest)
    return (
        nest is not None
        and (grid.images, grid.rows, grid.width) == (1, *shape)
        and min(shape) > 1
        and 2 * nest.y_step <= _LONGEST_STEP
        and stage.makes_dense_bytes
        and grid.block_bytes == config.columns
    )
