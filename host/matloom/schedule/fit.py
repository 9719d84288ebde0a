"""Search for a plan that fits the scratchpad, from the fastest choices to the smallest."""

import itertools
import random
from dataclasses import dataclass, replace

from matloom.arch.config import Config
from matloom.arch.machine import Machine
from matloom.schedule.options import CompileOptions
from matloom.schedule.params import Prologue, TilingParams, Weights
from matloom.schedule.plan import DoesNotFit, OutOfScratchpad, Plan, ScheduleParams
from matloom.schedule.planner import make_plan
from matloom.schedule.segment import Segment
from matloom.schedule.tiles import BLOCK_ENTRIES
from matloom.select.space_to_depth import PolyphaseWindow
from matloom.select.stage import ArrayStage, LoopNest, Stage, VectorStage

__all__ = ["Candidate", "candidates", "fit", "is_large", "repeat_policies", "resident_policies"]

_ATTEMPTS = 400
_SMALLEST_TILE = 16

#: Weights that arrive in one LOAD where they fit: enough to hide its latency.
_CHUNK_BYTES = 24 * 1024

#: The same for the first stage.
_FIRST_CHUNK_BYTES = 2 * 1024

#: Input and output of a tile of the first stage, whose first tile waits for them.
_FIRST_TILE_BYTES = 24 * 1024

#: Tiles of a stage of paired windows, each of which streams a row of blocks more than it has.
_PAIRED_TILES = 2

#: Cycles that POST takes for a block of one position.
_RESULT_CYCLES = 24

#: How many times the bytes may be loaded if weights come again, by an estimate that leaves out
#: what inputs cost besides their bytes: halos, short rows, and transfers that nothing hides.
_STREAMED_BYTES = 1.4

#: Stages among which a plan for each choice costs little.
_FEW_STAGES = 8

