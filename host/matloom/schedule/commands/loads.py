"""Emits the LOADs of a plan: tensors, weights, parameters and tables."""

from matloom.arch.isa import Opcode, Region
from matloom.schedule.commands.dependencies import DependencyTracker
from matloom.schedule.plan import Load
from matloom.schedule.segment import Place, Segment
from matloom.select.layout.dense import DenseInput

#: Layout of tensors and chunks that LOADs copy without a conversion.
_DENSE = DenseInput(rows=1, row_bytes=1)


class LoadCommands:
    """Appends LOADs to a program, given the external addresses of tensors and weight chunks."""

    def __init__(
        self,
        segment: Segment,
        places: dict[str, Place],
        chunk_offsets: dict[tuple[int, int], int],
        tracker: DependencyTracker,
    ):
        self._places, self._chunk_offsets, self._order = places, chunk_offsets, tracker
        #: Input layouts of tensors that LOADs convert.
        self._layouts = {
            stage.inputs[0]: stage.input_layout
            for stage in segment.stages
            if stage.input_layout.source is not None
        }

    def append(self, load: Load) -> None:
        """Emit the instructions of a planned LOAD: several if it converts a layout."""
        kind, of, start = load.what
        if kind == "chunk":
            place = Place(region=Region.PROGRAM, offset=self._chunk_offsets[int(of), start])
            start = load.offset
        else:
            place = self._places[str(of)]
        transfer = load.transfer(start, load.buffer.address + load.offset)
        for fields in self._layouts.get(str(of), _DENSE).loads(transfer):
            offset = place.offset + fields.get("dram_offset", 0)
            where = {**fields, "region": place.region, "dram_offset": offset}
            self._order.append_fields(Opcode.LOAD, where)
