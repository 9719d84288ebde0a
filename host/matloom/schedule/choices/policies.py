"""Initial choices for each stage of a search: fastest with much memory, simplest, or random."""

import random
from dataclasses import replace
from functools import reduce
from operator import or_

from matloom.arch.config import Config
from matloom.arch.machine import Machine
from matloom.schedule import tuning
from matloom.schedule.choices.neighbours import (
    is_followed,
    splits_first_tile,
    stages_before_pooling,
    stages_ending_by_blocks,
    tiles_by_blocks,
)
from matloom.schedule.choices.strips import strip_params
from matloom.schedule.params import (
    UNBOUNDED,
    Candidate,
    FirstTiles,
    LastTiles,
    Prologue,
    TileOrder,
    TilingParams,
    WeightsLifetime,
)
from matloom.schedule.plan import ScheduleParams
from matloom.schedule.segment import Segment
from matloom.select.stage import Stage

#: Probability with which random choices have an unusual tile shape, or spill a tensor.
_SHARE_OF_SHAPES, _SHARE_SPILLED = 0.3, 0.4


def first_params(segment: Segment, candidate: Candidate) -> ScheduleParams:
    """Return a candidate's choices for all stages, which are fastest if memory is plentiful."""
    config = segment.config
    limits: list[TilingParams] = []
    in_blocks = [tiles_by_blocks(segment, index, config) for index in range(len(segment.stages))]
    ending, pooled = stages_ending_by_blocks(segment), stages_before_pooling(segment)
    preferred = _chunk_bytes(segment)
    for index, stage in enumerate(segment.stages):
        weights = weights_lifetime(stage, config)
        streamed = candidate.streamed
        if weights is WeightsLifetime.ONCE and (
            _reloads_weights(stage, config) if streamed is None else streamed
        ):
            weights = WeightsLifetime.STREAMED
        small, chunk_bytes = weights is WeightsLifetime.RESIDENT, preferred
        waits = waits_for_weights(stage, segment.machine)
        first, last = stage is segment.stages[0], stage is segment.stages[-1]
        split = not first and splits_first_tile(segment, index, in_blocks[index - 1])
        if first and small and not waits:
            # Nothing runs yet that could hide a long transfer.
            chunk_bytes = min(chunk_bytes, tuning.FIRST_CHUNK_BYTES)
            if isinstance(candidate.first, Prologue):
                # After a prologue only whole blocks: partial sums would wait for each other.
                chunk_bytes = max(chunk_bytes, stage.block_bytes)
        limits.append(
            TilingParams(
                weights=weights,
                chunk_bytes=chunk_bytes,
                tile_bytes=tuning.FIRST_TILE_BYTES if first else UNBOUNDED,
                tiles=candidate.tiles if first else _min_tiles(segment, index),
                first=candidate.first if first else _first_tile(segment, index, split=split),
                last=_union(
                    (LastTiles.CHUNKS, last and (waits or not small)),
                    (LastTiles.ROWS, last or index in pooled),
                    (LastTiles.BLOCKS, index in ending),
                ),
                order=TileOrder.BY_BLOCKS if in_blocks[index] else TileOrder.BY_ROWS,
            )
        )
    spilled = addends(segment) if candidate.addends_by_tile else frozenset()
    return ScheduleParams(limits=tuple(limits), spilled=spilled, start=candidate)


