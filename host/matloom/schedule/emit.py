"""Instructions of a planned segment, in program order."""

from collections.abc import Iterator

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Destination, Opcode, Source, Table, largest, post_element_bytes
from matloom.arch.isa import Region as Window
from matloom.arch.modes import MAC_MODES
from matloom.arch.numerics import DIGITS, Rounding
from matloom.schedule.dependencies import DependencyTracker
from matloom.schedule.plan import Load, Plan
from matloom.schedule.segment import Place, Segment
from matloom.schedule.sequence import Slot
from matloom.schedule.stores import LONGEST_ROW, Stores
from matloom.schedule.tiles import ArrayTile, VectorTile, exec_fields, input_box, position_bytes
from matloom.select.context import unchanged
from matloom.select.fold_rows import folded_loads
from matloom.select.space_to_depth import PolyphaseWindow
from matloom.select.stage import ArrayStage, RowFolding, Stage, VectorStage

__all__ = ["emit"]

_MOST_ROWS = largest(Opcode.LOAD, "rows")


class _Emitter:
    """Turns ticks into instructions; DRAM places of tensors and chunks are given."""

    def __init__(
        self,
        segment: Segment,
        plan: Plan,
        config: Config,
        places: dict[str, Place],
        chunk_offsets: dict[tuple[int, int], int],
        dram_bytes: dict[Window, int],
    ):
        self.segment, self.plan, self.config = segment, plan, config
        self.places, self.chunk_offsets = places, chunk_offsets
        self.order = DependencyTracker(config, dram_bytes)
        self.interleaved = {
            stage.inputs[0]: stage.row_folding
            for stage in segment.stages
            if isinstance(stage, ArrayStage) and stage.row_folding is not None
        }
        self.stores = Stores(segment, plan, places, self.order)
        #: Tensors in blocks whose border is filled.
        self.bordered: set[str] = set()
        #: Of the accumulators, the half that the last tile is in.
        self.half = 1
        #: The first entry of that tile; in each half, how many small tiles have used.
        self.entry, self.used = 0, [0, 0]
        #: What the table holds; nothing is known of it at the start.
        self.table = b""

    def load(self, load: Load) -> None:
        """Issue the LOADs of a transfer, cut where a row is too long."""
        if load.what[0] == "chunk":
            place = Place(
                region=Window.PROGRAM, offset=self.chunk_offsets[int(load.what[1]), load.what[2]]
            )
            start = place.offset + load.offset
        else:
            name = str(load.what[1])
            place = self.places[name]
            start = place.offset + load.what[2]
            if name in self.interleaved:
                self._load_interleaved(load, self.interleaved[name], place)
                return
        for done in range(0, load.size, LONGEST_ROW):
            size = min(LONGEST_ROW, load.size - done)
            self.order.append(
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

    def _load_interleaved(self, load: Load, rows: RowFolding, place: Place) -> None:
        for values in folded_loads(
            rows,
            start=load.what[2],
            size=load.size,
            count=load.rows,
            step=load.row_step,
            address=load.buffer.address + load.offset,
        ):
            offset = place.offset + values.get("dram_offset", 0)
            self.order.append(
                Opcode.LOAD, **{**values, "region": place.region, "dram_offset": offset}
            )

    def slot(self, number: int, slot: Slot) -> None:
        """Issue the tile of a tick, and the STOREs of what it finishes."""
        stage, tile = self.segment.stages[slot.stage], slot.tile
        timestamp = self.segment.timestamps[slot.stage] if slot.last else 0
        stores = self.stores.needed(number, slot)
        post_mark = 0 if stores else timestamp
        if isinstance(tile, ArrayTile):
            assert isinstance(stage, ArrayStage)
            self._array(number, stage, tile, post_mark)
        else:
            assert isinstance(stage, VectorStage)
            self._vector(number, stage, tile, post_mark)
        if stores:
            self.stores.append(number, slot, timestamp)

    def _source(self, number: int, name: str, first_byte: int) -> int:
        """Return the scratchpad address of a byte of a tensor."""
        if name in self.plan.tensor_buffers:
            return self.plan.tensor_buffers[name].address + first_byte
        buffer, input_range = self.plan.input_ranges[number, name]
        return buffer.address + first_byte - input_range.start

    def _input(self, number: int, stage: ArrayStage, tile: ArrayTile) -> dict[str, int]:
        """Return the fields of EXEC that say where the input lies, relative to its rows there."""
        name = stage.inputs[0]
        row_bytes, left = stage.in_row_bytes, 0
        if name in self.plan.tensor_buffers:
            part = input_box(stage, tile, self.config)
            low, rows = part.low, part.high - part.low
            address = self.plan.tensor_buffers[name].address
            address += (tile.image * stage.in_rows + low) * row_bytes
            if isinstance(stage.loop_nest, PolyphaseWindow):
                address += tile.first_block * stage.loop_nest.blocks.plane_bytes
        else:
            buffer, input_range = self.plan.input_ranges[number, name]
            address = buffer.address
            row, left = divmod(input_range.start, row_bytes)
            low = row - tile.image * stage.in_rows
            if input_range.pitch:
                rows, row_bytes = input_range.rows, input_range.width
            else:
                rows = input_range.width // row_bytes
        fields = exec_fields(stage, tile, self.config)
        return {
            **fields,
            "input_addr": address,
            "input_pitch": row_bytes if rows > 1 else 0,
            "input_rows": rows,
            "input_row_bytes": row_bytes,
            "first_row": fields["first_row"] - low,
            "first_byte": fields["first_byte"] - left,
        }

    def _array(self, number: int, stage: ArrayStage, tile: ArrayTile, timestamp: int) -> None:
        entry = self._entry(stage, tile)
        weights, params = self._chunk_addresses(number, stage, tile)
        fields = {
            "mode": MAC_MODES.index(stage.mode),
            "accumulate": int(tile.first_step > 0),
            "oc_blocks": tile.end_block - tile.first_block,
            "weight_addr": weights,
            "acc_addr": entry,
            **self._input(number, stage, tile),
        }
        for execute in self._executes(stage, tile, fields):
            self.order.append(Opcode.EXEC, **execute)
        if tile.end_step < stage.loop_nest.steps:
            return
        looks_up = self._fill_table(number, stage)
        if stage.blocks is not None:
            self._write_blocks(stage, tile, entry, params, looks_up, timestamp)
            return
        dest, x_step, pitch = self._destination(number, stage, tile)
        numbers = position_bytes(stage, tile) // stage.element_bytes
        whole, rest = divmod(numbers - 1, self.config.columns)
        apart = position_bytes(stage, tile) * tile.positions
        apart = apart if number in self.plan.stagings else stage.size
        for digit in range(stage.digits):
            self.order.append(
                Opcode.POST,
                timestamp=timestamp if digit + 1 == stage.digits else 0,
                source=Source.ACC,
                destination=Destination.SPAD,
                pairs=stage.halves - 1,
                width=tile.end_x - tile.first_x,
                height=tile.end_row - tile.first_row,
                oc_blocks=whole + 1,
                tail=rest + 1,
                x_step=x_step,
                acc_addr=entry,
                dest_addr=dest + digit * apart,
                dest_pitch=pitch,
                param_addr=params,
                **{**tile.post, **(_digit_fields(digit) if stage.digits > 1 else {})},
                **looks_up,
            )

    def _executes(
        self, stage: ArrayStage, tile: ArrayTile, fields: dict[str, int]
    ) -> Iterator[dict[str, int]]:
        """Yield the fields of the EXECs of a tile: of one, or of one for each plane it reads."""
        if isinstance(stage.loop_nest, PolyphaseWindow):
            for plane in range(tile.end_block - tile.first_block):
                yield {
                    **fields,
                    "oc_blocks": 1,
                    "weight_addr": fields["weight_addr"] + plane * self.config.tile_bytes,
                    "acc_addr": fields["acc_addr"] + plane * tile.positions,
                    "input_addr": fields["input_addr"] + plane * stage.loop_nest.blocks.plane_bytes,
                }
        else:
            yield fields

    def _write_blocks(
        self,
        stage: ArrayStage,
        tile: ArrayTile,
        entry: int,
        params: int,
        looks_up: dict[str, int],
        timestamp: int,
    ) -> None:
        """Issue a POST for each plane, before the first of them those of the border."""
        blocks = stage.blocks
        assert blocks is not None
        tensor_buffer = self.plan.tensor_buffers[stage.output].address
        if stage.output not in self.bordered:
            self.bordered.add(stage.output)
            for border in blocks.border(stage.oc_blocks):
                self.order.append(
                    Opcode.POST, source_addr=tensor_buffer, dest_addr=tensor_buffer, **border
                )
        for number, plane in enumerate(range(tile.first_block, tile.end_block)):
            last = plane + 1 == stage.oc_blocks
            self.order.append(
                Opcode.POST,
                timestamp=timestamp if plane + 1 == tile.end_block else 0,
                source=Source.ACC,
                destination=Destination.SPAD,
                width=tile.end_x - tile.first_x,
                height=tile.height,
                oc_blocks=1,
                tail=stage.tail if last else stage.block_bytes,
                x_step=blocks.x_step,
                acc_addr=entry + number * tile.positions,
                dest_addr=tensor_buffer + blocks.first_byte(tile.first_row, tile.first_x, plane),
                dest_pitch=blocks.row_bytes,
                param_addr=params + number * stage.params.shape[1],
                **tile.post,
                **looks_up,
            )

    def _entry(self, stage: ArrayStage, tile: ArrayTile) -> int:
        """Return the first accumulator entry of a tile: halves take turns.

        Small tiles behind each other in a half, so that none waits for POST of the one before. Not
        where sums come in every cycle: they would keep POST from their half.
        """
        half = stage.entries(self.config)
        if tile.prologue_sums is not None:
            self.half, self.used = tile.prologue_sums.half, [0, 0]
            return self.half * half + tile.prologue_sums.entry
        if not tile.first_step:
            self.half ^= 1
            first, self.used[self.half] = self.used[self.half], 0
            slow = max(self.config.tile_load_cycles, self.config.acc_update_latency)
            if 2 * tile.positions <= slow:
                first = first if first + tile.entries <= half else 0
                self.used[self.half] = first + tile.entries
                self.entry = self.half * half + first
            else:
                self.entry = self.half * half
        return self.entry

    def _fill_table(self, number: int, stage: Stage) -> dict[str, int]:
        """Fill the table where a stage needs another one; return what its POST says of it."""
        if stage.table is None:
            return {}
        wanted, row_bytes = stage.table.tobytes(), self.config.table_row_bytes
        if wanted != self.table:
            self.table = wanted
            self.order.append(
                Opcode.POST,
                source=Source.SPAD,
                destination=Destination.SPAD,
                table=Table.FILL,
                width=len(wanted) // row_bytes,
                height=1,
                oc_blocks=1,
                tail=row_bytes,
                x_step=row_bytes,
                source_addr=self.plan.tables[self.plan.slots[number].stage].address,
                **unchanged(),
            )
        return {"table": Table.LOOK_UP}

    def _destination(self, number: int, stage: ArrayStage, tile: ArrayTile) -> tuple[int, int, int]:
        """Return address, bytes from position to position, bytes from row to row."""
        if number in self.plan.stagings:
            x_step = position_bytes(stage, tile)
            pitch = x_step * (tile.end_x - tile.first_x)
            return self.plan.stagings[number].address, x_step, pitch
        first = stage.first_byte(tile.image, tile.first_row, tile.first_x, tile.first_block)
        address = self.plan.tensor_buffers[stage.output].address + first
        return address, stage.x_step, stage.row_step

    def _chunk_addresses(self, number: int, stage: ArrayStage, tile: ArrayTile) -> tuple[int, int]:
        """Return where a tile's first weights and first parameters lie; 0 for no parameters."""
        index = self.plan.slots[number].stage
        chunk = self.plan.tilings[index].chunks[tile.chunk]
        base = self.plan.weights[number].address
        tile_bytes, param_bytes = self.config.tile_bytes, stage.params.shape[1]
        offset = tile.first_block - chunk.first_block
        size = (chunk.end_step - chunk.first_step) * tile_bytes
        weights = base + offset * size + (tile.first_step - chunk.first_step) * tile_bytes
        if stage.loop_nest.weights_fixed:
            weights, params = base, base + tile_bytes + offset * param_bytes
        elif index in self.plan.params:
            params = self.plan.params[index].address + tile.first_block * param_bytes
        else:
            blocks = chunk.end_block - chunk.first_block
            params = base + blocks * size + offset * param_bytes
        # Without parameters the address means nothing, and might be the end of the scratchpad.
        return weights, params if param_bytes else 0

    def _vector(self, number: int, stage: VectorStage, tile: VectorTile, timestamp: int) -> None:
        """Issue the POSTs of whole vectors, as positions of one block, then of what is left.

        Where inputs repeat, each repetition is a row.
        """
        size, period = stage.element_bytes, stage.period
        vector = self.config.columns * size
        if period and (tile.end - tile.start) % period == 0:
            blocks = -(-period // vector)
            rows = {
                "width": 1,
                "height": (tile.end - tile.start) // period,
                "oc_blocks": blocks,
                "tail": (period - (blocks - 1) * vector) // size,
            }
            self._vectors(number, stage, tile, tile.start, rows, timestamp)
            return
        whole = (tile.end - tile.start) // vector
        middle = tile.start + whole * vector
        line = {"height": 1, "oc_blocks": 1}
        if whole:
            last = timestamp if middle == tile.end else 0
            vectors = {**line, "width": whole, "tail": self.config.columns}
            self._vectors(number, stage, tile, tile.start, vectors, last)
        if middle < tile.end:
            rest = {**line, "width": 1, "tail": (tile.end - middle) // size}
            self._vectors(number, stage, tile, middle, rest, timestamp)

    def _vectors(
        self,
        number: int,
        stage: VectorStage,
        tile: VectorTile,
        start: int,
        shape: dict[str, int],
        timestamp: int,
    ) -> None:
        entry = self.half * (self.config.acc_entries // 2)
        if number in self.plan.stagings:
            dest = self.plan.stagings[number].address + start - tile.start
        else:
            dest = self.plan.tensor_buffers[stage.output].address + start
        pitch, ratio = stage.period if shape["height"] > 1 else 0, stage.input_ratio
        looks_up = self._fill_table(number, stage)
        for index, (source, post) in enumerate(stage.posts):
            step = self.config.columns * post_element_bytes(post)
            places = {"x_step": step if shape["width"] > 1 else 0}
            if post["destination"] == Destination.SPAD:
                places |= {"dest_addr": dest, "dest_pitch": pitch, **looks_up}
            if source is not None:
                once = source in stage.repeated
                first = start % stage.period if once else start
                places["source_addr"] = self._source(number, stage.inputs[source], first * ratio)
                places["source_pitch"] = 0 if once else pitch * ratio
            self.order.append(
                Opcode.POST,
                timestamp=timestamp if index + 1 == len(stage.posts) else 0,
                acc_addr=entry,
                **shape,
                **places,
                **post,
            )


def _digit_fields(digit: int) -> dict[str, int]:
    """Return the fields of a POST that makes a digit of sums (`numerics.from_digits`)."""
    pre_shift, shift = DIGITS[digit]
    return {
        "rounding": Rounding.SINGLE,
        "pre_shift": pre_shift,
        "multiplier": 2**30,
        "shift": shift,
        "clamp_low": -128,
        "clamp_high": 127,
    }


def emit(
    segment: Segment,
    plan: Plan,
    config: Config,
    places: dict[str, Place],
    chunk_offsets: dict[tuple[int, int], int],
    dram_bytes: dict[Window, int],
) -> list[Instruction]:
    """Return the instructions of a segment, END last.

    Parameters
    ----------
    places:
        External memory of sources and of tensors that the plan keeps there.
    chunk_offsets:
        Offset in the program image of each (stage, chunk) of weights and parameters.
    dram_bytes:
        Sizes of the windows that STORE may write.
    """
    emitter = _Emitter(segment, plan, config, places, chunk_offsets, dram_bytes)
    loads = iter(plan.loads)
    load = next(loads, None)
    for number, slot in enumerate(plan.slots):
        while load is not None and load.slot <= number:
            emitter.load(load)
            load = next(loads, None)
        emitter.slot(number, slot)
    emitter.order.end()
    return emitter.order.instructions
