"""Finds which buffers the tiles of a segment need, when, and where they lie."""

import itertools
from bisect import bisect_left, bisect_right
from dataclasses import replace

from matloom.arch.config import Config
from matloom.arch.machine import Machine
from matloom.schedule.allocator import Allocator
from matloom.schedule.params import Weights
from matloom.schedule.placing import place_others
from matloom.schedule.plan import PARAMS, TABLE, Buffer, Load, OutOfScratchpad, Plan, ScheduleParams
from matloom.schedule.segment import Segment
from matloom.schedule.sequence import Sequence, Slot, sequence
from matloom.schedule.tiles import ArrayTile, input_box
from matloom.schedule.tiling import InputRange, Tiling, flat_input_range
from matloom.select.stage import ArrayStage, VectorStage

__all__ = ["make_plan"]

#: Ticks from which on a plan takes so long that it is first checked whether each tile fits alone.
_MANY = 8000

#: Plans that are remembered of a segment, and policies of which it is known why there is none.
_REMEMBERED, _REMEMBERED_FAILURES = 8, 200


def _tensor_buffers_of(
    segment: Segment, policy: ScheduleParams, order: Sequence, config: Config
) -> dict[str, Buffer]:
    """Return a buffer for each tensor on chip.

    Where memory is short, element-wise results share their input's. Otherwise not: the last tile
    would read the bank that the next stage reads at the same time.
    """
    first: dict[str, int] = {}
    first_read: dict[str, int] = {}
    last_read: dict[str, int] = {}
    last: dict[str, int] = {}
    spans = order.spans
    array = [number for number, slot in enumerate(order.slots) if isinstance(slot.tile, ArrayTile)]
    for stage, (begin, end) in zip(segment.stages, spans, strict=True):
        until = _reads_end(order.slots, array, end)
        for name in stage.inputs:
            first_read[name] = min(first_read.get(name, begin), begin)
            last_read[name] = max(last_read.get(name, 0), until)
        for name in (*stage.inputs, stage.output):
            first[name] = min(first.get(name, begin), begin)
            last[name] = max(last.get(name, end), end)
    tensor_buffers: dict[str, Buffer] = {}
    for index, stage in enumerate(segment.stages):
        for name in (*stage.inputs, stage.output):
            if name not in tensor_buffers and name not in policy.spilled:
                tensor_buffers[name] = Buffer(
                    segment.sizes[name],
                    first[name],
                    last[name],
                    index,
                    first_read=first_read.get(name, last[name]),
                    last_read=last_read.get(name, last[name]),
                    boundary=config.weight_boundary if name in segment.on_chip else 1,
                )
        if isinstance(stage, VectorStage) and stage.output in tensor_buffers and policy.in_place:
            _reuse_in_place(segment, tensor_buffers, spans, index)
    return tensor_buffers


def _reads_end(slots: list[Slot], array: list[int], number: int) -> int:
    """Return the tick that ends the reads of one: element-wise tiles after others queue.

    `array` are the ticks of the others.
    """
    place = bisect_left(array, number)
    if not place or isinstance(slots[number].tile, ArrayTile):
        return number
    return (array[place] if place < len(array) else len(slots)) - 1


def _reuse_in_place(
    segment: Segment, tensor_buffers: dict[str, Buffer], spans: list[tuple[int, int]], index: int
) -> None:
    """Let an element-wise stage write over an input that nobody reads afterwards."""
    stage, (begin, _end) = segment.stages[index], spans[index]
    assert isinstance(stage, VectorStage)
    for name in stage.inputs:
        whole = segment.sizes[name] == stage.size * stage.input_ratio
        if name not in tensor_buffers or not whole or name in segment.results:
            continue
        readers = (
            spans[number][1]
            for number, other in enumerate(segment.stages)
            if number != index
            and any(tensor_buffers.get(at) is tensor_buffers[name] for at in other.inputs)
        )
        if max(readers, default=-1) < begin and stage.inputs.count(name) == 1:
            tensor_buffer, result = tensor_buffers[name], tensor_buffers[stage.output]
            tensor_buffer.last = max(tensor_buffer.last, result.last)
            tensor_buffer.last_read = max(_reads(tensor_buffer)[1], _reads(result)[1])
            tensor_buffers[stage.output] = tensor_buffer
            return


