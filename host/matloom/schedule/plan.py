"""Plans: buffers, transfers and choices, and reasons why a plan does not fit."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from matloom.schedule.params import ORDINARY_START, Candidate, TilingParams
from matloom.schedule.tiling.sequence import Sequence, Slot
from matloom.schedule.tiling.stages import Tiling
from matloom.schedule.tiling.tile_reads import InputRange
from matloom.select.layout.base import Transfer

#: Chunk number of a stage's parameters, if they are not part of its chunks.
PARAMS = -1

#: Chunk number of a stage's table.
TABLE = -2


@dataclass(eq=False, slots=True)
class Buffer:
    """Bytes in the scratchpad, in use from slot (place in the order of tiles) `first` to `last`.

    Slots are places in the order of tiles; both are inclusive.

    The address is a multiple of `boundary`; it is -1 until one is assigned. `stage` is the index of
    the first stage that uses the buffer. With `high`, the allocator prefers high addresses. A
    `pinned` buffer holds weights that stay on chip between calls.
    """

    size: int
    first: int
    last: int
    stage: int
    high: bool = False
    address: int = -1
    first_read: int | None = None
    last_read: int | None = None
    pinned: bool = False
    boundary: int = 1

    @property
    def reads(self) -> tuple[int, int]:
        """First and last slot (tile in order) that may read the buffer; its life if unknown."""
        first = self.first if self.first_read is None else self.first_read
        return first, self.last if self.last_read is None else self.last_read

    def overlaps(self, other: "Buffer") -> bool:
        """Return whether the addresses of two placed buffers overlap."""
        ends = self.address + self.size, other.address + other.size
        return self.address < ends[1] and other.address < ends[0]


@dataclass(eq=False, slots=True)
class Load:
    """A LOAD, which copies rows of bytes from external memory to a buffer in the scratchpad.

    The tile of slot `use` needs the bytes. The LOAD is issued before slot `slot`, which is not
    before slot `earliest`. `what` names the source: ``("tensor", name, first byte)`` or ``("chunk",
    stage, chunk)``. At the source, `rows` rows of `size` bytes lie `row_step` bytes apart. They are
    written from byte `offset` of the buffer on, `row_step` bytes apart if `apart` is set, otherwise
    contiguously.
    """

    buffer: Buffer
    what: tuple[str, str | int, int]
    offset: int
    size: int
    use: int
    slot: int = 0
    rows: int = 1
    row_step: int = 0
    apart: bool = False
    earliest: int = 0

    def transfer(self, start: int, address: int) -> Transfer:
        """Return the transfer from byte `start` of the source to an address in the scratchpad."""
        return Transfer(
            start=start,
            size=self.size,
            runs=self.rows,
            step=self.row_step,
            address=address,
            pitch=self.row_step if self.apart else self.size,
        )

    @property
    def source_end(self) -> int:
        """End (exclusive) of the bytes that the LOAD reads, from the start of its tensor."""
        return self.what[2] + (self.rows - 1) * self.row_step + self.size


@dataclass(frozen=True, kw_only=True)
class ScheduleParams:
    """Choices for scheduling a segment: bounds on tiles, and tensors and weights kept on chip.

    Members
    -------
    spilled:
        Tensors that stay in external memory.
    limits:
        Bounds on the tiles of each stage.
    avoid_conflicts:
        Put buffers that are read at the same time into different banks.
    in_place:
        Let element-wise results overwrite their input.
    over_inputs:
        Let the results of other stages overwrite an input of the same size. True: wherever
        possible. False: never. None: never, but tightening may turn it into True.
    results_first:
        Place results that are stored tile by tile before buffers that LOADs fill, since a LOAD can
        wait for room.
    strips:
        Let tiles share rows of tensors in external memory (`tiling.sizes`).
    one_by_one:
        Stages that store the results of each tile separately.
    turns:
        Let a depthwise layer and the layer that reads its results alternate, some rows at a time
        (`choices.turns`).
    resident:
        Give weights addresses that nothing else uses, so that they stay on chip for later calls.
    leaving, partly:
        Exceptions from `resident`: stages whose weights each call loads, and stages of which only a
        number of first chunks stay.
    pinned_at:
        Addresses, by stage and chunk, of weights that are on chip before the segment starts and
        must be intact when it ends; None if there are none.
    seed:
        Seed of random tile sizes and addresses; None for none.
    plain:
        Run one stage after another, and give each tensor its own bytes.
    start:
        The candidate before tightening; stages whose tensors are spilled later start from it again.
    """

    spilled: frozenset[str] = frozenset()
    limits: tuple[TilingParams, ...] = ()
    avoid_conflicts: bool = True
    in_place: bool = False
    over_inputs: bool | None = None
    results_first: bool = False
    strips: bool = False
    one_by_one: frozenset[int] = frozenset()
    turns: bool = False
    resident: bool = False
    leaving: frozenset[int] = frozenset()
    partly: tuple[tuple[int, int], ...] = ()
    pinned_at: Mapping[tuple[int, int], int] | None = None
    seed: int | None = None
    plain: bool = False
    start: Candidate = ORDINARY_START

    @property
    def keeps_weights(self) -> bool:
        """Whether weights stay on chip between calls; such choices are never tightened."""
        return self.resident or self.pinned_at is not None

    def keeps_chunk(self, stage: int, chunk: int) -> bool:
        """Return whether a chunk of a stage's weights stays on chip between calls, if any do.

        A chunk is the part that one LOAD brings.

        Parameters and tables have negative chunk numbers.
        """
        return stage not in self.leaving and chunk < dict(self.partly).get(stage, chunk + 1)


@dataclass(frozen=True, kw_only=True)
class OutOfScratchpad:
    """Failure to place a buffer of `size` bytes in the scratchpad, for lack of room.

    The tile of slot `slot` needs the buffer; `stage` is its stage, and `kind` says what the buffer
    holds. `joint` are the stages that at this slot hold results of several tiles, to store them
    with one STORE.
    """

    slot: int
    stage: int
    kind: str
    size: int
    joint: frozenset[int] = frozenset()

    @classmethod
    def for_buffer(cls, buffer: "Buffer", slot: int, kind: str) -> "OutOfScratchpad":
        """Return the failure to place a buffer, of the given kind, that a slot's tile needs."""
        return cls(slot=slot, stage=buffer.stage, kind=kind, size=buffer.size)


