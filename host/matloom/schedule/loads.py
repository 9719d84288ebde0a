"""LOADs of what a plan brings on chip: tensors, weights, parameters and tables."""

from matloom.arch.isa import Opcode, Region
from matloom.schedule.dependencies import DependencyTracker
from matloom.schedule.plan import Load
from matloom.schedule.segment import Place, Segment
from matloom.schedule.stores import LONGEST_ROW
from matloom.select.fold_rows import folded_loads
from matloom.select.row_folding import RowFolding
from matloom.select.stage import ArrayStage

__all__ = ["LoadCommands"]


class LoadCommands:
    """Appends LOADs; DRAM places of tensors and chunks are given."""

    def __init__(
        self,
        segment: Segment,
        places: dict[str, Place],
        chunk_offsets: dict[tuple[int, int], int],
        order: DependencyTracker,
    ):
        self._places, self._chunk_offsets, self._order = places, chunk_offsets, order
        self._interleaved = {
            stage.inputs[0]: stage.row_folding
            for stage in segment.stages
            if isinstance(stage, ArrayStage) and stage.row_folding is not None
        }

    def append(self, load: Load) -> None:
        """Issue the LOADs of a transfer, cut where a row is too long."""
        if load.what[0] == "chunk":
            place = Place(
                region=Region.PROGRAM, offset=self._chunk_offsets[int(load.what[1]), load.what[2]]
            )
            start = place.offset + load.offset
        else:
            name = str(load.what[1])
            place = self._places[name]
            start = place.offset + load.what[2]
            if name in self._interleaved:
                self._append_interleaved(load, self._interleaved[name], place)
                return
        for done in range(0, load.size, LONGEST_ROW):
            size = min(LONGEST_ROW, load.size - done)
            self._order.append(
                Opcode.LOAD,
                region=place.region,
                dram_offset=start + done,
                spad_addr=load.buffer.address + load.offset + done,
                row_bytes=size,
                rows=load.rows,
                planes=1,
                dram_row_step=load.row_step if load.rows > 1 else 0,
                spad_row_step=(load.row_step if load.apart else size) if load.rows > 1 else 0,
            )

    def _append_interleaved(self, load: Load, rows: RowFolding, place: Place) -> None:
        for values in folded_loads(
            rows,
            start=load.what[2],
            size=load.size,
            count=load.rows,
            step=load.row_step,
            address=load.buffer.address + load.offset,
        ):
            offset = place.offset + values.get("dram_offset", 0)
            self._order.append(
                Opcode.LOAD, **{**values, "region": place.region, "dram_offset": offset}
            )