class _Builder:
    """Collects the buffers and LOADs of a plan, tick by tick."""

    def __init__(self, segment: Segment, plan: Plan, config: Config):
        self.segment, self.plan, self.config = segment, plan, config
        self.transient: list[tuple[str, Buffer]] = []
        self._chunk: dict[tuple[int, int], Buffer] = {}
        self._latest: dict[int, int] = {}
        self._input_range: dict[str, tuple[int, InputRange, Buffer]] = {}
        self._loaded = dict.fromkeys(segment.sources, 0)
        self._prologue_loaded: dict[tuple[str, int], int] = {}
        self._arrived: dict[tuple[int, int], int] = {}

    def add(self, number: int, slot: Slot) -> None:
        """Note what a tick needs."""
        stage, tile = self.segment.stages[slot.stage], slot.tile
        cut = self.plan.tilings[slot.stage]
        input_range, complete = cut.input_ranges[slot.number], True
        if isinstance(tile, ArrayTile):
            assert isinstance(stage, ArrayStage)
            self._add_weights(number, slot.stage, stage, tile)
            complete = tile.end_step == stage.loop_nest.steps
        if stage.table is not None and complete:
            size_bytes = stage.table.nbytes
            self.plan.tables[slot.stage] = self._constants(number, slot.stage, TABLE, size_bytes)
        repeated: set[str] = set()
        if isinstance(stage, VectorStage):
            repeated = {stage.inputs[at] for at in stage.repeated}
        for name in dict.fromkeys(stage.inputs):
            if name in repeated:
                assert isinstance(stage, VectorStage)
                self._add_input(number, slot.stage, name, flat_input_range(stage, 0, stage.period))
            elif (
                isinstance(tile, ArrayTile)
                and tile.prologue_sums
                and name in self.plan.tensor_buffers
            ):
                assert isinstance(stage, ArrayStage)
                self._add_prologue(number, name, stage, tile)
            else:
                self._add_input(number, slot.stage, name, input_range)
        if stage.output in self.plan.policy.spilled and complete:
            staging = Buffer(cut.made_bytes[slot.number], number, number + 1, slot.stage)
            self.plan.stagings[number] = staging
            self.transient.append(("output tile", staging))

    def _add_weights(self, number: int, index: int, stage: ArrayStage, tile: ArrayTile) -> None:
        limits = self.plan.policy.limits[index]
        again = limits.weights is Weights.STREAMED and self._latest.get(index) != tile.chunk
        self._latest[index] = tile.chunk
        size = self.plan.tilings[index].chunk_bytes[tile.chunk]
        part = size
        if tile.prologue_sums and tile.end_step < stage.loop_nest.steps:
            part = (tile.end_step - tile.first_step) * self.config.tile_bytes * tile.end_block
        buffer = self._constants(number, index, tile.chunk, size, again=again, part=part)
        self.plan.weights[number] = buffer
        if limits.params_apart and tile.end_step == stage.loop_nest.steps:
            self.plan.params[index] = self._constants(number, index, PARAMS, stage.params.nbytes)

    def _constants(
        self,
        number: int,
        index: int,
        chunk: int,
        size: int,
        *,
        again: bool = False,
        part: int | None = None,
    ) -> Buffer:
        """Return the buffer of a chunk, which is loaded the first time, and when asked to.

        Of a `part` of its bytes the others are loaded when they are needed.
        """
        key = (index, chunk)
        policy = self.plan.policy
        if again or key not in self._chunk:
            buffer = Buffer(size, number, number, index, high=chunk >= 0, first_read=number)
            buffer.boundary = self.config.weight_boundary if chunk >= 0 else 1
            buffer.pinned = policy.resident or policy.pinned_at is not None
            self._chunk[key] = buffer
            self.transient.append(("weights", buffer))
            self._arrived[key] = 0
            if policy.pinned_at is not None:
                buffer.address = policy.pinned_at[key]
        done, wanted = self._arrived[key], size if part is None else part
        if policy.pinned_at is None and done < wanted:
            load = Load(self._chunk[key], ("chunk", index, chunk), done, wanted - done, number)
            self.plan.loads.append(load)
            self._arrived[key] = wanted
        self._chunk[key].last = number
        return self._chunk[key]

    def close(self) -> None:
        """Keep the buffers of an opening apart, so that no LOAD in it waits for an EXEC."""
        slots = [
            number
            for number, slot in enumerate(self.plan.slots)
            if isinstance(slot.tile, ArrayTile) and slot.tile.prologue_sums
        ]
        for buffer in {id(item): item for item in map(self.plan.weights.get, slots)}.values():
            assert buffer is not None
            buffer.last = max(buffer.last, slots[-1])

    def _add_prologue(self, number: int, name: str, stage: ArrayStage, tile: ArrayTile) -> None:
        """Bring the bytes of a tile's rows that its slab adds to those of the slabs before."""
        done = self._prologue_loaded.get((name, tile.first_step), 0)
        if name not in self._loaded or tile.end_row <= done:
            return
        self._prologue_loaded[name, tile.first_step] = tile.end_row
        box = input_box(stage, replace(tile, first_row=done), self.config)
        width = stage.in_row_bytes
        start = box.low * width + box.left
        load = Load(
            self.plan.tensor_buffers[name],
            ("tensor", name, start),
            start,
            box.right - box.left,
            number,
            rows=box.high - box.low,
            row_step=width,
            apart=True,
        )
        self.plan.loads.append(load)
        if tile.end_step == stage.loop_nest.steps:
            self._loaded[name] = box.high * width

    def _add_input(self, number: int, index: int, name: str, input_range: InputRange) -> None:
        if name in self.plan.tensor_buffers:
            done = self._loaded.get(name)
            if done is not None and done < input_range.end:
                what = ("tensor", name, done)
                tensor_buffer = self.plan.tensor_buffers[name]
                self.plan.loads.append(
                    Load(tensor_buffer, what, done, input_range.end - done, number)
                )
                self._loaded[name] = input_range.end
            return
        known = self._input_range.get(name)
        if known is None or known[:2] != (index, input_range):
            buffer = Buffer(input_range.size, number, number, index)
            self._input_range[name] = known = (index, input_range, buffer)
            self.transient.append(("input tile", buffer))
            what = ("tensor", name, input_range.start)
            load = Load(
                buffer,
                what,
                0,
                input_range.width,
                number,
                rows=input_range.rows,
                row_step=input_range.pitch,
            )
            self.plan.loads.append(load)
        known[2].last = number
        self.plan.input_ranges[number, name] = (known[2], input_range)