def _chunk_bytes(segment: Segment) -> int:
    """Return the preferred size in bytes of a chunk, the weights that one LOAD brings."""
    weights = sum(stage.weight_bytes for stage in segment.stages if stage.loads_weights)
    fits = weights <= segment.config.spad_bytes
    wanted = tuning.CHUNK_BYTES if fits else tuning.SMALL_CHUNK_BYTES
    return min(wanted, segment.config.spad_bytes // 8)


def _first_tile(segment: Segment, index: int, *, split: bool) -> FirstTiles:
    """Return the shape of the first tile of stage `index`, which is not the first stage.

    `split` says whether the last reduction steps of the tile should be a separate EXEC.
    """
    if not split:
        return FirstTiles.WHOLE
    return FirstTiles.SPLIT if is_followed(segment, index) else FirstTiles.SPLIT_LONG


def _union(*members: tuple[LastTiles, bool]) -> LastTiles:
    """Return the combined flags of those pairs (flag, condition) whose condition is true."""
    return reduce(or_, (member for member, wanted in members if wanted), LastTiles.EVEN)


def addends(segment: Segment) -> frozenset[str]:
    """Return the tensors in external memory that stages add to their sums."""
    added = {stage.addend for stage in segment.stages}
    return frozenset(name for name in added if name in segment.sources and name is not None)


def plain_params(segment: Segment) -> ScheduleParams:
    """Return the choices of the simplest schedule: equal tiles, and weights loaded in pieces."""
    config = segment.config
    size = min(tuning.CHUNK_BYTES, config.spad_bytes // 8)
    limits = tuple(
        TilingParams(weights=weights_lifetime(stage, config), chunk_bytes=size)
        for stage in segment.stages
    )
    return ScheduleParams(limits=limits, plain=True)


def random_params(segment: Segment, seed: int) -> ScheduleParams:
    """Return random choices, which cut small networks as finely as large ones have to be."""
    config = segment.config
    draw, shape = random.Random(seed), random.Random(f"shapes of {seed}")

    def sometimes() -> bool:
        """Return whether to make an unusual choice, at random."""
        return shape.random() < _SHARE_OF_SHAPES

    limits = []
    for stage in segment.stages:
        limits.append(
            TilingParams(
                weights=draw.choice(tuple(WeightsLifetime)),
                chunk_bytes=draw.randint(1, tuning.CHUNK_BYTES),
                tile_bytes=draw.choice((UNBOUNDED, draw.randint(1, config.spad_bytes // 2))),
                first=shape.choice(tuple(FirstTiles)),
                last=_union(*((each, sometimes()) for each in LastTiles)),
                order=TileOrder.BY_BLOCKS if sometimes() else TileOrder.BY_ROWS,
                params_apart=stage.has_params and sometimes(),
            )
        )
    drawn = frozenset(name for name in segment.sizes if draw.random() < _SHARE_SPILLED)
    spilled = frozenset(drawn - segment.on_chip - segment.views.keys())
    found = ScheduleParams(limits=tuple(limits), spilled=spilled, seed=seed, in_place=sometimes())
    share = random.Random(f"strips of {seed}").random() < _SHARE_OF_SHAPES
    over_inputs = random.Random(f"over inputs of {seed}").random() < _SHARE_OF_SHAPES
    stored = random.Random(f"stores of {seed}")
    one_by_one = [at for at in range(len(limits)) if stored.random() < _SHARE_OF_SHAPES]
    turns = random.Random(f"turns of {seed}").random() < _SHARE_OF_SHAPES
    found = replace(found, over_inputs=over_inputs, one_by_one=frozenset(one_by_one), turns=turns)
    return strip_params(segment, found) if share else found


def weights_lifetime(stage: Stage, config: Config) -> WeightsLifetime:
    """Return how long the weights of a stage can stay on chip."""
    if not stage.loads_weights or stage.weight_bytes <= config.spad_bytes // 2:
        return WeightsLifetime.RESIDENT
    return (
        WeightsLifetime.ONCE
        if stage.weight_block_bytes <= config.spad_bytes // 4
        else WeightsLifetime.STREAMED
    )


def _min_tiles(segment: Segment, index: int) -> int:
    """Return the minimum number of tiles per image for stage `index`, which is not the first stage.

    Softmax makes whole rows, and its reader's sums stay in the accumulators until the rows of the
    next image are made, so with several images there is room for one tile each.
    """
    producer, stage = segment.stages[index - 1 : index + 1]
    if producer.is_softmax and stage.inputs[0] == producer.output and not stage.is_elementwise:
        return tuning.FEW_TILES if stage.grid.images == 1 else 1
    return tuning.FEW_TILES if stage.has_costly_tiles else TilingParams.tiles


def _reloads_weights(stage: Stage, config: Config) -> bool:
    """Return whether to reload weights for each tile of positions.

    The alternative is to reload the input, if it is too large to stay, for each chunk of weights.
    The estimate assumes the largest possible tiles and chunks.
    """
    if not stage.loads_weights:
        return False
    positions = stage.grid.images * stage.grid.rows * stage.grid.width
    inputs = stage.grid.images * stage.input_layout.rows * stage.input_layout.row_bytes
    both, most = inputs + positions * stage.grid.position_bytes, config.spad_bytes // 2
    tiles = max(-(-positions // stage.entries(config)), -(-both // most))
    if both <= most:
        return False
    weights, block_bytes = stage.weight_bytes, stage.block_bytes
    chunk_blocks = max(1, min(tuning.CHUNK_BYTES, config.spad_bytes // 8) // block_bytes)
    once = weights + inputs * -(-stage.grid.blocks // chunk_blocks)
    return bool(weights * tiles + inputs < tuning.STREAMED_BYTES * once)


def waits_for_weights(stage: Stage, machine: Machine) -> bool:
    """Return whether a weight tile takes longer to load than to use."""
    if not stage.loads_weights:
        return False
    positions = stage.grid.images * stage.grid.rows * stage.grid.width
    return positions < machine.transfer_cycles(stage.weight_tile_bytes)
