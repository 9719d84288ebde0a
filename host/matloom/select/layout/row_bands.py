"""Layout of a narrow tensor as two bands of rows, side by side (decision 0018).

Depthwise layers of few channels process both bands at once if their input has this layout.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from matloom.arch.config import WINDOW_TAPS, Config
from matloom.arch.isa import Destination, Source
from matloom.select.context import add_bias_only, constant_post
from matloom.select.layout.base import Fields, OnChipLayout, Outputs, Write
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.loop_nest import LoopNest
from matloom.select.operand import Constant
from matloom.select.sliding import SlidingWindow
from matloom.select.stage import ArrayStage, OutputRegion, Stage
from matloom.select.weights import repeat_columns, repeat_parameters

#: Maximum number of neighbouring positions in the columns of a producer. To write only the second,
#: POST also writes the first, to bytes that are still unused; there is no such place for more.
_MOST_PACKED = 2
#: Minimum number of rows of an image that is cut into two bands.
_LEAST_ROWS = 4


@dataclass(frozen=True, kw_only=True)
class RowBands(OnChipLayout):
    """A tensor (height, width, channels) whose upper and lower halves lie side by side.

    A stored position holds the channels of a position in the lower half, then those of the
    corresponding position in the upper half. Stored row 0 holds the row above each half, and the
    last stored row the row below. Rows above and below the image hold `pad_value`.

    A position of the grid is one position of the tensor, or two neighbours that share the
    producer's columns. The grid has an even number of rows.

    Members
    -------
    channels:
        Channels of the tensor.
    pad_value:
        Signed value of padding.
    """

    channels: int
    pad_value: int

    @property
    def packed(self) -> int:
        """Positions of the tensor per grid position, 1 or 2."""
        return self.grid.position_bytes // self.channels

    @property
    def width(self) -> int:
        """Positions of a row of the tensor."""
        return self.grid.width * self.packed

    @property
    def half(self) -> int:
        """Rows of a band, without its neighbours above and below."""
        return self.grid.rows // 2

    @property
    def position_bytes(self) -> int:
        """Bytes between positions: those of both bands, and spare ones that `writes` overwrites."""
        return (1 + self.packed) * self.channels

    @property
    def row_bytes(self) -> int:
        """Bytes of a stored row."""
        return self.width * self.position_bytes

    @property
    def rows(self) -> int:
        """Stored rows."""
        return self.half + 2

    @property
    def size(self) -> int:
        """Bytes."""
        return self.rows * self.row_bytes

    @property
    def strides(self) -> tuple[int, int]:
        """Bytes between positions of the grid, and between rows of a band."""
        return self.packed * self.position_bytes, self.row_bytes

    @property
    def text(self) -> str:
        """Name of the layout, for people."""
        return "two bands of rows"

    def byte(self, image: int, row: int, x: int, block: int) -> int:
        """Return the first byte of a grid position in its band."""
        assert image == block == 0
        x_step, row_step = self.strides
        if row < self.half:
            return (row + 1) * row_step + x * x_step + self.channels
        return (row + 1 - self.half) * row_step + x * x_step

    def writes(self, tile: Outputs) -> Iterator[Write]:
        """Yield a write for each of the packed positions.

        A POST always starts at column 0, so the POST of a second position also writes the first
        one's channels before it. In the upper band these overwrite the lower band, which is written
        later; in the lower band they overwrite unused bytes.
        """
        first = self.byte(tile.image, tile.first_row, tile.first_x, tile.first_block)
        for position in reversed(range(self.packed)):
            before = position * self.channels
            place = first + position * self.position_bytes - before
            yield Write(place, *self.strides, before + self.channels)

    def borders(self) -> Iterator[Fields]:
        """Yield the fields of POSTs that write the rows above and below the image.

        They do not overwrite any position of the tensor.
        """
        for byte in (self.channels, (self.rows - 1) * self.row_bytes):
            yield self._copy(byte, byte) | constant_post(self.pad_value)

    def copies(self, tile: Outputs) -> Iterator[Fields]:
        """Yield the fields of POSTs that copy the rows just written that both bands need.

        They run at once, before EXEC reads these rows: EXEC would delay the reads of POST.
        """
        if tile.end_x < self.grid.width:
            return
        last, below = self.half - 1, (self.rows - 1) * self.row_bytes + self.channels
        for row, target in ((last, 0), (self.half, below)):
            if tile.first_row <= row < tile.end_row:
                yield self._copy(self.byte(0, row, 0, 0), target)

    def _copy(self, source: int, target: int) -> Fields:
        """Return the fields of a POST that copies a row of a band; addresses are relative."""
        return {
            "source": Source.SPAD,
            "destination": Destination.SPAD,
            "width": self.width,
            "height": 1,
            "oc_blocks": 1,
            "tail": self.channels,
            "x_step": self.position_bytes,
            "source_addr": source,
            "dest_addr": target,
            **add_bias_only(),
        }

    def tiled_rows(self, rows: int) -> int:
        """Return the rows of a region that tiles may combine: each band is a region."""
        return self.grid.rows


class BandedWindow(SlidingWindow):
    """Window that slides over two bands at once, with the rows above and below stored."""


@dataclass(frozen=True, kw_only=True)
class BandedLoopNest(LoopNest):
    """Loop nest over two bands side by side; the lower band's channels come first.

    No tile has rows of both bands. Members are those of a `LoopNest`, plus the rows and channels of
    a band.
    """

    half: int
    channels: int

    def fields(self, rows: tuple[int, int], columns: tuple[int, int], block: int) -> Fields:
        """Return the fields of EXEC for a range of outputs (half open), from an output block."""
        upper = rows[0] < self.half
        above = 0 if upper else self.half
        fields = super().fields((rows[0] - above, rows[1] - above), columns, block)
        return {**fields, "first_byte": fields["first_byte"] + (self.channels if upper else 0)}


def in_bands(
    stages: Sequence[Stage], private: Collection[str], config: Config
) -> tuple[list[Stage], dict[str, int]]:
    """Return the stages with bands between depthwise layers of few channels and their neighbours.

    A convolution must produce the tensor, only the depthwise layer may read it, and only a 1x1
    convolution may read the result, band by band.

    Parameters
    ----------
    private:
        Tensors with one producer and one consumer within the segment.

    Returns
    -------
    tuple
        All stages, and the sizes of the tensors that lie in bands.
    """
    rewritten, sizes = list(stages), dict[str, int]()
    for index, layer in enumerate(stages):
        if not isinstance(layer, ArrayStage) or not {layer.output, *layer.inputs} <= set(private):
            continue
        name, output = layer.inputs[0], layer.output
        made_at = next(at for at, stage in enumerate(rewritten) if stage.output == name)
        read_at = next(at for at, stage in enumerate(rewritten) if output in stage.inputs)
        producer, reader = rewritten[made_at], rewritten[read_at]
        if not isinstance(producer, ArrayStage) or not isinstance(reader, ArrayStage):
            continue
        layout = _layout(producer, layer, config)
        if layout is None or not _takes_bands(reader, layout, config):
            continue
        sizes |= {name: layout.size, output: layer.size}
        rewritten[made_at] = replace(
            producer, output_layout=layout, regions=_split_region(producer.regions, layout.half)
        )
        rewritten[index] = _layer(layer, layout, config)
        rewritten[read_at] = _reader(reader, layout)
    return rewritten, sizes


def _layout(producer: ArrayStage, layer: ArrayStage, config: Config) -> RowBands | None:
    """Return the layout between a convolution and a 3x3 window layer, or None."""
    window, rows = layer.loop_nest, layer.grid.rows
    if not isinstance(window, SlidingWindow) or 2 * window.depth > config.columns:
        return None
    kernel = (window.kernel_rows, window.kernel_width, window.y_step, window.stride_x)
    if kernel != (WINDOW_TAPS, WINDOW_TAPS, 1, 1) or window.pad_top != 1:
        return None
    if not _is_plain(layer) or rows != layer.input_layout.rows or rows % 2 or rows < _LEAST_ROWS:
        return None
    if not isinstance(producer.loop_nest, LoopNest):
        return None
    packed, rest = divmod(producer.grid.position_bytes, window.depth)
    if not _is_plain(producer) or rest or packed > _MOST_PACKED:
        return None
    if (producer.grid.rows, producer.grid.width * packed) != (rows, window.in_width):
        return None
    layout = RowBands(grid=producer.grid, channels=window.depth, pad_value=window.pad_value)
    return layout if layout.size <= config.spad_bytes else None


def _is_plain(stage: ArrayStage) -> bool:
    """Return whether a stage makes one block of bytes per position of a single image."""
    one = stage.grid.images == stage.grid.blocks == len(stage.regions) == 1
    return one and stage.makes_dense_bytes


def _takes_bands(consumer: ArrayStage, layout: RowBands, config: Config) -> bool:
    """Return whether a stage is a 1x1 convolution that can read the result."""
    nest = consumer.loop_nest
    if type(nest) is not LoopNest:
        return False
    single = nest.steps == nest.y_step == consumer.grid.images == len(consumer.regions) == 1
    dense = nest.x_step == layout.channels and nest.oc_step == nest.pad_top == 0
    rows = consumer.input_layout.rows == consumer.grid.rows == layout.grid.rows
    bytes_alone = (consumer.addend is None or consumer.adds_results) and consumer.weights.steps == 1
    if not (single and dense and rows and bytes_alone) or nest.pad_left_bytes:
        return False
    if not isinstance(consumer.weights, Constant):
        return False
    # A run of several taps would need the next position, which is elsewhere.
    tiles = consumer.weights.tiles.reshape(-1, config.rows, config.columns)
    return not tiles[:, layout.channels :].any()


def _split_region(regions: tuple[OutputRegion, ...], half: int) -> tuple[OutputRegion, ...]:
    """Split the only region in two, so that no tile has rows of both bands."""
    (whole,) = regions
    return replace(whole, end_row=half), replace(whole, first_row=half)


def _layer(layer: ArrayStage, layout: RowBands, config: Config) -> ArrayStage:
    """Return the depthwise layer on both bands, with each channel's parameters duplicated."""
    assert isinstance(layer.loop_nest, SlidingWindow)
    assert isinstance(layer.weights, Constant)
    (region,), tiles = layer.regions, layer.weights.tiles
    # The rows above and below each band are stored.
    stored = {"pad_top": 0, "depth": layout.position_bytes}
    grid = replace(layer.grid, rows=layout.half, position_bytes=2 * layout.channels)
    return replace(
        layer,
        input_layout=layout,
        output_layout=Dense(grid=grid),
        loop_nest=BandedWindow(**{**vars(layer.loop_nest), **stored}),
        regions=(replace(region, end_row=layout.half),),
        weights=Constant(tiles=repeat_columns(tiles, layout.channels, config.columns)),
        params=repeat_parameters(layer.params, layout.channels, config.columns),
    )


def _reader(consumer: ArrayStage, layout: RowBands) -> ArrayStage:
    """Return the convolution on the result: the rows of one band, then those of the other."""
    nest = BandedLoopNest(
        **{**vars(consumer.loop_nest), "x_step": 2 * layout.channels},
        half=layout.half,
        channels=layout.channels,
    )
    result = DenseInput(rows=layout.half, row_bytes=2 * consumer.input_layout.row_bytes)
    regions = _split_region(consumer.regions, layout.half)
    return replace(consumer, input_layout=result, loop_nest=nest, regions=regions)