def _time_loads(segment: Segment, plan: Plan, config: Config) -> None:
    """Choose the tick before which each LOAD is issued: early enough, no earlier than needed.

    A LOAD in a full queue blocks everything behind it, so none is issued before the one a queue
    ahead of it has begun. A LOAD of a tensor must follow the STORE of its bytes.
    """
    machine = segment.machine
    cycles = [plan.tilings[slot.stage].cycles[slot.number] for slot in plan.slots]
    times = [0, *itertools.accumulate(cycles)]
    begin = float(times[-1])
    for load in reversed(plan.loads):
        begin = min(times[load.use] - machine.margin, begin) - _load_cycles(load, machine)
        load.slot = min(max(0, bisect_right(times, begin) - 1), load.use)
    _follow_stores(segment, plan)
    ready = [0.0] * len(plan.slots)
    begun: list[float] = []
    free, now, loads = 0.0, 0.0, plan.loads
    for number in range(len(plan.slots)):
        now = max(now, ready[number])
        while len(begun) < len(loads):
            load = loads[len(begun)]
            ahead = begun[-config.queue_depth] if len(begun) >= config.queue_depth else 0.0
            if load.use > number and (load.slot > number or ahead > now):
                break
            begun.append(max(now, free))
            free = begun[-1] + machine.transfer_cycles(load.rows * load.size)
            load.slot = number
            ready[load.use] = free + machine.issue_latency
            now = max(now, ready[number])
        now += cycles[number]


