"""STOREs of what tiles finish: results from their homes, and tiles of tensors that have none."""

from matloom.arch.isa import Opcode
from matloom.schedule.dependencies import DependencyTracker
from matloom.schedule.plan import Plan
from matloom.schedule.segment import Place, Segment
from matloom.schedule.sequence import Slot, finished_bytes
from matloom.schedule.tiles import ArrayTile, Tile
from matloom.select.layout.base import Write
from matloom.select.layout.dense import LONGEST_ROW, apart
from matloom.select.stage import ArrayStage, Stage

__all__ = ["Stores"]

#: Bytes of last rows that are stored at once: in parts they would take as long.
_FEW = 64


class Stores:
    """Appends the STOREs after the tiles of a plan; `places` are of tensors in external memory."""

    def __init__(
        self, segment: Segment, plan: Plan, places: dict[str, Place], order: DependencyTracker
    ):
        self.segment, self.plan, self.places, self.order = segment, plan, places, order
        #: Of each result, the leading bytes that are stored.
        self.stored = {name: segment.views.get(name, (0, 0))[0] for name in segment.results}
        self.last_rows = self._last_rows()
        #: Of these rows, the leading output blocks that are stored.
        self.stored_blocks = dict.fromkeys(self.last_rows, 0)

    def _last_rows(self) -> dict[int, ArrayTile]:
        """Return the last tile of each stage that makes its last rows in several tiles of blocks.

        These rows are stored tile by tile, so that after the last one little is left to store.
        The output is a result at home on chip, of positions that lie one after the other.
        """
        found = {}
        for slot in self.plan.slots:
            stage, tile = self.segment.stages[slot.stage], slot.tile
            if not slot.last or not isinstance(tile, ArrayTile):
                continue
            assert isinstance(stage, ArrayStage)
            tensor_buffer = (
                stage.output in self.segment.results and stage.output in self.plan.tensor_buffers
            )
            layout, grid = stage.output_layout, stage.grid
            whole = tile.first_x == 0 and tile.end_x == grid.width
            contiguous = layout.contiguous and layout.limbs == 1
            several = 0 < tile.first_block < tile.end_block == grid.blocks
            many = tile.positions * grid.position_bytes > _FEW
            many &= stage.output not in self.segment.views
            if tensor_buffer and whole and contiguous and several and many:
                found[slot.stage] = tile
        return found

    def needed(self, number: int, slot: Slot) -> bool:
        """Return whether a tick finishes something that is to be stored."""
        stage = self.segment.stages[slot.stage]
        if number in self.plan.stagings or self._apart(slot):
            return True
        if stage.output not in self.segment.results:
            return False
        return self._finished(stage, slot.tile) > self.stored[stage.output]

    def _finished(self, stage: Stage, tile: Tile) -> int:
        """Return the end of the bytes that are complete and to be stored."""
        end = finished_bytes(stage, tile)
        view = self.segment.views.get(stage.output)
        return end if view is None else min(end, view[1])

    def _apart(self, slot: Slot) -> bool:
        """Return whether a tick finishes output blocks of the last rows."""
        tile, last = slot.tile, self.last_rows.get(slot.stage)
        if last is None or not isinstance(tile, ArrayTile) or tile.end_step < last.end_step:
            return False
        rows = (last.image, last.first_row, last.end_row)
        return (tile.image, tile.first_row, tile.end_row) == rows

    def append(self, number: int, slot: Slot, timestamp: int) -> None:
        """Issue the STOREs of a tick that needs them; the last one has the timestamp."""
        stage, tile = self.segment.stages[slot.stage], slot.tile
        staging = self.plan.stagings.get(number)
        if staging is None:
            if isinstance(tile, ArrayTile) and self._apart(slot):
                assert isinstance(stage, ArrayStage)
                self._blocks(stage, tile, self.stored_blocks[slot.stage], timestamp)
                self.stored_blocks[slot.stage] = tile.end_block
            else:
                self._home(stage, tile, timestamp)
        elif isinstance(tile, ArrayTile):
            assert isinstance(stage, ArrayStage)
            self._tile(stage, tile, staging.address, timestamp)
        else:
            self._linear(stage.output, tile.start, tile.end, staging.address, timestamp)

    def _place(self, name: str) -> Place:
        return self.segment.results.get(name) or self.places[name]

    def _home(self, stage: Stage, tile: Tile, timestamp: int) -> None:
        """Store what is complete and not stored yet, limb by limb."""
        end = self._finished(stage, tile)
        start = self.stored[stage.output]
        self.stored[stage.output] = end
        limbs, apart = stage.output_layout.limbs, stage.output_layout.size
        for limb in range(limbs):
            first = start + limb * apart
            address = self.plan.tensor_buffers[stage.output].address + first
            last = timestamp if limb + 1 == limbs else 0
            self._linear(stage.output, first, end + limb * apart, address, last)

    def _blocks(self, stage: ArrayStage, tile: ArrayTile, first: int, timestamp: int) -> None:
        """Store the positions of a tile, of each from output block `first` to the tile's last."""
        start = stage.output_layout.byte(tile.image, tile.first_row, tile.first_x, first)
        size = stage.grid.bytes_in(tile._replace(first_block=first))
        place = self._place(stage.output)
        step = stage.output_layout.strides[0] if tile.positions > 1 else 0
        self.order.append(
            Opcode.STORE,
            timestamp=timestamp,
            region=place.region,
            dram_offset=place.offset + start,
            spad_addr=self.plan.tensor_buffers[stage.output].address + start,
            row_bytes=size,
            rows=tile.positions,
            planes=1,
            dram_row_step=step,
            spad_row_step=step,
        )

    def _linear(self, name: str, start: int, end: int, address: int, timestamp: int) -> None:
        """Store bytes of a tensor that lie one after the other from an address on."""
        place = self._place(name)
        for done in range(start, end, LONGEST_ROW):
            size = min(LONGEST_ROW, end - done)
            self.order.append(
                Opcode.STORE,
                timestamp=timestamp if done + size == end else 0,
                region=place.region,
                dram_offset=place.offset + done,
                spad_addr=address + done - start,
                row_bytes=size,
                rows=1,
                planes=1,
            )

    def _tile(self, stage: ArrayStage, tile: ArrayTile, address: int, timestamp: int) -> None:
        """Store a tile that lies by itself at an address."""
        layout = stage.output_layout
        for home, here in zip(layout.writes(tile), apart(layout, tile), strict=True):
            last = timestamp if home.limb + 1 == layout.limbs else 0
            self._limb(stage, tile, home, address + here.first_byte, last)

    def _limb(
        self, stage: ArrayStage, tile: ArrayTile, home: Write, address: int, timestamp: int
    ) -> None:
        """Store a limb of a tile that lies by itself at an address to its home."""
        width, height = tile.end_x - tile.first_x, tile.height
        start, step, row_step, size = home.first_byte, home.x_step, home.row_step, home.size
        joined = size == step
        if joined and width * size == row_step:
            end = start + height * row_step
            self._linear(stage.output, start, end, address, timestamp)
            return
        rows, row_bytes = width, size
        if joined:
            rows, row_bytes, step = 1, width * size, 0
        place = self._place(stage.output)
        self.order.append(
            Opcode.STORE,
            timestamp=timestamp,
            region=place.region,
            dram_offset=place.offset + start,
            spad_addr=address,
            row_bytes=row_bytes,
            rows=rows,
            planes=height,
            dram_row_step=step,
            dram_plane_step=row_step if height > 1 else 0,
            spad_row_step=size if rows > 1 else 0,
            spad_plane_step=width * size if height > 1 else 0,
        )
