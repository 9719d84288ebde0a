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
    """Bytes in the scratchpad that are live from slot `first` to slot `last`, inclusive.

    The address is a multiple of `boundary`.
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
        """First and last slot at which it is read; its whole life if unknown."""
        first = self.first if self.first_read is None else self.first_read
        return first, self.last if self.last_read is None else self.last_read

    def overlaps(self, other: "Buffer") -> bool:
        """Return whether the addresses of two placed buffers overlap."""
        ends = self.address + self.size, other.address + other.size
        return self.address < ends[1] and other.address < ends[0]


@dataclass(eq=False, slots=True)
class Load:
    """A transfer into `buffer`, needed at slot `use` and issued before slot `slot`.

    `what` names the source: ``("tensor", name, first byte)`` or ``("chunk", stage, chunk)``.
    It copies `rows` rows of `size` bytes, `row_step` bytes apart at the source. In the scratchpad
    the rows have the same distance if they lie `apart`, else they are contiguous. It is not issued
    before slot `earliest`.
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
        """Return the bytes from `start` on, and where they go in the scratchpad."""
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
        """End of the bytes that it loads from its source."""
        return self.what[2] + (self.rows - 1) * self.row_step + self.size


@dataclass(frozen=True, kw_only=True)
class ScheduleParams:
    """Choices behind a plan: tensors kept in external memory, and limits by stage.

    `avoid_conflicts` puts buffers that are read at the same time into different banks; `in_place`
    lets element-wise results overwrite their input, `over_inputs` those of other stages an input of
    the same size: always, never, or (None) if tensors do not fit otherwise. `results_first`
    places results that are stored tile by tile before buffers filled by LOADs, which may arrive
    later. `strips` lets tiles share rows of tensors in external memory (`tiling.sizes`). The stages
    in `one_by_one` store the results of each tile by themselves. `turns` lets a depthwise layer and
    the one that reads its results make some rows in turn (`choices.turns`). `resident` gives all
    weights addresses that nothing else uses, except for the stages in `leaving`, whose weights each
    call loads; for a stage in `partly`, only that many first chunks stay. `pinned_at` holds the
    addresses, by stage and chunk, of weights that are on chip before the segment starts and must be
    intact when it ends; None if there are none. `plain` runs one stage after another and gives each
    tensor its own bytes.
    `start` is the choices before tightening, to which some stages are reset when others are
    tightened.
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
        """Whether weights stay on chip between calls: then nothing is tightened."""
        return self.resident or self.pinned_at is not None

    def stays(self, stage: int, chunk: int) -> bool:
        """Return whether a chunk of weights stays on chip, if weights stay at all.

        Parameters and tables count as chunks below zero.
        """
        return stage not in self.leaving and chunk < dict(self.partly).get(stage, chunk + 1)


@dataclass(frozen=True, kw_only=True)
class OutOfScratchpad:
    """Failure to place a buffer: its kind, stage, slot and bytes.

    `joint` are the stages that hold results of several tiles at that slot, to store them together.
    """

    slot: int
    stage: int
    kind: str
    size: int
    joint: frozenset[int] = frozenset()

    @classmethod
    def of(cls, buffer: "Buffer", slot: int, kind: str) -> "OutOfScratchpad":
        """Return the failure to place this buffer."""
        return cls(slot=slot, stage=buffer.stage, kind=kind, size=buffer.size)


@dataclass(frozen=True, kw_only=True)
class DoesNotFit:
    """Reason why there is no schedule, as a sentence for people."""

    reason: str


@dataclass
class Plan:
    """Slots, the tiling of each stage, and for each slot its buffers and the LOADs before it.

    `offsets` says where tensors begin in buffers that they share. `params` holds the parameters of
    stages that load them separately from weights, `tables` the tables of stages that have one,
    `early_fills` by slot the stage whose table is filled before it.
    """

    policy: ScheduleParams
    order: Sequence
    tensor_buffers: dict[str, Buffer]
    tilings: list[Tiling]
    offsets: dict[str, int] = field(default_factory=dict)
    weights: dict[int, Buffer] = field(default_factory=dict)
    params: dict[int, Buffer] = field(default_factory=dict)
    tables: dict[int, Buffer] = field(default_factory=dict)
    early_fills: dict[int, int] = field(default_factory=dict)
    input_ranges: dict[tuple[int, str], tuple[Buffer, InputRange]] = field(default_factory=dict)
    stagings: dict[int, Buffer] = field(default_factory=dict)
    loads: list[Load] = field(default_factory=list)
    peak: int = 0

    @property
    def slots(self) -> list[Slot]:
        """All tiles in program order."""
        return self.order.slots

    def stored_together(self, slot: Slot) -> range:
        """Return the tiles of a stage whose results share the staging buffer of a slot."""
        tiling = self.tilings[slot.stage]
        if slot.stage in self.order.in_turns:
            return tiling.turns[slot.number]
        if slot.stage in self.policy.one_by_one:
            return range(slot.number, slot.number + 1)
        return tiling.stored_together(slot.number)

    def joint_at(self, slot: int) -> frozenset[int]:
        """Return the stages that hold results of several tiles at a slot."""
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
        """Addresses of weights by stage and chunk, for chunks that are loaded once."""
        return {
            (int(load.what[1]), load.what[2]): load.buffer.address
            for load in self.loads
            if load.what[0] == "chunk" and self.policy.stays(int(load.what[1]), load.what[2])
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
