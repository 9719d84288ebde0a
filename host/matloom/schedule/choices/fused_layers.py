"""Fuses layers: in each round, every layer makes some rows of its output, which the next one reads.

A feature map that exceeds the scratchpad is stored, and loaded again by the layer that reads it. If
the layers around it are fused, a few rows at a time, the map never leaves the chip. Rows that two
rounds read are made twice (M. Alwani et al., "Fused-Layer CNN Accelerators", MICRO 2016).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from matloom.arch.config import WINDOW_TAPS, Config
from matloom.cost import exec_cycles
from matloom.ir.names import derived_name
from matloom.schedule import tuning
from matloom.schedule.scheduled import Scheduled
from matloom.schedule.segment import Segment
from matloom.schedule.tiling.ramps import split_evenly
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.layout.row_range import RowRange
from matloom.select.loop_nest import LoopNest
from matloom.select.sliding import SlidingWindow, as_sliding_window
from matloom.select.stage import ArrayStage, OutputRegion, Stage

#: Rows of a map, half open.
_Rows = tuple[int, int]


def fuse_layers(segment: Segment, private: Collection[str]) -> tuple[Segment, Collection[str]]:
    """Return the segment with layers fused where possible, and the maps between fused layers.

    Parameters
    ----------
    private:
        Tensors with one producer and one consumer within the segment.
    """
    stages, timestamps = list[Stage](), list[int]()
    sizes, made = dict(segment.sizes), set[str]()
    for first, chain in _chains(segment, private):
        times = segment.timestamps[first : first + len(chain)]
        rounds = _rounds(chain, segment.config)
        for number, parts in enumerate(rounds):
            last = number + 1 == len(rounds)
            stages += parts
            timestamps += times if last else (0,) * len(parts)
            sizes |= {part.output: part.size for part in parts[:-1]}
        if rounds:
            made |= {stage.output for stage in chain[:-1]}
        else:
            stages += chain
            timestamps += times
    fused = replace(
        segment,
        stages=tuple(stages),
        timestamps=tuple(timestamps),
        sizes={name: size for name, size in sizes.items() if name not in made},
    )
    return fused, made


def maps_to_fuse(scheduled: Scheduled, private: Collection[str]) -> frozenset[str]:
    """Return the large feature maps whose producer and reader should be faster if fused."""
    segment = scheduled.segment
    least = tuning.FUSED_MAPS * segment.config.spad_bytes
    if len(scheduled.plan.slots) > tuning.MANY_SLOTS:
        return frozenset()
    large = {name for name in private if segment.sizes[name] >= least}
    found = set[str]()
    for first, chain in _chains(segment, large):
        maps = {stage.output for stage in chain[:-1]}
        rounds = _rounds(chain, segment.config)
        if not rounds or maps.isdisjoint(scheduled.plan.params.spilled):
            continue
        before = _duration(segment, first, first + len(chain), scheduled)
        if _fused_cycles(rounds, scheduled) < tuning.FUSED_FASTER * before:
            found |= maps
    return frozenset(found)


def _fused_cycles(rounds: Iterable[Sequence[ArrayStage]], scheduled: Scheduled) -> float:
    """Return the estimated cycles of fused layers: of arithmetic or LOADs, whichever is longer."""
    segment = scheduled.segment
    outside = scheduled.plan.params.spilled | segment.sources.keys()
    cycles = loaded = 0
    for parts in rounds:
        cycles += sum(_busy_cycles(part, segment.config) + tuning.RESULT_LATENCY for part in parts)
        if parts[0].inputs[0] in outside:
            first, end = _rows_read(parts[0], (0, parts[0].grid.rows))
            loaded += (end - first) * parts[0].input_layout.row_bytes
        loaded += sum(
            part.grid.rows * part.grid.row_bytes for part in parts if part.addend in outside
        )
    return max(cycles, segment.machine.transfer_cycles(loaded))


def _duration(segment: Segment, first: int, end: int, scheduled: Scheduled) -> int:
    """Return the predicted cycles of stages `first` to `end` (exclusive) in a schedule."""
    times = scheduled.prediction.timestamps
    edges = (segment.timestamps[:first], segment.timestamps[first:end])
    begin, done = (max((times.get(mark, 0) for mark in marks), default=0) for marks in edges)
    return done - begin


def _chains(segment: Segment, private: Collection[str]) -> Iterator[tuple[int, Sequence[Stage]]]:
    """Yield each chain of stages that may be fused, with the index of its first stage.

    Yield each chain and the index of its first stage.
    """
    first = 0
    while first < len(segment.stages):
        chain = _chain_from(segment, first, private)
        yield first, chain
        first += len(chain)


def _chain_from(segment: Segment, first: int, private: Collection[str]) -> Sequence[Stage]:
    """Return the stage at index `first` and those after it with which it may be fused."""
    end = first + 1
    while end < len(segment.stages):
        producer, reader = segment.stages[end - 1 : end + 1]
        if not (_can_fuse(producer) and _can_fuse(reader)):
            break
        # What POST adds lies in the layout of the output, which a round does not have.
        if producer.addend is not None or producer.output not in private:
            break
        if not reader.reads_rows_of(producer):
            break
        end += 1
    return segment.stages[first:end]


def _can_fuse(stage: Stage) -> TypeGuard[ArrayStage]:
    """Return whether a stage can make some rows of its output from some rows of its input."""
    if not isinstance(stage, ArrayStage) or type(stage.loop_nest) not in (LoopNest, SlidingWindow):
        return False
    dense = isinstance(stage.input_layout, DenseInput) and type(stage.output_layout) is Dense
    single = stage.grid.images == len(stage.regions) == stage.output_layout.limbs == 1
    return dense and single and stage.computed is None and not stage.is_limited


def _loops_of(stage: ArrayStage) -> LoopNest | SlidingWindow:
    """Return the loops of a stage that may be fused."""
    assert isinstance(stage.loop_nest, LoopNest | SlidingWindow)
    return stage.loop_nest


def _rows_read(stage: ArrayStage, rows: _Rows) -> _Rows:
    """Return the range of input rows (half open) that a stage reads to make a range of rows."""
    nest = _loops_of(stage)
    first = rows[0] * nest.y_step - nest.pad_top
    end = (rows[1] - 1) * nest.y_step - nest.pad_top + 1
    end += (nest.kernel_rows - 1) * nest.kernel_row_step
    return max(0, first), min(stage.input_layout.rows, end)


def _rows_to_make(chain: Sequence[ArrayStage], rows: _Rows) -> list[_Rows]:
    """Return the rows that each stage of a chain has to make for `rows` of the last one."""
    found = [rows]
    for stage in reversed(chain[1:]):
        found.append(_rows_read(stage, found[-1]))
    return found[::-1]


def _rounds(stages: Sequence[Stage], config: Config) -> list[list[ArrayStage]]:
    """Divide the work of a chain into rounds; return the stages of each, which make some rows.

    Empty if a single round suffices, if rounds have too few rows, or if rows consist of padding.
    """
    chain = [stage.array for stage in stages if stage.array is not None]
    if not chain:
        return []
    height, most = chain[-1].grid.rows, tuning.FUSED_BYTES * config.spad_bytes
    rows = height
    while rows > 1 and _map_bytes(chain, (0, rows)) > most:
        rows -= 1
    if rows == height or rows < tuning.FUSED_ROWS:
        return []
    rounds = split_evenly(0, height, rows)
    if any(first >= end for made in rounds for first, end in _rows_to_make(chain, made)):
        # Some rows are made of padding alone.
        return []
    return [list(_round_stages(chain, made)) for made in rounds]


def _busy_cycles(stage: ArrayStage, config: Config) -> int:
    """Return the cycles for which a stage keeps EXEC or POST busy, whichever is longer."""
    nest, grid = stage.loop_nest, stage.grid
    vectors = nest.vectors_per_step(grid.rows, grid.width)
    window = as_sliding_window(nest)
    if config.has_paired_windows and window is not None:
        kernel = (window.kernel_rows, window.kernel_width, window.stride_x, window.y_step)
        if kernel == (WINDOW_TAPS, WINDOW_TAPS, 2, 2):
            # The input may be in 2 x 2 blocks.
            vectors = min(vectors, (grid.rows + 1) * (grid.width + 1))
    steps, results = grid.blocks * stage.steps, grid.rows * grid.width * grid.blocks
    return exec_cycles(vectors, steps, results, config, weights_fixed=nest.weights_fixed)


def _map_bytes(chain: Sequence[ArrayStage], rows: _Rows) -> int:
    """Return the size in bytes of the maps between the stages of a chain in one round.

    `rows` are those that the last stage makes in the round.
    """
    rows_of_stages = _rows_to_make(chain, rows)
    return sum(
        (end - first) * stage.grid.row_bytes
        for stage, (first, end) in zip(chain[:-1], rows_of_stages, strict=False)
    )


def _round_stages(chain: Sequence[ArrayStage], made: _Rows) -> Iterator[ArrayStage]:
    """Yield the stages of a chain, cut down to what the rows `made` of the last map need."""
    before: _Rows | None = None
    source = ""
    for stage, rows in zip(chain, _rows_to_make(chain, made), strict=True):
        part = _rows_of_stage(stage, rows, before)
        if before is not None:
            part = replace(part, inputs=(source, *part.inputs[1:]))
        if stage is chain[-1]:
            layout = RowRange(grid=part.grid, first_row=rows[0])
            yield replace(part, output=stage.output, output_layout=layout)
            return
        before, source = rows, part.output
        yield part


def _rows_of_stage(stage: ArrayStage, rows: _Rows, made: _Rows | None) -> ArrayStage:
    """Return a stage cut down to some rows of output; its input has only the rows `made`.

    If `made` is None, the input has all of its rows.
    """
    nest, height = _loops_of(stage), rows[1] - rows[0]
    (region,) = stage.regions
    source, above = stage.input_layout, nest.pad_top - rows[0] * nest.y_step
    if made is not None:
        source = DenseInput(rows=made[1] - made[0], row_bytes=source.row_bytes)
        above += made[0]
    grid = replace(stage.grid, rows=height)
    return replace(
        stage,
        output=derived_name(stage.output, f"rows from {rows[0]}"),
        input_layout=source,
        output_layout=Dense(grid=grid),
        loop_nest=replace(nest, pad_top=above),
        regions=(OutputRegion.whole(grid, region.post),),
        macs=stage.macs * height // stage.grid.rows,
    )