_UNBOUNDED = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What prediction decides: how the first stage starts, and what large stages load twice.

    Members
    -------
    tiles, head, opening:
        Of the first stage, as in `TilingParams`.
    streamed:
        Weights that do not fit are loaded for each tile of positions, not the input for each
        chunk of weights. None: for each stage what `_streams` estimates.
    """

    tiles: int = 4
    ramp_up: bool = False
    streamed: bool | None = None
    prologue: Prologue | None = None

    @property
    def text(self) -> str:
        """What is chosen, for people."""
        text = f"at least {self.tiles} tiles"
        if self.prologue is not None:
            rows, blocks, steps = self.prologue.rows, self.prologue.blocks, self.prologue.steps
            text += f", panels of {rows} rows, {blocks} blocks and {steps} steps first"
        text += ", small ones first" if self.ramp_up else ""
        again = {None: "", True: ", weights again for each tile", False: ", weights once"}
        return text + again[self.streamed]


#: What is tried where all weights fit, and where some do not; of equals the first is taken.
_RESIDENT_CANDIDATES = (
    Candidate(),
    Candidate(tiles=2),
    Candidate(tiles=3),
    Candidate(tiles=8),
    Candidate(tiles=16),
    Candidate(ramp_up=True),
    Candidate(tiles=8, ramp_up=True),
)
#: Rows, output blocks, and bytes of a row of the input in a slab, of openings that are tried.
_PROLOGUES = ((128, 4, 32), (128, 4, 64), (128, 8, 32), (128, 8, 48), (80, 8, 32))
#: How many of these are tried, from the first on, where weights do not stay.
_LARGE_PROLOGUES = 2


def is_large(segment: Segment, config: Config) -> bool:
    """Return whether the weights of some stage cannot stay on chip while it runs."""
    return any(_weights(stage, config) is not Weights.RESIDENT for stage in segment.stages)


def candidates(segment: Segment, config: Config, *, effort: int = 1) -> tuple[Candidate, ...]:
    """Return the choices between which prediction decides.

    What large stages load twice is tried where stages are few or `effort` is 2; in a long network,
    where a plan is dear and a stage alone decides little, it is estimated (`_streams`).
    """
    prologues = _prologues(config) if _has_prologue(segment, config) else ()
    if is_large(segment, config):
        # Those of few weights, beside an input that stays.
        first = segment.stages[0]
        fits = (
            isinstance(first, ArrayStage) and _beside(first, _PROLOGUES[0][1]) < config.spad_bytes
        )
        starts = (Candidate(), *(prologues[:_LARGE_PROLOGUES] if fits else ()))
        if effort <= 1 and len(segment.stages) > _FEW_STAGES:
            return starts
        once = tuple(replace(start, streamed=False) for start in starts)
        return (once[0], Candidate(streamed=True), *once[1:], *(starts if effort > 1 else ()))
    if not prologues:
        return _RESIDENT_CANDIDATES
    return (*(Candidate(tiles=tiles) for tiles in (4, 3, 8, 16)), *prologues)


def _beside(stage: ArrayStage, blocks: int) -> int:
    """Return the bytes of a stage's input and of some output blocks' weights."""
    weights = blocks * int(stage.weights.shape[1])
    return stage.images * stage.in_rows * stage.in_row_bytes + weights


def _prologues(config: Config) -> tuple[Candidate, ...]:
    """Return openings whose slabs are bursts of some beats for each row."""
    return tuple(
        Candidate(prologue=Prologue(rows=rows, blocks=blocks, steps=max(1, size // config.rows)))
        for rows, blocks, size in _PROLOGUES
    )


def _has_prologue(segment: Segment, config: Config) -> bool:
    """Return whether the first stage is a matrix product of many rows, from external memory."""
    stage = segment.stages[0]
    if not isinstance(stage, ArrayStage) or not isinstance(stage.loop_nest, LoopNest):
        return False
    loop_nest = stage.loop_nest
    single = (
        loop_nest.kernel_rows
        == loop_nest.kernel_cols
        == loop_nest.y_step
        == stage.images
        == stage.width
        == 1
    )
    return (
        single
        and stage.oc_blocks > 1
        and loop_nest.blocks > 1
        and loop_nest.oc_step == loop_nest.pad_top == 0
        and stage.out_rows >= 4 * config.tile_load_cycles
    )


def _alive(segment: Segment, index: int) -> list[str]:
    """Return the tensors that are needed at or across a stage, largest first."""
    names = [
        (size, name) for name, size in segment.sizes.items() if index in _live_range(segment, name)
    ]
    return [name for _, name in sorted(names, reverse=True)]


def _limit(policy: ScheduleParams, index: int, limits: TilingParams) -> ScheduleParams:
    changed = list(policy.limits)
    changed[index] = limits
    return replace(policy, limits=tuple(changed))


def _in_place(segment: Segment, policy: ScheduleParams) -> ScheduleParams:
    """Let element-wise results take their input's place, and end with small tiles.

    The next stage reads the bank that their last tile reads, and keeps it waiting.
    """
    limits = tuple(
        replace(limit, ramp_down_rows=True)
        if any(isinstance(stage, VectorStage) for stage in segment.stages[index : index + 2])
        else limit
        for index, limit in enumerate(policy.limits)
    )
    return replace(policy, in_place=True, limits=limits)


def _spill(
    segment: Segment,
    policy: ScheduleParams,
    full: OutOfScratchpad,
    config: Config,
    candidate: Candidate,
) -> ScheduleParams | None:
    """Keep the largest tensor that is alive in external memory.

    Its users start again from the widest limits, with a bound on the size of their tiles.
    """
    widest = _plain_policy(segment, config)
    if not policy.plain:
        widest = _in_place(segment, _first_policy(segment, config, candidate))
    for name in _alive(segment, full.stage):
        if name in policy.spilled or name in segment.on_chip or name in segment.views:
            continue
        policy = replace(policy, spilled=policy.spilled | {name})
        for index, stage in enumerate(segment.stages):
            if name == stage.output or name in stage.inputs:
                limits = widest.limits[index]
                tile_bytes = min(limits.tile_bytes, config.spad_bytes // 4)
                if limits.weights is Weights.STREAMED:
                    # Weights come again for each tile.
                    tile_bytes = config.spad_bytes // 2
                bounded = replace(limits, tile_bytes=tile_bytes)
                policy = _limit(policy, index, bounded)
        return policy
    return None


def _tighten(
    segment: Segment,
    policy: ScheduleParams,
    full: OutOfScratchpad,
    config: Config,
    candidate: Candidate,
) -> ScheduleParams | None:
    """Return the next policy to try after a plan did not fit, or None."""
    if not (policy.in_place or policy.plain):
        return _in_place(segment, policy)
    if policy.avoid_conflicts:
        return replace(policy, avoid_conflicts=False)
    limits = policy.limits[full.stage]
    stage = segment.stages[full.stage]
    if full.kind == "tensor":
        return _spill(segment, policy, full, config, candidate)
    block_bytes = 0
    if isinstance(stage, ArrayStage):
        block_bytes = stage.weights.shape[1] + stage.params.shape[1]
    if full.kind == "weights":
        if limits.weights is Weights.RESIDENT:
            return _limit(policy, full.stage, replace(limits, weights=Weights.ONCE))
        if limits.chunk_bytes > max(block_bytes, config.spad_bytes // 16):
            return _limit(policy, full.stage, replace(limits, chunk_bytes=limits.chunk_bytes // 2))
    bounded = limits.tile_bytes < _UNBOUNDED
    if bounded and limits.tile_bytes > config.spad_bytes // 16:
        return _limit(policy, full.stage, replace(limits, tile_bytes=limits.tile_bytes // 2))
    spilled = _spill(segment, policy, full, config, candidate)
    if spilled is not None:
        return spilled
    if full.kind == "output tile" and not policy.results_first:
        return replace(policy, results_first=True)
    return _smallest(policy, full, block_bytes, config)


def _all_tightened(
    segment: Segment,
    policy: ScheduleParams,
    failures: tuple[OutOfScratchpad, ...],
    config: Config,
    candidate: Candidate,
) -> ScheduleParams | None:
    """Return the next policy to try: tighter for each stage that failed; None for none.

    What concerns all stages is tried by itself, and of stages that share tensors on chip only the
    first that failed: what it frees may be enough for the others.
    """
    tighter, settled = policy, set[int]()
    for full in failures:
        if full.stage in settled:
            continue
        settled.update(_neighbours(segment, tighter, full.stage))
        before, after = tighter, _tighten(segment, tighter, full, config, candidate)
        if after is None and full is failures[0]:
            return None
        tighter = after or before
        if _apart_from_stages(tighter) != _apart_from_stages(before):
            break
    return tighter


def _apart_from_stages(policy: ScheduleParams) -> ScheduleParams:
    """Return what of a policy concerns all stages."""
    return replace(policy, limits=(), spilled=frozenset())


def _neighbours(segment: Segment, policy: ScheduleParams, index: int) -> range:
    """Return the stages of which some buffers may live together with those of a stage."""
    shared = [
        _live_range(segment, name) for name in _alive(segment, index) if name not in policy.spilled
    ]
    first = min((stages.start for stages in shared), default=index)
    end = max((stages.stop for stages in shared), default=index + 1)
    return range(min(first, index) - 1, max(end, index + 1) + 1)


def _live_range(segment: Segment, name: str) -> range:
    """Return the stages at or across which a tensor is needed."""
    uses = [
        number
        for number, stage in enumerate(segment.stages)
        if name == stage.output or name in stage.inputs
    ]
    begin = -1 if name in segment.sources else min(uses, default=0)
    return range(begin, max(uses, default=begin - 1) + 1)


def _smallest(
    policy: ScheduleParams, full: OutOfScratchpad, block_bytes: int, config: Config
) -> ScheduleParams | None:
    """Return the next smaller bounds of a stage whatever they cost, or None."""
    limits = policy.limits[full.stage]
    smaller = []
    if block_bytes and limits.weights is not Weights.STREAMED:
        after = Weights.STREAMED if limits.chunk_bytes <= block_bytes else Weights.ONCE
        if after is not limits.weights:
            smaller.append(replace(limits, weights=after))
    if block_bytes and limits.chunk_bytes > config.tile_bytes:
        smaller.append(replace(limits, chunk_bytes=limits.chunk_bytes // 2))
    if limits.tile_bytes > _SMALLEST_TILE:
        smaller.append(replace(limits, tile_bytes=limits.tile_bytes // 2))
    if not smaller:
        return None
    return _limit(policy, full.stage, smaller[0 if full.kind == "weights" else -1])


def _first_policy(segment: Segment, config: Config, candidate: Candidate) -> ScheduleParams:
    """Return the choices that are best where memory is plenty."""
    limits: list[TilingParams] = []
    by_blocks = [_by_blocks(segment, index, config) for index in range(len(segment.stages))]
    for index, stage in enumerate(segment.stages):
        weights = _weights(stage, config)
        streamed = candidate.streamed
        if weights is Weights.ONCE and (_streams(stage, config) if streamed is None else streamed):
            weights = Weights.STREAMED
        small = weights is Weights.RESIDENT
        chunk_bytes = min(_CHUNK_BYTES, config.spad_bytes // 8)
        waits = _waits_for_weights(stage, segment.machine)
        first, last = stage is segment.stages[0], stage is segment.stages[-1]
        if first and small and not waits:
            # Nothing runs yet behind which a long transfer could hide.
            chunk_bytes = min(chunk_bytes, _FIRST_CHUNK_BYTES)
            if candidate.prologue is not None and isinstance(stage, ArrayStage):
                # Behind an opening whole blocks can; sums in parts would wait for each other.
                chunk_bytes = max(chunk_bytes, stage.weights.shape[1] + stage.params.shape[1])
        limits.append(
            TilingParams(
                weights=weights,
                chunk_bytes=chunk_bytes,
                tile_bytes=_FIRST_TILE_BYTES if first else _UNBOUNDED,
                ramp_down=last and (waits or not small),
                ramp_down_rows=last,
                tiles=candidate.tiles if first else _tiles(stage),
                ramp_up=candidate.ramp_up and first,
                prologue=candidate.prologue if first else None,
                by_blocks=by_blocks[index],
                split=index > 0 and _splits(segment, index, by_blocks[index - 1]),
            )
        )
    return ScheduleParams(limits=tuple(limits))


def _plain_policy(segment: Segment, config: Config) -> ScheduleParams:
    """Return the choices of a plain schedule: equal tiles, weights in chunks."""
    size = min(_CHUNK_BYTES, config.spad_bytes // 8)
    limits = tuple(
        TilingParams(weights=_weights(stage, config), chunk_bytes=size) for stage in segment.stages
    )
    return ScheduleParams(limits=limits, plain=True)


def _tiles(stage: Stage) -> int:
    """Return how many tiles a stage behind the first has at least."""
    paired = isinstance(stage, ArrayStage) and isinstance(stage.loop_nest, PolyphaseWindow)
    return _PAIRED_TILES if paired else TilingParams.tiles


def _by_blocks(segment: Segment, index: int, config: Config) -> bool:
    """Return whether a stage on a small map makes channels for, or reads them from, such another.

    Where neighbours make and read channels apart, a tile of channels waits for the tile before
    it, not for all of the map.
    """

    def small(number: int) -> bool:
        stage = segment.stages[number] if 0 <= number < len(segment.stages) else None
        if not isinstance(stage, ArrayStage) or stage.oc_blocks == 1:
            return False
        positions = stage.out_rows * stage.width
        half = stage.entries(config)
        return positions <= half and positions * stage.oc_blocks > BLOCK_ENTRIES

    def apart(number: int) -> bool:
        stage = segment.stages[number] if 0 <= number < len(segment.stages) else None
        return isinstance(stage, ArrayStage) and stage.depthwise

    if not small(index):
        return False
    return apart(index + 1) or (apart(index) and small(index - 1))


def _splits(segment: Segment, index: int, after_blocks: bool) -> bool:
    """Return whether a stage's first tile reads the last tile of the stage before."""
    stage, before = segment.stages[index], segment.stages[index - 1]
    if not isinstance(stage, ArrayStage) or stage.depthwise or before.output not in stage.inputs:
        return False
    return after_blocks or stage.loop_nest.weights_fixed