def _load_cycles(load: Load, machine: Machine) -> float:
    return machine.transfer_cycles(load.rows * load.size) + machine.issue_latency


def _follow_stores(segment: Segment, plan: Plan) -> None:
    """Move LOADs behind the ticks that make their bytes, and keep them in order."""
    written: dict[str, list[int]] = {}
    for number, slot in enumerate(plan.slots):
        written.setdefault(segment.stages[slot.stage].output, []).append(number)
    earliest = 0
    for load in plan.loads:
        if load.what[0] == "tensor" and load.what[1] in written:
            producers = written[str(load.what[1])]
            last = bisect_left(producers, load.use) - 1
            earliest = max(earliest, producers[last] + 1) if last >= 0 else earliest
        load.slot = earliest = min(max(load.slot, earliest), load.use)


def _reads(buffer: Buffer) -> tuple[int, int]:
    first = buffer.first if buffer.first_read is None else buffer.first_read
    return first, buffer.last if buffer.last_read is None else buffer.last_read


def _place_tensors(plan: Plan, space: Allocator) -> list[OutOfScratchpad]:
    """Give tensors addresses, the largest first; return the first that there is no room for."""
    distinct = {id(tensor_buffer): tensor_buffer for tensor_buffer in plan.tensor_buffers.values()}
    for buffer in sorted(distinct.values(), key=lambda item: (-item.size, item.first)):
        address = space.place(
            buffer.size,
            buffer.first,
            buffer.last,
            high=False,
            reads=_reads(buffer),
            boundary=buffer.boundary,
        )
        if address is None:
            return [OutOfScratchpad.of(buffer, buffer.first, "tensor")]
        buffer.address = address
    return []


def _place_pinned(plan: Plan, builder: _Builder, space: Allocator) -> OutOfScratchpad | None:
    """Give weights that stay an address of their own, or leave them where they are already."""
    last = len(plan.slots) - 1
    for _kind, buffer in builder.transient:
        if buffer.pinned and plan.policy.pinned_at is None:
            address = space.place(
                buffer.size, 0, last, high=True, reads=_reads(buffer), boundary=buffer.boundary
            )
            if address is None:
                return OutOfScratchpad.of(buffer, buffer.first, "weights")
            buffer.address = address
    return None


def _reserve(plan: Plan, builder: _Builder, space: Allocator) -> None:
    """Leave weights that are on chip already where they are."""
    last = len(plan.slots) - 1
    for _kind, buffer in builder.transient:
        if buffer.pinned:
            space.reserve(buffer.address, buffer.size, 0, last, high=True, reads=_reads(buffer))


def _early(segment: Segment, plan: Plan) -> bool:
    """Return whether tensors can be placed before it is known when LOADs bring them."""
    brought = [
        tensor_buffer
        for name, tensor_buffer in plan.tensor_buffers.items()
        if name in segment.sources
    ]
    return plan.policy.pinned_at is None and all(
        tensor_buffer.first == 0 for tensor_buffer in brought
    )