@dataclass(frozen=True, kw_only=True)
class DoesNotFit:
    """Reason why a segment has no schedule that fits the engine, as a sentence."""

    reason: str


@dataclass
class Plan:
    """The tiles of a segment in order, with their buffers on chip and the LOADs that fill them.

    Members
    -------
    params:
        The choices from which the plan is made.
    order:
        All slots, and their span for each stage.
    tensor_buffers, offsets:
        Buffers of tensors that lie whole on chip, by name, and the first bytes of tensors that
        share a buffer, relative to it.
    tilings:
        The tiling of each stage.
    weights:
        Buffer of the weight chunk of each slot that uses weights.
    param_buffers, tables:
        Buffers of parameters that are loaded separately from weights, and of tables, by stage.
    early_fills:
        Stages whose tables are filled early, by the slot before which that happens.
    input_ranges:
        For each slot and tensor that is read tile by tile, the buffer, and the part that it holds.
    stagings:
        Buffer of the results of each slot that are stored tile by tile.
    loads:
        All LOADs, in order.
    peak:
        End of the highest buffer in the scratchpad.
    """

    params: ScheduleParams
    order: Sequence
    tensor_buffers: dict[str, Buffer]
    tilings: list[Tiling]
    offsets: dict[str, int] = field(default_factory=dict)
    weights: dict[int, Buffer] = field(default_factory=dict)
    param_buffers: dict[int, Buffer] = field(default_factory=dict)
    tables: dict[int, Buffer] = field(default_factory=dict)
    early_fills: dict[int, tuple[int, ...]] = field(default_factory=dict)
    input_ranges: dict[tuple[int, str], tuple[Buffer, InputRange]] = field(default_factory=dict)
    stagings: dict[int, Buffer] = field(default_factory=dict)
    loads: list[Load] = field(default_factory=list)
    peak: int = 0

    @property
    def slots(self) -> list[Slot]:
        """All tiles in program order."""
        return self.order.slots

    def stored_together(self, slot: Slot) -> range:
        """Return the indices of the tiles whose results are stored with those of a slot's tile."""
        tiling = self.tilings[slot.stage]
        if slot.stage in self.order.in_turns:
            return tiling.tiles_of_strip[slot.number]
        if slot.stage in self.params.one_by_one:
            return range(slot.number, slot.number + 1)
        return tiling.stored_together(slot.number)

    def joint_at(self, slot: int) -> frozenset[int]:
        """Return the stages that, at a slot, hold results of several tiles for a common STORE."""
        tiles = Counter(self.stagings.values())
        return frozenset(
            buffer.stage
            for buffer, count in tiles.items()
            if count > 1
            and buffer.first <= slot <= buffer.last
            and buffer.stage not in self.order.in_turns
        )

    def address(self, tensor: str) -> int:
        """Return the address of a tensor on chip."""
        return self.tensor_buffers[tensor].address + self.offsets.get(tensor, 0)

    @property
    def chunk_addresses(self) -> dict[tuple[int, int], int]:
        """Addresses of weights that stay on chip, by stage and chunk (the part of one LOAD)."""
        return {
            (int(load.what[1]), load.what[2]): load.buffer.address
            for load in self.loads
            if load.what[0] == "chunk" and self.params.keeps_chunk(int(load.what[1]), load.what[2])
        }

    @property
    def resident_bytes(self) -> tuple[tuple[int, int], ...]:
        """Address ranges (half open) that hold weights and nothing else."""
        buffers = (load.buffer for load in self.loads if load.buffer.pinned)
        # A buffer may be loaded in parts.
        whole = {(item.address, item.address + item.size) for item in buffers}
        ranges: list[tuple[int, int]] = []
        for start, end in sorted(whole):
            if ranges and ranges[-1][1] == start:
                start, _ = ranges.pop()
            ranges.append((start, end))
        return tuple(ranges)