def _weights(stage: Stage, config: Config) -> Weights:
    """Return how long weights can stay on chip: all of them, some output blocks, or neither."""
    if isinstance(stage, VectorStage) or stage.loop_nest.weights_fixed:
        return Weights.RESIDENT
    if stage.weights.nbytes <= config.spad_bytes // 2:
        return Weights.RESIDENT
    block_bytes = stage.weights.shape[1]
    return Weights.ONCE if block_bytes <= config.spad_bytes // 4 else Weights.STREAMED


def _streams(stage: Stage, config: Config) -> bool:
    """Return whether weights should come again for each tile of positions.

    Otherwise an input that is too large to stay comes again for each chunk of weights. Estimated
    of tiles and chunks as large as may be.
    """
    if isinstance(stage, VectorStage):
        return False
    positions = stage.images * stage.out_rows * stage.width
    inputs = stage.images * stage.in_rows * stage.in_row_bytes
    both, most = inputs + positions * stage.position_bytes, config.spad_bytes // 2
    tiles = max(-(-positions // stage.entries(config)), -(-both // most))
    if both <= most:
        return False
    weights, block_bytes = stage.weights.nbytes, stage.weights.shape[1] + stage.params.shape[1]
    chunk_blocks = max(1, min(_CHUNK_BYTES, config.spad_bytes // 8) // block_bytes)
    once = weights + inputs * -(-stage.oc_blocks // chunk_blocks)
    return bool(weights * tiles + inputs < _STREAMED_BYTES * once)


def _waits_for_weights(stage: Stage, machine: Machine) -> bool:
    """Return whether a weight tile takes longer to arrive than to use."""
    if isinstance(stage, VectorStage) or stage.loop_nest.weights_fixed:
        return False
    positions = stage.images * stage.out_rows * stage.width
    return positions < machine.transfer_cycles(machine.config.tile_bytes)


def resident_policies(
    segment: Segment, policy: ScheduleParams, config: Config
) -> tuple[ScheduleParams, ...]:
    """Return the policies to try for weights that stay, the fastest first; none where some cannot.

    POST fetches parameters while EXEC reads weights, in a repetition in every cycle; to have them
    apart is one transfer more.
    """
    if any(limits.weights is Weights.STREAMED for limits in policy.limits):
        return ()
    apart = (
        replace(limits, params_apart=_reads_weights_always(stage, config))
        for stage, limits in zip(segment.stages, policy.limits, strict=True)
    )
    resident = replace(policy, resident=True)
    close = replace(resident, avoid_conflicts=False)
    return (
        replace(resident, limits=tuple(apart)),
        resident,
        close,
        replace(close, in_place=True),
    )


def repeat_policies(segment: Segment, first: Plan, config: Config) -> tuple[ScheduleParams, ...]:
    """Return the policies to try for a plan whose weights are where the first left them."""
    pinned_at = replace(first.policy, resident=False, pinned_at=first.chunk_addresses)
    ramped_down = tuple(
        replace(limits, ramp_down_blocks=_hides_results(stage, segment.machine))
        for stage, limits in zip(segment.stages, pinned_at.limits, strict=True)
    )
    early = tuple(
        replace(limits, split=limits.split or (before.ramp_down_blocks and limits.ramp_down_blocks))
        for before, limits in itertools.pairwise((ramped_down[0], *ramped_down))
    )
    return tuple(
        replace(pinned_at, limits=limits) for limits in (pinned_at.limits, ramped_down, early)
    )


def _has_params(stage: Stage) -> bool:
    """Return whether there are parameters to load."""
    return isinstance(stage, ArrayStage) and stage.params.size > 0


def _reads_weights_always(stage: Stage, config: Config) -> bool:
    """Return whether the bank of the weights is read in most cycles."""
    if not isinstance(stage, ArrayStage) or stage.loop_nest.weights_fixed or not _has_params(stage):
        return False
    return stage.oc_blocks > 1 and stage.out_rows * stage.width < 2 * config.tile_load_cycles


def _hides_results(stage: Stage, machine: Machine) -> bool:
    """Return whether a weight tile takes so long that fewer blocks to a tile cost nothing."""
    if not _waits_for_weights(stage, machine):
        return False
    assert isinstance(stage, ArrayStage)
    return stage.loop_nest.steps * machine.config.tile_load_cycles >= _RESULT_CYCLES


def _random_policy(segment: Segment, config: Config, seed: int) -> ScheduleParams:
    """Return arbitrary choices: what memory forces on large networks, for small ones too."""
    draw, shape = random.Random(seed), random.Random(f"shapes of {seed}")

    def sometimes() -> bool:
        return shape.random() < 0.3

    limits = []
    for stage in segment.stages:
        limits.append(
            TilingParams(
                weights=draw.choice(tuple(Weights)),
                chunk_bytes=draw.randint(1, _CHUNK_BYTES),
                tile_bytes=draw.choice((_UNBOUNDED, draw.randint(1, config.spad_bytes // 2))),
                ramp_down=sometimes(),
                ramp_down_rows=sometimes(),
                ramp_up=sometimes(),
                by_blocks=sometimes(),
                params_apart=_has_params(stage) and sometimes(),
                ramp_down_blocks=sometimes(),
                split=sometimes(),
            )
        )
    drawn = frozenset(name for name in segment.sizes if draw.random() < 0.4)
    spilled = frozenset(drawn - segment.on_chip - segment.views.keys())
    return ScheduleParams(limits=tuple(limits), spilled=spilled, seed=seed, in_place=sometimes())


def fit(
    segment: Segment, config: Config, options: CompileOptions, candidate: Candidate
) -> Plan | DoesNotFit:
    """Return a plan that fits, or why even the smallest does not."""
    policy = _first_policy(segment, config, candidate)
    if options.plain:
        policy = _plain_policy(segment, config)
    if options.tiling_seed is not None:
        policy = _random_policy(segment, config, options.tiling_seed)
    for _ in range(_ATTEMPTS):
        plan = make_plan(segment, policy, config)
        if isinstance(plan, Plan):
            return plan
        tighter = _all_tightened(segment, policy, plan, config, candidate)
        if tighter is None:
            full = plan[0]
            return DoesNotFit(
                reason=f"stage {segment.stages[full.stage].name} needs {full.size} bytes of "
                f"scratchpad for {full.kind} beside its other buffers, more than the "
                f"{config.spad_bytes} bytes there are leave free"
            )
        policy = tighter
    return DoesNotFit(reason=f"no plan in {_ATTEMPTS} attempts fits {config.spad_bytes} bytes")
