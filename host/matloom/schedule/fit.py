"""Search for a plan that fits the scratchpad, from the fastest choices to the smallest."""

import itertools
import random
from dataclasses import dataclass, replace

from matloom.arch.config import Config
from matloom.schedule.blocks import PairedWalk
from matloom.schedule.errors import CompileError
from matloom.schedule.limits import Limits, Opening, Weights
from matloom.schedule.options import CompileOptions
from matloom.schedule.plan import Full, Plan, Policy
from matloom.schedule.planner import make_plan
from matloom.schedule.segment import Segment
from matloom.schedule.stage import ArrayStage, Stage, VectorStage, Walk
from matloom.schedule.tiles import BLOCK_ENTRIES

__all__ = ["Choice", "choices", "fit", "repeat_policies", "resident_policies"]

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

_UNBOUNDED = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What prediction decides: how the first stage starts, and what large stages load twice.

    Members
    -------
    tiles, head, opening:
        Of the first stage, as in `Limits`.
    streamed:
        Weights that do not fit are loaded for each tile of positions, not the input for each
        chunk of weights.
    """

    tiles: int = 4
    head: bool = False
    streamed: bool = False
    opening: Opening | None = None


#: What is tried where all weights fit, and where some do not; of equals the first is taken.
_RESIDENT_CHOICES = (
    Choice(),
    Choice(tiles=2),
    Choice(tiles=3),
    Choice(tiles=8),
    Choice(tiles=16),
    Choice(head=True),
    Choice(tiles=8, head=True),
)
#: Rows, output blocks, and bytes of a row of the input in a slab, of openings that are tried.
_OPENINGS = ((128, 4, 32), (128, 4, 64), (128, 8, 32), (128, 8, 48), (80, 8, 32))
#: How many of these are tried, from the first on, where weights do not stay.
_LARGE_OPENINGS = 2
_LARGE_CHOICES = (Choice(), Choice(streamed=True))


def choices(segment: Segment, config: Config) -> tuple[Choice, ...]:
    """Return the choices between which prediction decides."""
    openings = _openings(config) if _opens(segment, config) else ()
    if any(_weights(stage, config) is not Weights.RESIDENT for stage in segment.stages):
        # Those of few weights, beside an input that stays.
        first = segment.stages[0]
        fits = isinstance(first, ArrayStage) and _beside(first, _OPENINGS[0][1]) < config.spad_bytes
        return (*_LARGE_CHOICES, *(openings[:_LARGE_OPENINGS] if fits else ()))
    if not openings:
        return _RESIDENT_CHOICES
    return (*(Choice(tiles=tiles) for tiles in (4, 3, 8, 16)), *openings)


def _beside(stage: ArrayStage, blocks: int) -> int:
    """Return the bytes of a stage's input and of some output blocks' weights."""
    weights = blocks * int(stage.weights.shape[1])
    return stage.images * stage.in_rows * stage.in_row_bytes + weights


def _openings(config: Config) -> tuple[Choice, ...]:
    """Return openings whose slabs are bursts of some beats for each row."""
    return tuple(
        Choice(opening=Opening(rows=rows, blocks=blocks, steps=max(1, size // config.rows)))
        for rows, blocks, size in _OPENINGS
    )


def _opens(segment: Segment, config: Config) -> bool:
    """Return whether the first stage is a matrix product of many rows, from external memory."""
    stage = segment.stages[0]
    if not isinstance(stage, ArrayStage) or not isinstance(stage.walk, Walk):
        return False
    walk = stage.walk
    single = walk.kernel_rows == walk.kernel_cols == walk.y_step == stage.images == stage.width == 1
    return (
        single
        and stage.oc_blocks > 1
        and walk.blocks > 1
        and walk.oc_step == walk.pad_top == 0
        and stage.out_rows >= 4 * config.tile_load_cycles
    )


def _alive(segment: Segment, index: int) -> list[str]:
    """Return the tensors that are needed at or across a stage, largest first."""
    names = []
    for name, size in segment.sizes.items():
        uses = [
            number
            for number, stage in enumerate(segment.stages)
            if name == stage.output or name in stage.inputs
        ]
        begin = -1 if name in segment.sources else min(uses, default=0)
        if uses and begin <= index <= max(uses):
            names.append((size, name))
    return [name for _, name in sorted(names, reverse=True)]


def _limit(policy: Policy, index: int, limits: Limits) -> Policy:
    changed = list(policy.limits)
    changed[index] = limits
    return replace(policy, limits=tuple(changed))


def _overlaid(segment: Segment, policy: Policy) -> Policy:
    """Let element-wise results take their input's place, and end with small tiles.

    The next stage reads the bank that their last tile reads, and keeps it waiting.
    """
    limits = tuple(
        replace(limit, taper_rows=True)
        if any(isinstance(stage, VectorStage) for stage in segment.stages[index : index + 2])
        else limit
        for index, limit in enumerate(policy.limits)
    )
    return replace(policy, overlay=True, limits=limits)


def _spill(
    segment: Segment, policy: Policy, full: Full, config: Config, choice: Choice
) -> Policy | None:
    """Keep the largest tensor that is alive in external memory.

    Its users start again from the widest limits, with a bound on the size of their tiles.
    """
    widest = _plain_policy(segment, config)
    if not policy.plain:
        widest = _overlaid(segment, _first_policy(segment, config, choice))
    for name in _alive(segment, full.stage):
        if name in policy.spilled or name in segment.on_chip:
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
    segment: Segment, policy: Policy, full: Full, config: Config, choice: Choice
) -> Policy | None:
    """Return the next policy to try after a plan did not fit, or None."""
    if not (policy.overlay or policy.plain):
        return _overlaid(segment, policy)
    if policy.spread:
        return replace(policy, spread=False)
    limits = policy.limits[full.stage]
    stage = segment.stages[full.stage]
    if full.kind == "tensor":
        return _spill(segment, policy, full, config, choice)
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
    spilled = _spill(segment, policy, full, config, choice)
    if spilled is not None:
        return spilled
    if full.kind == "output tile" and not policy.results_first:
        return replace(policy, results_first=True)
    return _smallest(policy, full, block_bytes, config)


def _smallest(policy: Policy, full: Full, block_bytes: int, config: Config) -> Policy | None:
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


def _first_policy(segment: Segment, config: Config, choice: Choice) -> Policy:
    """Return the choices that are best where memory is plenty."""
    limits: list[Limits] = []
    by_blocks = [_by_blocks(segment, index, config) for index in range(len(segment.stages))]
    for index, stage in enumerate(segment.stages):
        weights = _weights(stage, config)
        if choice.streamed and weights is Weights.ONCE:
            weights = Weights.STREAMED
        small = weights is Weights.RESIDENT
        chunk_bytes = min(_CHUNK_BYTES, config.spad_bytes // 8)
        waits = _waits_for_weights(stage, config)
        first, last = stage is segment.stages[0], stage is segment.stages[-1]
        if first and small and not waits:
            # Nothing runs yet behind which a long transfer could hide.
            chunk_bytes = min(chunk_bytes, _FIRST_CHUNK_BYTES)
            if choice.opening is not None and isinstance(stage, ArrayStage):
                # Behind an opening whole blocks can; sums in parts would wait for each other.
                chunk_bytes = max(chunk_bytes, stage.weights.shape[1] + stage.params.shape[1])
        limits.append(
            Limits(
                weights=weights,
                chunk_bytes=chunk_bytes,
                tile_bytes=_FIRST_TILE_BYTES if first else _UNBOUNDED,
                taper=last and (waits or not small),
                taper_rows=last,
                tiles=choice.tiles if first else _tiles(stage),
                head=choice.head and first,
                opening=choice.opening if first else None,
                by_blocks=by_blocks[index],
                split=index > 0 and _splits(segment, index, by_blocks[index - 1]),
            )
        )
    return Policy(limits=tuple(limits))


def _plain_policy(segment: Segment, config: Config) -> Policy:
    """Return the choices of a plain schedule: equal tiles, weights in chunks."""
    size = min(_CHUNK_BYTES, config.spad_bytes // 8)
    limits = tuple(
        Limits(weights=_weights(stage, config), chunk_bytes=size) for stage in segment.stages
    )
    return Policy(limits=limits, plain=True)


def _tiles(stage: Stage) -> int:
    """Return how many tiles a stage behind the first has at least."""
    paired = isinstance(stage, ArrayStage) and isinstance(stage.walk, PairedWalk)
    return _PAIRED_TILES if paired else Limits.tiles


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
    return after_blocks or stage.walk.weights_fixed


def _weights(stage: Stage, config: Config) -> Weights:
    """Return how long weights can stay on chip: all of them, some output blocks, or neither."""
    if isinstance(stage, VectorStage) or stage.walk.weights_fixed:
        return Weights.RESIDENT
    if stage.weights.nbytes <= config.spad_bytes // 2:
        return Weights.RESIDENT
    block_bytes = stage.weights.shape[1]
    return Weights.ONCE if block_bytes <= config.spad_bytes // 4 else Weights.STREAMED


def _waits_for_weights(stage: Stage, config: Config) -> bool:
    """Return whether a weight tile takes longer to arrive than to use."""
    if isinstance(stage, VectorStage) or stage.walk.weights_fixed:
        return False
    positions = stage.images * stage.out_rows * stage.width
    return positions < config.tile_bytes // config.bus_bytes


def resident_policies(segment: Segment, policy: Policy, config: Config) -> tuple[Policy, ...]:
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
    close = replace(resident, spread=False)
    return (
        replace(resident, limits=tuple(apart)),
        resident,
        close,
        replace(close, overlay=True),
    )


def repeat_policies(segment: Segment, first: Plan, config: Config) -> tuple[Policy, ...]:
    """Return the policies to try for a plan whose weights are where the first left them."""
    held = replace(first.policy, resident=False, held=first.chunk_addresses)
    tapered = tuple(
        replace(limits, taper_blocks=_hides_results(stage, config))
        for stage, limits in zip(segment.stages, held.limits, strict=True)
    )
    early = tuple(
        replace(limits, split=limits.split or (before.taper_blocks and limits.taper_blocks))
        for before, limits in itertools.pairwise((tapered[0], *tapered))
    )
    return tuple(replace(held, limits=limits) for limits in (held.limits, tapered, early))


def _has_params(stage: Stage) -> bool:
    """Return whether there are parameters to load."""
    return isinstance(stage, ArrayStage) and stage.params.size > 0


def _reads_weights_always(stage: Stage, config: Config) -> bool:
    """Return whether the bank of the weights is read in most cycles."""
    if not isinstance(stage, ArrayStage) or stage.walk.weights_fixed or not _has_params(stage):
        return False
    return stage.oc_blocks > 1 and stage.out_rows * stage.width < 2 * config.tile_load_cycles


def _hides_results(stage: Stage, config: Config) -> bool:
    """Return whether a weight tile takes so long that fewer blocks to a tile cost nothing."""
    if not _waits_for_weights(stage, config):
        return False
    assert isinstance(stage, ArrayStage)
    return stage.walk.steps * config.tile_load_cycles >= _RESULT_CYCLES


def _random_policy(segment: Segment, config: Config, seed: int) -> Policy:
    """Return arbitrary choices: what memory forces on large networks, for small ones too."""
    draw, shape = random.Random(seed), random.Random(f"shapes of {seed}")

    def sometimes() -> bool:
        return shape.random() < 0.3

    limits = []
    for stage in segment.stages:
        limits.append(
            Limits(
                weights=draw.choice(tuple(Weights)),
                chunk_bytes=draw.randint(1, _CHUNK_BYTES),
                tile_bytes=draw.choice((_UNBOUNDED, draw.randint(1, config.spad_bytes // 2))),
                taper=sometimes(),
                taper_rows=sometimes(),
                head=sometimes(),
                by_blocks=sometimes(),
                params_apart=_has_params(stage) and sometimes(),
                taper_blocks=sometimes(),
                split=sometimes(),
            )
        )
    drawn = frozenset(name for name in segment.sizes if draw.random() < 0.4)
    spilled = drawn - segment.on_chip
    return Policy(limits=tuple(limits), spilled=spilled, seed=seed, overlay=sometimes())


def fit(segment: Segment, config: Config, options: CompileOptions, choice: Choice) -> Plan:
    """Return a plan that fits; raise `CompileError` where even the smallest does not."""
    policy = _first_policy(segment, config, choice)
    if options.plain:
        policy = _plain_policy(segment, config)
    if options.tiling_seed is not None:
        policy = _random_policy(segment, config, options.tiling_seed)
    for _ in range(_ATTEMPTS):
        try:
            return make_plan(segment, policy, config)
        except Full as full:
            tighter = _tighten(segment, policy, full, config, choice)
            if tighter is None:
                raise CompileError(
                    f"stage {segment.stages[full.stage].name} needs {full.size} bytes of "
                    f"scratchpad for {full.kind} beside its other buffers, more than the "
                    f"{config.spad_bytes} bytes there are leave free"
                ) from None
            policy = tighter
    raise CompileError(f"no plan in {_ATTEMPTS} attempts fits {config.spad_bytes} bytes")
