"""Tightens the choices of stages whose plan did not fit."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from matloom.arch.config import Config
from matloom.schedule import tuning
from matloom.schedule.choices.policies import first_params, plain_params
from matloom.schedule.choices.strips import external_tensors
from matloom.schedule.params import UNBOUNDED, LastTiles, TilingParams, WeightsLifetime
from matloom.schedule.plan import OutOfScratchpad, ScheduleParams
from matloom.schedule.segment import Segment
from matloom.select.stage import Stage

#: Type of a function that returns the choices to which a stage is reset if a tensor is spilled.
Widest = Callable[[], ScheduleParams]


def widest_choices(segment: Segment, params: ScheduleParams) -> Widest:
    """Return a function that returns a segment's choices before any was tightened to fit.

    They have the widest bounds on the sizes of tiles. They are computed at the first call.
    """

    @cache
    def choices() -> ScheduleParams:
        """Return the choices; compute them at the first call."""
        if params.plain:
            return plain_params(segment)
        return _allow_in_place(segment, first_params(segment, params.start))

    return choices


def store_one_by_one(
    params: ScheduleParams, failures: tuple[OutOfScratchpad, ...]
) -> ScheduleParams | None:
    """Return choices in which some stages store the results of each tile separately.

    These stages held results of several tiles, for a joint STORE, at the slot (place in the order
    of tiles) where a buffer found no room. Return None if there are none. No other choice changes,
    since the plan may then fit.
    """
    joint = frozenset[int]().union(*(each.joint for each in failures))
    return replace(params, one_by_one=params.one_by_one | joint) if joint else None


def tighten_failed(
    segment: Segment,
    params: ScheduleParams,
    failures: tuple[OutOfScratchpad, ...],
    widest_limits: Widest,
) -> ScheduleParams | None:
    """Return the next choices to try, with smaller tiles for stages whose buffers found no room.

    Return None if nothing is left to try.

    Choices that affect all stages are changed one at a time. Among stages that share tensors on
    chip, only the first that failed is tightened, since that may free enough memory for the others.
    `widest_limits` are the `widest_choices` of the choices that were tried first.
    """
    tighter, settled = params, set[int]()
    for full in failures:
        if full.stage in settled:
            continue
        settled.update(_neighbours(segment, tighter, full.stage))
        before, after = tighter, _tighten(segment, tighter, full, widest_limits)
        if after is None and full is failures[0]:
            return None
        tighter = after or before
        if _global_choices(tighter) != _global_choices(before):
            break
    return tighter


def _tighten(
    segment: Segment,
    params: ScheduleParams,
    failure: OutOfScratchpad,
    widest_limits: Widest,
) -> ScheduleParams | None:
    """Return the choices to try after a buffer found no room; None if nothing is left to try."""
    config = segment.config
    # A tensor larger than the scratchpad never fits, however densely the rest is packed.
    hopeless = failure.kind == "tensor" and failure.size > config.spad_bytes
    if not (params.in_place or params.plain):
        params = _allow_in_place(segment, params)
        if not hopeless:
            return params
    if params.avoid_conflicts:
        params = replace(params, avoid_conflicts=False)
        if not hopeless:
            return params
    if params.over_inputs is None and not params.plain:
        params = replace(params, over_inputs=True)
        if not hopeless:
            return params
    number = failure.stage
    limits, stage = params.limits[number], segment.stages[number]
    if failure.kind == "tensor":
        return _spill(segment, params, failure, widest_limits)
    block_bytes = stage.block_bytes
    if failure.kind == "weights":
        if limits.weights is WeightsLifetime.RESIDENT:
            return _set_limit(params, number, replace(limits, weights=WeightsLifetime.ONCE))
        if limits.chunk_bytes > max(block_bytes, config.spad_bytes // 16):
            return _set_limit(params, number, replace(limits, chunk_bytes=limits.chunk_bytes // 2))
    bounded = limits.tile_bytes < UNBOUNDED
    if bounded and limits.tile_bytes > config.spad_bytes // 16:
        return _set_limit(params, number, replace(limits, tile_bytes=limits.tile_bytes // 2))
    spilled = _spill(segment, params, failure, widest_limits)
    if spilled is not None:
        return spilled
    if failure.kind == "output tile" and not params.results_first:
        return replace(params, results_first=True)
    return _next_smaller(params, failure, stage)


def _next_smaller(
    params: ScheduleParams, failure: OutOfScratchpad, stage: Stage
) -> ScheduleParams | None:
    """Halve the largest size of a failed stage's tiles, or reload its weights more often.

    Return None if all limits are at their minimum.
    """
    limits, block_bytes = params.limits[failure.stage], stage.block_bytes
    smaller = []
    if block_bytes and limits.weights is not WeightsLifetime.STREAMED:
        after = (
            WeightsLifetime.STREAMED if limits.chunk_bytes <= block_bytes else WeightsLifetime.ONCE
        )
        if after is not limits.weights:
            smaller.append(replace(limits, weights=after))
    if block_bytes and limits.chunk_bytes > stage.weight_tile_bytes:
        smaller.append(replace(limits, chunk_bytes=limits.chunk_bytes // 2))
    if limits.tile_bytes > tuning.SMALLEST_TILE_BYTES:
        smaller.append(replace(limits, tile_bytes=limits.tile_bytes // 2))
    if not smaller:
        return None
    return _set_limit(params, failure.stage, smaller[0 if failure.kind == "weights" else -1])


def _allow_in_place(segment: Segment, params: ScheduleParams) -> ScheduleParams:
    """Return choices in which element-wise results overwrite inputs, and last tiles are small.

    The last tile shares a bank with the reads of the next stage, so it should be short.
    """
    limits = tuple(
        replace(limit, last=limit.last | LastTiles.ROWS)
        if any(stage.is_elementwise for stage in segment.stages[index : index + 2])
        else limit
        for index, limit in enumerate(params.limits)
    )
    return replace(params, in_place=True, limits=limits)


def _spill(
    segment: Segment,
    params: ScheduleParams,
    failure: OutOfScratchpad,
    widest_limits: Widest,
) -> ScheduleParams | None:
    """Return choices that keep the largest tensor that is live at the failed stage off the chip.

    Tensors larger than the scratchpad leave it, too. Return None if no live tensor may do so.
    """
    for name in _live_tensors(segment, _live_ranges(segment), failure.stage):
        if _can_spill(segment, params, name):
            for each in {name, *_oversized_tensors(segment, segment.config)}:
                if _can_spill(segment, params, each):
                    params = _spill_tensor(segment, params, each, widest_limits(), segment.config)
            return params
    return None


def _can_spill(segment: Segment, params: ScheduleParams, name: str) -> bool:
    """Return whether a tensor is on chip and may be moved to external memory."""
    return not (name in params.spilled or name in segment.on_chip or name in segment.views)


def _oversized_tensors(segment: Segment, config: Config) -> list[str]:
    """Return the tensors that are larger than the scratchpad.

    All are moved to external memory at once, since a plan for each would be slow on a large
    network.
    """
    used = {name for stage in segment.stages for name in (stage.output, *stage.inputs)}
    return [name for name in used if segment.sizes[name] > config.spad_bytes]


def _spill_tensor(
    segment: Segment, params: ScheduleParams, name: str, widest: ScheduleParams, config: Config
) -> ScheduleParams:
    """Return choices that keep a tensor in external memory, and reset tile sizes of its stages.

    These get the widest limits, except that the bytes of their tiles are bounded.
    """
    params = replace(params, spilled=params.spilled | {name})
    for index, stage in enumerate(segment.stages):
        if name == stage.output or name in stage.inputs:
            limits = widest.limits[index]
            tile_bytes = min(limits.tile_bytes, config.spad_bytes // 4)
            if limits.weights is WeightsLifetime.STREAMED:
                # Weights are reloaded for each tile.
                tile_bytes = config.spad_bytes // 2
            limits = replace(
                limits, tile_bytes=tile_bytes, outside=external_tensors(segment, stage, params)
            )
            params = _set_limit(params, index, limits)
    return params


def _set_limit(params: ScheduleParams, index: int, limits: TilingParams) -> ScheduleParams:
    """Return choices with other bounds on the tiles of stage `index`."""
    changed = list(params.limits)
    changed[index] = limits
    return replace(params, limits=tuple(changed))


def _live_tensors(segment: Segment, ranges: dict[str, range], index: int) -> list[str]:
    """Return the tensors that are live at stage `index`, largest first.

    `ranges` has the range of stages that need each tensor.
    """
    names = [(size, name) for name, size in segment.sizes.items() if index in ranges[name]]
    return [name for _, name in sorted(names, reverse=True)]


def _live_ranges(segment: Segment) -> dict[str, range]:
    """Return the stages from the producer of each tensor to its last reader, as a range.

    It begins at -1 for tensors that exist before the segment.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, stage in enumerate(segment.stages):
        for name in (*stage.inputs, stage.output):
            first.setdefault(name, number)
            last[name] = number
    ranges = {}
    for name in segment.sizes:
        begin = -1 if name in segment.sources else first.get(name, 0)
        ranges[name] = range(begin, last.get(name, begin - 1) + 1)
    return ranges


def _neighbours(segment: Segment, params: ScheduleParams, index: int) -> range:
    """Return the stages whose buffers may be on chip while those of stage `index` are."""
    ranges = _live_ranges(segment)
    shared = [
        ranges[name] for name in _live_tensors(segment, ranges, index) if name not in params.spilled
    ]
    first = min((stages.start for stages in shared), default=index)
    end = max((stages.stop for stages in shared), default=index + 1)
    return range(min(first, index) - 1, max(end, index + 1) + 1)


def _global_choices(params: ScheduleParams) -> ScheduleParams:
    """Return the choices without those that concern a single stage or tensor."""
    return replace(params, limits=(), spilled=frozenset())
