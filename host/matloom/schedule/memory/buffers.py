"""Finds the buffers that the tiles of a segment need, their live ranges, and their LOADs."""

from bisect import bisect_left
from collections import deque

from matloom.arch.config import Config
from matloom.schedule import tuning
from matloom.schedule.memory.early_fills import early_fills
from matloom.schedule.memory.ranges import Held, RangesOnChip
from matloom.schedule.memory.sharing import share_buffers
from matloom.schedule.params import WeightsLifetime
from matloom.schedule.plan import PARAMS, TABLE, Buffer, Load, Plan, ScheduleParams
from matloom.schedule.segment import Segment
from matloom.schedule.tiling.sequence import Sequence, Slot
from matloom.schedule.tiling.stages import Tiling
from matloom.schedule.tiling.tile_reads import InputRange, Panel
from matloom.schedule.tiling.tiles import VectorTile


def tensor_buffers_of(
    segment: Segment, params: ScheduleParams, sequence: Sequence, tilings: list[Tiling]
) -> tuple[dict[str, Buffer], dict[str, int]]:
    """Return a buffer for each tensor on chip, and the offsets of tensors that share one.

    If memory is short, element-wise results share the buffer of their input (`in_place`). Otherwise
    they do not, because the last tile would read the same bank as the next stage. If memory is
    still short, results of other stages share the buffer of an input, too (`over_inputs`).
    """
    config = segment.config
    first: dict[str, int] = {}
    first_read: dict[str, int] = {}
    last_read: dict[str, int] = {}
    last: dict[str, int] = {}
    spans = sequence.spans
    array = [
        number
        for number, slot in enumerate(sequence.slots)
        if not segment.stages[slot.stage].is_elementwise
    ]
    for stage, (begin, end) in zip(segment.stages, spans, strict=True):
        until = _last_read_slot(len(sequence.slots), array, end)
        for name in stage.inputs:
            first_read[name] = min(first_read.get(name, begin), begin)
            last_read[name] = max(last_read.get(name, 0), until)
        for name in (*stage.inputs, stage.output):
            first[name] = min(first.get(name, begin), begin)
            last[name] = max(last.get(name, end), end)
    tensor_buffers: dict[str, Buffer] = {}
    for index, stage in enumerate(segment.stages):
        for name in (*stage.inputs, stage.output):
            if name not in tensor_buffers and name not in params.spilled:
                tensor_buffers[name] = Buffer(
                    segment.sizes[name],
                    first[name],
                    last[name],
                    index,
                    first_read=first_read.get(name, last[name]),
                    last_read=last_read.get(name, last[name]),
                    boundary=config.weight_boundary if name in segment.on_chip else 1,
                )
    return tensor_buffers, share_buffers(segment, params, sequence, tilings, tensor_buffers)


def _last_read_slot(slots: int, array: list[int], slot_index: int) -> int:
    """Return the last slot in which reads of the tile of a slot may still be in progress.

    A slot is a place in the order of tiles. An array tile reads only during its own slot. An
    element-wise tile may queue behind an earlier array tile, so its reads may last until the next
    array tile starts. `array` lists the slots of array tiles in ascending order; `slots` is the
    number of all slots.
    """
    place = bisect_left(array, slot_index)
    following = array[place] if place < len(array) else slots
    return slot_index if not place or following == slot_index else following - 1