def _too_large(segment: Segment, plan: Plan, config: Config) -> list[OutOfScratchpad]:
    """Return the stages with a tile whose buffers alone do not fit with the tensors on chip."""
    spans, kinds = plan.order.spans, ("weights", "input tile", "output tile")
    tensor_buffers = list({id(item): item for item in plan.tensor_buffers.values()}.values())
    failures = []
    for index, (stage, (begin, end)) in enumerate(zip(segment.stages, spans, strict=True)):
        repeated = {stage.inputs[at] for at in getattr(stage, "repeated", ())}
        apart = len(set(stage.inputs) - plan.tensor_buffers.keys() - repeated)
        staged = stage.output in plan.policy.spilled
        beside = sum(
            tensor_buffer.size
            for tensor_buffer in tensor_buffers
            if tensor_buffer.first <= begin and end <= tensor_buffer.last
        )
        needs = plan.tilings[index].most_bytes(apart, staged=staged)
        for kind, size in zip(kinds, needs, strict=True):
            if beside + size > config.spad_bytes:
                failures.append(OutOfScratchpad(slot=begin, stage=index, kind=kind, size=size))
                break
    return failures


def make_plan(
    segment: Segment, policy: ScheduleParams, config: Config
) -> Plan | tuple[OutOfScratchpad, ...]:
    """Return the plan of a segment under a policy, or why there is none: one reason a stage.

    Choices that make no difference, which a search often tries where memory is short, have the
    same plan.
    """
    cuts = [
        segment.tilings.of(
            stage, limits, config, None if policy.seed is None else policy.seed + index
        )
        for index, (stage, limits) in enumerate(zip(segment.stages, policy.limits, strict=True))
    ]
    # What a policy says of tiles is in the tilings; addresses of weights are large, and used once.
    key = (tuple(cuts), replace(policy, limits=(), pinned_at=None))
    if policy.pinned_at is not None:
        return _planned(segment, policy, config, cuts)
    found = segment.plans.get(key) or segment.failures.get(key)
    if found is None:
        found = _planned(segment, policy, config, cuts)
        if isinstance(found, Plan):
            _remember(segment.plans, key, found, _REMEMBERED)
        else:
            _remember(segment.failures, key, found, _REMEMBERED_FAILURES)
    assert isinstance(found, Plan | tuple)
    return found


def _remember(known: dict[object, object], key: object, found: object, most: int) -> None:
    """Add to what is known, and forget the oldest of too many."""
    while len(known) >= most:
        del known[next(iter(known))]
    known[key] = found


def _planned(
    segment: Segment, policy: ScheduleParams, config: Config, cuts: list[Tiling]
) -> Plan | tuple[OutOfScratchpad, ...]:
    """Return the plan of tilings."""
    order = sequence(segment, cuts, policy.spilled, interleaved=not policy.plain)
    plan = Plan(policy, order, _tensor_buffers_of(segment, policy, order, config), cuts)
    seed = policy.seed if policy.avoid_conflicts else None
    space = Allocator(config.spad_bytes, config, avoid_conflicts=policy.avoid_conflicts, seed=seed)
    early = _early(segment, plan)
    if early:
        failures = _place_tensors(plan, space)
        if not failures and len(order.slots) > _MANY:
            failures = _too_large(segment, plan, config)
        if failures:
            return tuple(failures)
    builder = _Builder(segment, plan, config)
    for number, slot in enumerate(order.slots):
        builder.add(number, slot)
    builder.close()
    _time_loads(segment, plan, config)
    for load in plan.loads:
        load.buffer.first = min(load.buffer.first, load.slot)
    if not early:
        if policy.pinned_at is not None:
            _reserve(plan, builder, space)
        failures = _place_tensors(plan, space)
        if failures:
            return tuple(failures)
    full = _place_pinned(plan, builder, space)
    if full is not None:
        return (full,)
    failures = place_others(segment, plan, builder.transient, space)
    plan.loads.sort(key=lambda load: load.slot)
    return tuple(failures) or plan
