"""Puts narrow depthwise layers, and the pointwise layers around them, on two bands of rows.

In this layout, the upper and lower half of an image lie side by side, as channels. A 1x1
convolution may compute two positions at once, each in its own columns. It computes any two
positions in the same way. On bands, these are the same position of both halves of the image, so it
reads bands and makes bands with unchanged weights.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from matloom.arch.config import Config
from matloom.select.layout.banded_layers import (
    bandable_window,
    can_read_bands,
    read_bands_one_by_one,
    slide_over_bands,
    split_region,
    writes_single_block,
)
from matloom.select.layout.base import Grid
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.layout.row_bands import JoinedBands, SeparateBands
from matloom.select.loop_nest import LoopNest, as_loop_nest
from matloom.select.sliding import SlidingWindow
from matloom.select.stage import ArrayStage, OutputRegion, Stage


def chain_bands(
    stages: Sequence[Stage], internal: Collection[str], config: Config
) -> tuple[list[Stage], dict[str, int]]:
    """Return stages with their tensors in bands, from a narrow depthwise layer on.

    A pointwise layer must make that layer's input, from a tensor that a convolution makes for it
    alone. All stages that read bands must be pointwise or such depthwise layers; the last ones read
    the bands one after the other.

    Parameters
    ----------
    internal:
        Tensors that nothing outside of the stages makes or reads.

    Returns
    -------
    tuple
        All stages, and the sizes of the tensors that lie in bands.
    """
    rewritten, sizes = list(stages), dict[str, int]()
    for index, each in enumerate(stages):
        layer = each.array
        if rewritten[index] is not layer or layer is None:
            continue
        if bandable_window(layer, config) is not None:
            chain = _Chain(rewritten, internal, config, layer.grid.rows, layer.grid.width)
            if chain.add_depthwise(index):
                for at, stage in chain.changed.items():
                    rewritten[at] = stage
                sizes |= chain.sizes
    return rewritten, sizes


@dataclass
class _Chain:
    """Stages to put in bands (halves of the rows, side by side), from one depthwise layer on.

    Members
    -------
    rows, width:
        Number of rows of the image, and number of positions of a row.
    changed:
        The new stages, by index in `stages`. Other pointwise layers on bands stay as they are.
    sizes:
        Size in bytes of the tensors in bands, by name.
    """

    stages: Sequence[Stage]
    internal: Collection[str]
    config: Config
    rows: int
    width: int
    changed: dict[int, Stage] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def add_depthwise(self, index: int) -> bool:
        """Put a depthwise layer in bands, with all stages that must follow.

        Return whether it worked. If it did not, `changed` and `sizes` must be discarded.
        """
        made_at, producer = self._producer(self.stages[index])
        source_at, source = self._producer(producer)
        if producer is None or source is None or as_loop_nest(source.loop_nest) is None:
            return False
        channels, rest = divmod(source.grid.position_bytes, 2)
        alone = self._readers(source.output) == [made_at] and source.output in self.internal
        if not (
            alone and writes_single_block(source) and not rest and source.grid.rows == self.rows
        ):
            return False
        bands = SeparateBands(grid=source.grid, channels=channels, pad_value=0)
        if not self._band_pair(made_at, index, bands):
            return False
        regions = split_region(source.regions, bands.half)
        self.changed[source_at] = replace(source, output_layout=bands, regions=regions)
        self.sizes[source.output] = bands.size
        return self._band_readers(self.stages[index].output)

    def _producer(self, reader: Stage | None) -> tuple[int, ArrayStage | None]:
        """Return the index of the stage that makes the first input of `reader`, and the stage.

        The index is -1 if there is no such stage; the stage is None unless it uses the array.
        """
        for at, stage in enumerate(self.stages):
            if reader is not None and stage.output == reader.inputs[0]:
                return at, stage.array
        return -1, None

    def _index_of_producer(self, name: str) -> int:
        """Return the index of the stage that makes the tensor `name`."""
        return next(at for at, stage in enumerate(self.stages) if stage.output == name)

    def _readers(self, name: str) -> list[int]:
        """Return the indices of the stages that read the tensor `name`."""
        return [at for at, stage in enumerate(self.stages) if name in stage.inputs]

    def _band_readers(self, first: str) -> bool:
        """Put all readers of a tensor in bands, then the readers of their results, and so on.

        Return whether this is possible.
        """
        waiting, together = [first], set[str]()
        while waiting:
            name = waiting.pop()
            if name in self.sizes:
                continue
            if name not in self.internal:
                return False
            size = self.stages[self._index_of_producer(name)].size
            for at in self._readers(name):
                reader = self.stages[at].array
                if reader is None:
                    return False
                channels = size // (self.rows * self.width)
                if name == reader.inputs[0] and can_read_bands(
                    reader, channels, self.rows, self.config
                ):
                    self.changed[at] = read_bands_one_by_one(reader, channels, self.rows // 2)
                    continue
                if not _is_pointwise(reader):
                    return False
                together |= set(reader.inputs)
                waiting.append(self._next_banded_tensor(at))
            self.sizes[name] = size
        # Both inputs of a stage must lie in bands.
        return together <= self.sizes.keys()

    def _next_banded_tensor(self, at: int) -> str:
        """Return the next tensor that gets bands, after the pointwise layer with index `at`.

        This is the result of a depthwise layer if only that layer reads the pointwise layer's
        output; otherwise, it is that output.
        """
        output, readers = self.stages[at].output, self._readers(self.stages[at].output)
        if len(readers) == 1 and output in self.internal and self._band_pair(at, readers[0], None):
            return self.stages[readers[0]].output
        return output

    def _band_pair(self, at: int, index: int, bands: SeparateBands | None) -> bool:
        """Put a pointwise layer and the depthwise layer that reads it in bands.

        Return whether it worked. `at` and `index` are the indices of both layers. `bands` is the
        layout of the pointwise layer's input; None if it is dense.
        """
        producer, layer = self.stages[at].array, self.stages[index].array
        if producer is None or layer is None:
            return False
        window = bandable_window(layer, self.config)
        if window is None or self._readers(producer.output) != [index]:
            return False
        if not (
            writes_single_block(producer)
            and _is_pointwise(producer)
            and producer.output in self.internal
        ):
            return False
        both = producer.grid.rows * producer.grid.width * 2 == self.rows * self.width
        if not both or producer.grid.position_bytes != 2 * window.depth:
            return False
        layout = self._joined_layout(producer, window)
        if layout.size > self.config.spad_bytes:
            return False
        assert isinstance(producer.loop_nest, LoopNest)
        width = layout.grid.width
        read = bands or DenseInput(rows=layout.half, row_bytes=width * producer.loop_nest.x_step)
        (region,) = producer.regions
        self.changed[at] = replace(
            producer,
            input_layout=read,
            output_layout=layout,
            loop_nest=replace(producer.loop_nest, x_step=read.row_bytes // width),
            regions=(OutputRegion.whole(layout.grid, region.post),),
        )
        self.changed[index] = slide_over_bands(layer, layout, self.config)
        self.sizes[producer.output] = layout.size
        return True

    def _joined_layout(self, producer: ArrayStage, window: SlidingWindow) -> JoinedBands:
        """Return the layout in which a pointwise layer makes both bands for a sliding window."""
        half = self.rows // 2
        grid = Grid(
            images=1,
            rows=half,
            width=self.width,
            position_bytes=producer.grid.position_bytes,
            block_bytes=producer.grid.block_bytes,
        )
        return JoinedBands(grid=grid, channels=window.depth, pad_value=window.pad_value)


def _is_pointwise(stage: ArrayStage) -> bool:
    """Return whether a stage makes each output position from the input position at its place.

    The output must be dense.
    """
    nest, grid, read = stage.loop_nest, stage.grid, stage.input_layout
    if type(nest) is not LoopNest or type(read) is not DenseInput:
        return False
    single = nest.kernel_rows == nest.kernel_cols == nest.y_step == 1
    unmoved = nest.oc_step == nest.pad_top == nest.pad_left_bytes == 0
    whole = (read.rows, read.row_bytes) == (grid.rows, grid.width * nest.x_step)
    alone = stage.computed is None and not stage.shares_sums and not nest.weights_fixed
    dense = type(stage.output_layout) is Dense and stage.output_layout.limbs == 1
    one = grid.images == len(stage.regions) == 1
    return single and unmoved and whole and alone and dense and one