class Builder:
    """Collects the buffers and LOADs of a plan, one tile after another."""

    def __init__(self, segment: Segment, plan: Plan, config: Config):
        self.segment, self.plan, self.config = segment, plan, config
        # Stored because it is looked up for every slot of every plan.
        self._tilings, self._tensor_buffers = plan.tilings, plan.tensor_buffers
        self.transient: list[tuple[str, Buffer]] = []
        self._chunk: dict[tuple[int, int], Buffer] = {}
        self._latest: dict[int, int] = {}
        self._ranges = RangesOnChip(plan.order.in_turns)
        #: Buffers of results, by stage and first of the tiles that share a buffer.
        self._staged: dict[tuple[int, int], Buffer] = {}
        self._loaded = dict.fromkeys(segment.sources, 0)
        self._prologue_loaded: dict[tuple[str, int], int] = {}
        self._arrived: dict[tuple[int, int], int] = {}
        #: The latest slots of each stage for which a LOAD brings a part of an input.
        self._begins: dict[int, deque[int]] = {}
        plan.early_fills = early_fills(segment, plan)

    def add(self, slot_index: int, slot: Slot) -> None:
        """Record the buffers and LOADs that the tile of a slot (place in the order) needs."""
        index, tile = slot.stage, slot.number
        stage, cut = self.segment.stages[index], self._tilings[index]
        for early in self.plan.early_fills.get(slot_index, ()):
            self._add_table(slot_index, early)
        self._add_weights(slot_index, slot)
        complete = cut.completes[tile]
        if complete:
            self._add_table(slot_index, index)
        panel = cut.panels[tile]
        for name, input_range in cut.reads(tile):
            if panel is not None and name != stage.addend and name in self._tensor_buffers:
                self._load_panel(slot_index, name, slot, panel)
            else:
                self._add_input(slot_index, slot, name, input_range)
        if complete and stage.output in self.plan.params.spilled:
            self._add_output(slot_index, slot, stage.addend)

    def _add_table(self, slot_index: int, index: int) -> None:
        """Record a buffer for the lookup table of stage `index`, if any, in use at a slot."""
        stage = self.segment.stages[index]
        if stage.table is not None:
            size = stage.table.nbytes + len(stage.missing)
            self.plan.tables[index] = self._chunk_buffer(slot_index, index, TABLE, size)

    def _add_output(self, slot_index: int, slot: Slot, addend: str | None) -> None:
        """Record the buffer of results that are stored in external memory tile by tile."""
        cut, together = self._tilings[slot.stage], self.plan.stored_together(slot)
        held = self.plan.input_ranges.get((slot_index, addend)) if addend is not None else None
        if held is not None and held[1].size == cut.output_bytes[slot.number]:
            # The results overwrite their addend, which has the same layout.
            self.plan.stagings[slot_index] = held[0]
            self.plan.stagings[slot_index].last = slot_index + 1
            return
        key = slot.stage, together.start
        if key in self._staged:
            self.plan.stagings[slot_index] = staging = self._staged[key]
            staging.last = slot_index + 1
            return
        output_bytes = sum(cut.output_bytes[tile] for tile in together if cut.completes[tile])
        staging = Buffer(output_bytes, slot_index, slot_index + 1, slot.stage)
        self.plan.stagings[slot_index] = self._staged[key] = staging
        name = self.segment.stages[slot.stage].output
        if name in self.plan.order.handed_tensors:
            start = self._first_written_byte(slot, output_bytes)
            made = InputRange(start=start, rows=1, width=output_bytes, pitch=0)
            self._ranges.hand_over(name, made, staging)
        self.transient.append(("output tile", staging))

    def _first_written_byte(self, slot: Slot, size: int) -> int:
        """Return the first output byte in the buffer that a tile hands over to the next stage.

        It is the first byte of the tile or, if stages take turns, of its strip of rows.
        """
        cut = self._tilings[slot.stage]
        if slot.stage in self.plan.order.in_turns:
            return cut.strip_start_byte(slot.number)
        return cut.flat_ends[slot.number] - size

    def _add_weights(self, slot_index: int, slot: Slot) -> None:
        """Record the weights that a tile uses, and its parameters if they are separate."""
        index, cut = slot.stage, self._tilings[slot.stage]
        chunk = cut.used_chunks[slot.number]
        if chunk is None:
            return
        limits = self.plan.params.limits[index]
        again = limits.weights is WeightsLifetime.STREAMED and self._latest.get(index) != chunk
        self._latest[index] = chunk
        size, part = cut.chunk_bytes[chunk], cut.first_weight_bytes(slot.number)
        buffer = self._chunk_buffer(slot_index, index, chunk, size, again=again, part=part)
        self.plan.weights[slot_index] = buffer
        if limits.params_apart and cut.completes[slot.number]:
            self.plan.param_buffers[index] = self._chunk_buffer(
                slot_index, index, PARAMS, cut.param_bytes
            )

    def _is_placed_apart(self, index: int) -> bool:
        """Return whether the table of a stage is placed near weights, far from feature maps.

        POST reads a table in every cycle, unless there is one for each lane, and would wait for an
        EXEC that reads the same bank. If maps are in external memory, their tiles get all the
        space.
        """
        table = self.segment.stages[index].table
        return table is not None and table.ndim == 1 and not self.plan.params.spilled

    def _chunk_buffer(
        self,
        slot_index: int,
        index: int,
        chunk: int,
        size: int,
        *,
        again: bool = False,
        part: int | None = None,
    ) -> Buffer:
        """Return the buffer of a weight chunk (from one LOAD); add the LOAD when it is used first.

        With `again`, the chunk gets a new buffer and another LOAD. If only the first `part` bytes
        are needed now, the others are loaded later.
        """
        key = (index, chunk)
        params, held = self.plan.params, self._chunk.get(key)
        if again or held is None:
            high = chunk >= 0 or (chunk == TABLE and self._is_placed_apart(index))
            held = buffer = Buffer(
                size, slot_index, slot_index, index, high=high, first_read=slot_index
            )
            buffer.boundary = self.config.weight_boundary if chunk >= 0 else 1
            buffer.pinned = params.keeps_weights and params.keeps_chunk(index, chunk)
            self._chunk[key] = buffer
            self.transient.append(("weights", buffer))
            self._arrived[key] = 0
            if buffer.pinned and params.pinned_at is not None:
                buffer.address = params.pinned_at[key]
        done, wanted = self._arrived[key], size if part is None else part
        if (params.pinned_at is None or not held.pinned) and done < wanted:
            load = Load(held, ("chunk", index, chunk), done, wanted - done, slot_index)
            self.plan.loads.append(load)
            self._arrived[key] = wanted
        held.last = slot_index
        return held

    def close(self) -> None:
        """Finish the plan: keep the weights of the first tiles (prologue) until the last of them.

        So no LOAD of the prologue has to wait for an EXEC that uses the same bytes.
        """
        slots = [number for number, slot in enumerate(self.plan.slots) if slot.tile.prologue_sums]
        for buffer in {id(item): item for item in map(self.plan.weights.get, slots)}.values():
            assert buffer is not None
            buffer.last = max(buffer.last, slots[-1])

    def _load_panel(self, slot_index: int, name: str, slot: Slot, panel: Panel) -> None:
        """Add a LOAD for the rows of a panel (a part of the reduction) that are not yet on chip."""
        cut = self.plan.tilings[slot.stage]
        done = self._prologue_loaded.get((name, panel.first_step), 0)
        if name not in self._loaded or panel.end_row <= done:
            return
        self._prologue_loaded[name, panel.first_step] = panel.end_row
        part = cut.panel_rows(slot.number, done)
        load = Load(
            self.plan.tensor_buffers[name],
            ("tensor", name, part.start),
            part.start,
            part.width,
            slot_index,
            rows=part.rows,
            row_step=part.pitch,
            apart=True,
        )
        self.plan.loads.append(load)
        if cut.completes[slot.number]:
            self._loaded[name] = (part.start // part.pitch + part.rows) * part.pitch

    def _add_input(self, slot_index: int, slot: Slot, name: str, input_range: InputRange) -> None:
        """Record the part of a tensor that a tile reads, and a LOAD unless it is on chip."""
        index = slot.stage
        home = self._tensor_buffers.get(name)
        if home is not None:
            done = self._loaded.get(name)
            if done is not None and done < input_range.end:
                what = ("tensor", name, done)
                self.plan.loads.append(Load(home, what, done, input_range.end - done, slot_index))
                self._loaded[name] = input_range.end
            return
        held = self._ranges.find(index, name, input_range)
        held = held or self._load_range(slot_index, slot, name, input_range)
        held[0].last = max(held[0].last, slot_index)
        self.plan.input_ranges[slot_index, name] = held

    def _load_range(self, slot_index: int, slot: Slot, name: str, part: InputRange) -> Held:
        """Add a buffer and a LOAD for a part of a tensor, for all tiles of a stage that read it.

        Return the buffer and the part.
        """
        buffer = Buffer(part.size, slot_index, slot_index, slot.stage)
        self.transient.append(("input tile", buffer))
        load = Load(
            buffer,
            ("tensor", name, part.start),
            0,
            part.width,
            slot_index,
            rows=part.rows,
            row_step=part.pitch,
            earliest=self._earliest_load_slot(slot_index, slot),
        )
        self.plan.loads.append(load)
        return self._ranges.load(slot.stage, name, part, buffer)

    def _earliest_load_slot(self, slot_index: int, slot: Slot) -> int:
        """Return the earliest place in the order of tiles before which a LOAD for a tile may come.

        Only a few parts of an input may be on chip for array tiles, because more would take space
        from the results. LOADs for element-wise tiles have no such limit; the result is 0.
        """
        if isinstance(slot.tile, VectorTile):
            return 0
        ahead = tuning.PARTS_AHEAD if slot.tile.strip is None else tuning.STRIPS_AHEAD
        begins = self._begins.setdefault(slot.stage, deque([0], maxlen=tuning.PARTS_AHEAD + 1))
        begins.append(slot_index)
        return begins[-1 - ahead] if len(begins) > ahead else 0
