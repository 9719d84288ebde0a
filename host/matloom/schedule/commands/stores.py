"""Emits the STOREs of finished results, from tensors on chip and from staging buffers."""

from matloom.arch.isa import Opcode
from matloom.schedule.commands.dependencies import DependencyTracker
from matloom.schedule.plan import Plan
from matloom.schedule.segment import Place, Segment
from matloom.schedule.tiling.sequence import Slot
from matloom.schedule.tiling.tile_reads import StagedResult
from matloom.select.layout.dense import LONGEST_ROW


class Stores:
    """Appends the STOREs that follow tiles; `places` are external addresses of tensors."""

    def __init__(
        self, segment: Segment, plan: Plan, places: dict[str, Place], tracker: DependencyTracker
    ):
        self.segment, self.plan, self.places, self.order = segment, plan, places, tracker
        #: Leading bytes of each result that are stored already.
        self.stored = {name: segment.views.get(name, (0, 0))[0] for name in segment.results}
        #: Leading output blocks of the last rows of each stage that are stored already.
        self.stored_blocks = dict.fromkeys(range(len(segment.stages)), 0)

    def needs_store(self, slot_index: int, slot: Slot) -> bool:
        """Return whether the tile of a slot completes bytes that must go to external memory."""
        stage = self.segment.stages[slot.stage]
        if slot_index in self.plan.stagings:
            last = slot.number + 1 == self.plan.stored_together(slot).stop
            return last and stage.output not in self.plan.order.handed_tensors
        if self._completes_last_blocks(slot):
            return True
        if stage.output not in self.segment.results:
            return False
        return self._complete_end(slot) > self.stored[stage.output]

    def _complete_end(self, slot: Slot) -> int:
        """Return the end of the output bytes that are complete after a tile, and may be stored."""
        end = self.plan.tilings[slot.stage].finished[slot.number]
        view = self.segment.views.get(self.segment.stages[slot.stage].output)
        return end if view is None else min(end, view[1])

    def _completes_last_blocks(self, slot: Slot) -> bool:
        """Return whether a tile completes some channels of the last rows, to store at once.

        That leaves little to store after the last tile. It applies to outputs that lie whole on
        chip.
        """
        name = self.segment.stages[slot.stage].output
        at_home = name in self.segment.results and name in self.plan.tensor_buffers
        whole = name not in self.segment.views
        return at_home and whole and self.plan.tilings[slot.stage].ends_in_blocks(slot.number)

    def append(self, slot_index: int, slot: Slot, timestamp: int) -> None:
        """Emit the STOREs after a tile that needs them; the last one has the timestamp."""
        staging = self.plan.stagings.get(slot_index)
        if staging is not None:
            self._store_staged(slot, staging.address, timestamp)
        elif self._completes_last_blocks(slot):
            self._store_blocks(slot, timestamp)
        else:
            self._store_complete_bytes(slot, timestamp)

    def _place_of(self, name: str) -> Place:
        """Return the external address of a tensor."""
        return self.segment.results.get(name) or self.places[name]

    def _store_complete_bytes(self, slot: Slot, timestamp: int) -> None:
        """Store the complete bytes that have not been stored yet, limb by limb.

        The last STORE gets `timestamp`.
        """
        stage, end = self.segment.stages[slot.stage], self._complete_end(slot)
        start = self.stored[stage.output]
        self.stored[stage.output] = end
        limbs, apart = stage.output_layout.limbs, stage.output_layout.size
        for limb in range(limbs):
            first = start + limb * apart
            address = self.plan.address(stage.output) + first
            last = timestamp if limb + 1 == limbs else 0
            self._store_run(stage.output, first, end + limb * apart, address, last)

    def _store_blocks(self, slot: Slot, timestamp: int) -> None:
        """Store the blocks of channels of a tile's positions that have not been stored yet.

        The last STORE gets `timestamp`.
        """
        name, first = self.segment.stages[slot.stage].output, self.stored_blocks[slot.stage]
        part, self.stored_blocks[slot.stage] = self.plan.tilings[slot.stage].blocks_from(
            slot.number, first
        )
        place, step = self._place_of(name), part.pitch if part.rows > 1 else 0
        fields = {
            "timestamp": timestamp,
            "region": place.region,
            "dram_offset": place.offset + part.start,
            "spad_addr": self.plan.address(name) + part.start,
            "row_bytes": part.width,
            "rows": part.rows,
            "planes": 1,
            "dram_row_step": step,
            "spad_row_step": step,
        }
        self.order.append_fields(Opcode.STORE, fields)

    def _store_run(self, name: str, start: int, end: int, address: int, timestamp: int) -> None:
        """Store bytes `start` to `end` (exclusive) of a tensor; they lie at `address` on chip.

        The last STORE gets `timestamp`.
        """
        place = self._place_of(name)
        for done in range(start, end, LONGEST_ROW):
            size = min(LONGEST_ROW, end - done)
            fields = {
                "timestamp": timestamp if done + size == end else 0,
                "region": place.region,
                "dram_offset": place.offset + done,
                "spad_addr": address + done - start,
                "row_bytes": size,
                "rows": 1,
                "planes": 1,
            }
            self.order.append_fields(Opcode.STORE, fields)

    def _store_staged(self, slot: Slot, address: int, timestamp: int) -> None:
        """Store the results of staged tiles, which share a buffer at an address.

        The last STORE gets `timestamp`.
        """
        name = self.segment.stages[slot.stage].output
        parts = self.plan.tilings[slot.stage].staged_results(self.plan.stored_together(slot))
        for part in parts:
            mark = timestamp if part is parts[-1] else 0
            self._store_part(name, part, address + part.offset, mark)

    def _store_part(self, name: str, part: StagedResult, address: int, timestamp: int) -> None:
        """Store a staged part from an address on chip to its position in the tensor.

        The last STORE gets `timestamp`.
        """
        (start, step, row_step, size, *_), width, height = part.home, part.width, part.height
        joined = size == step
        if joined and width * size == row_step:
            self._store_run(name, start, start + height * row_step, address, timestamp)
            return
        rows, row_bytes = width, size
        if joined:
            rows, row_bytes, step = 1, width * size, 0
        place = self._place_of(name)
        fields = {
            "timestamp": timestamp,
            "region": place.region,
            "dram_offset": place.offset + start,
            "spad_addr": address,
            "row_bytes": row_bytes,
            "rows": rows,
            "planes": height,
            "dram_row_step": step,
            "dram_plane_step": row_step if height > 1 else 0,
            "spad_row_step": size if rows > 1 else 0,
            "spad_plane_step": width * size if height > 1 else 0,
        }
        self.order.append_fields(Opcode.STORE, fields)
