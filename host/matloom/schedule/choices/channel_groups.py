"""Splits two stages by channels: the first makes a group of channels, the second adds its products.

A dense layer waits for weights while the array idles, and a convolution keeps the array busy while
the bus idles. If both alternate, each on a few channels, the arithmetic of one hides the LOADs of
the other. The sums of the second stage stay in the accumulators until its last group.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from matloom.arch.config import Config
from matloom.cost import exec_cycles
from matloom.ir.graph import Array
from matloom.ir.names import derived_name
from matloom.schedule import tuning
from matloom.schedule.scheduled import Scheduled
from matloom.schedule.segment import Segment
from matloom.select.constant import ConstantWeights
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.loop_nest import LoopNest, as_loop_nest
from matloom.select.operand import SharedTailWeights
from matloom.select.post_input import SharedSums
from matloom.select.stage import ArrayStage, OutputRegion, Stage


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """Two consecutive stages, the second of which reads the output of the first by a loop nest."""

    producer: ArrayStage
    reader: ArrayStage
    nest: LoopNest

    @property
    def channels(self) -> int:
        """Number of channels in each position of the tensor between the two stages."""
        return self.nest.x_step

    def groups(self, config: Config) -> Iterator[tuple[ArrayStage, ArrayStage]]:
        """Yield, for each group of channels, the part of the first stage and that of the second."""
        size = config.columns
        for first in range(0, self.channels, size):
            part = _producer_part(self.producer, self.channels, first)
            yield part, _reader_part(self, part.output, (first, first + size), config)


def group_channels(segment: Segment, private: Collection[str]) -> tuple[Segment, Collection[str]]:
    """Split pairs of stages by groups of channels; return the segment and the tensors between them.

    No stage makes these tensors as a whole any more.

    Parameters
    ----------
    private:
        Tensors with one producer and one consumer within the segment.
    """
    stages, timestamps, made = list[Stage](), list[int](), set[str]()
    sizes, index = dict(segment.sizes), 0
    while index < len(segment.stages):
        pair = _find_pair(segment, index, private)
        if pair is None:
            stages.append(segment.stages[index])
            timestamps.append(segment.timestamps[index])
            index += 1
            continue
        groups = list(pair.groups(segment.config))
        for producer, reader in groups:
            stages += (producer, reader)
            sizes[producer.output] = producer.size
        timestamps += (0,) * (2 * len(groups) - 2) + segment.timestamps[index : index + 2]
        made.add(pair.producer.output)
        index += 2
    found = replace(
        segment,
        stages=tuple(stages),
        timestamps=tuple(timestamps),
        sizes={name: size for name, size in sizes.items() if name not in made},
        on_chip=segment.on_chip | (sizes.keys() - segment.sizes.keys()),
    )
    return found, made


def tensors_to_group(scheduled: Scheduled, private: Collection[str]) -> frozenset[str]:
    """Return the tensors whose producer and reader should be faster by groups of channels.

    `private` has the tensors with one producer and one consumer within the segment.
    """
    segment = scheduled.segment
    least = tuning.GROUPS_GAIN * scheduled.prediction.cycles
    pairs = (_find_pair(segment, index, private) for index in range(len(segment.stages)))
    return frozenset(
        pair.producer.output
        for pair in pairs
        if pair is not None and _saved_cycles(segment, pair) > least
    )


def _saved_cycles(segment: Segment, pair: _Pair) -> float:
    """Return the estimated cycles that two stages save if they are split by groups of channels.

    Whole stages take as long as their weights or their arithmetic, each by itself. Split ones take
    as long as the larger sum, and no transfer hides the reader's arithmetic on the last group.
    """
    config, stages = segment.config, (pair.producer, pair.reader)
    loads = [segment.machine.transfer_cycles(stage.weight_bytes) for stage in stages]
    works = [_busy_cycles(stage, config) for stage in stages]
    groups = pair.channels // config.columns
    apart = sum(map(max, loads, works))
    together = max(sum(loads), sum(works) + groups * tuning.RESULT_LATENCY)
    return apart - together - works[1] / groups


def _busy_cycles(stage: ArrayStage, config: Config) -> int:
    """Return the cycles in which a stage keeps EXEC or POST busy, whichever is longer.

    EXEC is the array of multipliers, POST turns sums into bytes.
    """
    grid = stage.grid
    vectors = grid.rows * grid.width
    return exec_cycles(vectors, grid.blocks * stage.steps, vectors * grid.blocks, config)


def _find_pair(segment: Segment, index: int, private: Collection[str]) -> _Pair | None:
    """Return the stages `index` and `index + 1` if both can be split by groups of channels.

    Return None otherwise. `private` has the tensors with one producer and one consumer within the
    segment.
    """
    config, stages = segment.config, segment.stages[index : index + 2]
    if len(stages) == 1 or stages[0].output not in private:
        return None
    producer, reader = (_plain_product(stage.array, config) for stage in stages)
    if producer is None or reader is None or reader.inputs != (producer.output,):
        return None
    nest, read = as_loop_nest(reader.loop_nest), reader.input_layout
    if nest is None or not isinstance(reader.weights, ConstantWeights):
        return None
    channels, size, grid = nest.x_step, config.columns, reader.grid
    if type(producer.output_layout) is not Dense or type(read) is not DenseInput:
        return None
    several = channels > size and channels % size == size % config.rows == 0
    fits = grid.rows * grid.width * grid.blocks <= reader.entries(config)
    if not (several and fits) or producer.size != read.rows * read.row_bytes:
        return None
    runs = nest.blocks * config.rows, nest.pad_left_bytes, nest.kernel_col_step, read.row_bytes
    if any(run % channels for run in (producer.grid.position_bytes, *runs)):
        return None
    return _Pair(producer=producer, reader=reader, nest=nest)


def _plain_product(stage: ArrayStage | None, config: Config) -> ArrayStage | None:
    """Return a stage if it multiplies one tensor by constants and shares no sums, else None."""
    if stage is None or type(stage.loop_nest) is not LoopNest:
        return None
    nest, grid = stage.loop_nest, stage.grid
    single = grid.images == len(stage.regions) == stage.output_layout.limbs == len(stage.inputs)
    other = nest.maximum or nest.weights_fixed or stage.is_limited or stage.shares_sums
    own = nest.oc_step == 0 and not other
    whole = grid.block_bytes == config.columns and stage.output_layout.row_stride == 1
    by_channel = stage.table is not None and stage.table.ndim > 1
    constant = (
        isinstance(stage.weights, ConstantWeights | SharedTailWeights) and stage.mode == "i8xi8"
    )
    plain = single and grid.images == 1 and own and whole and constant and not by_channel
    return stage if plain else None


def _producer_part(stage: ArrayStage, channels: int, first: int) -> ArrayStage:
    """Return a stage that makes one block of channels, from channel `first`, of each position.

    A block is as many channels as the array has columns; the whole stage makes `channels` channels
    at each position.
    """
    grid, (region,) = stage.grid, stage.regions
    # The outputs of a dense layer are the channels of several positions.
    chosen = slice(first // grid.block_bytes, None, channels // grid.block_bytes)
    part = replace(grid, position_bytes=grid.position_bytes // channels * grid.block_bytes)
    return replace(
        stage,
        output=derived_name(stage.output, f"channels from {first}"),
        output_layout=Dense(grid=part),
        regions=(OutputRegion.whole(part, region.post),),
        weights=_constant_weights(stage).select_blocks(chosen),
        params=stage.params[chosen],
        macs=stage.macs * grid.block_bytes // channels,
    )


def _reader_part(pair: _Pair, source: str, group: tuple[int, int], config: Config) -> ArrayStage:
    """Return the stage that adds the products of a group of channels (half open) to its sums.

    It reads these channels as the tensor `source`.
    """
    stage, nest, channels, (first, end) = pair.reader, pair.nest, pair.channels, group
    tiles, read, unfinished = _weight_tiles(stage), stage.input_layout, end < channels
    shared = SharedSums.UNFINISHED if unfinished else SharedSums.NONE
    shared |= SharedSums.CONTINUES if first > 0 else SharedSums.NONE
    by_channel = tiles.reshape(len(tiles), -1, channels // config.rows, tiles.shape[2])
    own = by_channel[:, :, first // config.rows : end // config.rows]

    def part(size: int) -> int:
        """Return the share of a size in bytes of all channels that belongs to the group."""
        return size // channels * (end - first)

    return replace(
        stage,
        inputs=(source,),
        input_layout=DenseInput(rows=read.rows, row_bytes=part(read.row_bytes)),
        loop_nest=replace(
            nest,
            x_step=part(channels),
            kernel_col_step=part(nest.kernel_col_step),
            blocks=part(nest.blocks * config.rows) // config.rows,
            pad_left_bytes=part(nest.pad_left_bytes),
        ),
        weights=ConstantWeights(tiles=own.reshape(len(tiles), -1, tiles.shape[2])),
        params=stage.params[:, :0] if unfinished else stage.params,
        macs=stage.macs * (end - first) // channels,
        table=None if unfinished else stage.table,
        shared_sums=shared,
    )


def _constant_weights(stage: ArrayStage) -> ConstantWeights | SharedTailWeights:
    """Return the weights of a stage whose weights are constant."""
    assert isinstance(stage.weights, ConstantWeights | SharedTailWeights)
    return stage.weights


def _weight_tiles(stage: ArrayStage) -> Array:
    """Return the constant weights of a stage as tiles of the array's size."""
    assert isinstance(stage.weights, ConstantWeights)
    return stage.weights.tiles
