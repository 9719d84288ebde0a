"""Emits the instructions of a planned segment, in program order."""

from collections.abc import Callable, Iterable
from typing import Any

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Destination, Opcode, Region, Source
from matloom.arch.modes import MAC_MODES
from matloom.cost.timing import Timing
from matloom.schedule.commands.accumulators import Accumulators
from matloom.schedule.commands.chunk_addresses import chunk_addresses, params_and_limit_addresses
from matloom.schedule.commands.dependencies import DependencyTracker
from matloom.schedule.commands.executes import executes
from matloom.schedule.commands.limited_sums import affects_results, limit_post
from matloom.schedule.commands.loads import LoadCommands
from matloom.schedule.commands.second_inputs import second_input, with_addend
from matloom.schedule.commands.stores import Stores
from matloom.schedule.commands.tables import Tables
from matloom.schedule.commands.vector_posts import VectorPosts
from matloom.schedule.plan import Load, Plan
from matloom.schedule.segment import Place, Segment
from matloom.schedule.tiling.sequence import Slot
from matloom.schedule.tiling.tiles import ArrayTile, exec_fields
from matloom.select.exec_steps import input_region
from matloom.select.layout.base import Fields, Write
from matloom.select.requantisation import limb_fields
from matloom.select.stage import ArrayStage, Stage, VectorStage


class _Emitter:
    """Emits the instructions of tiles, given the external addresses of tensors and chunks."""

    def __init__(
        self,
        segment: Segment,
        plan: Plan,
        config: Config,
        places: dict[str, Place],
        chunk_offsets: dict[tuple[int, int], int],
        dram_bytes: dict[Region, int],
    ):
        self.segment, self.plan, self.config = segment, plan, config
        self.order = DependencyTracker(config, dram_bytes, segment.machine)
        self.loads = LoadCommands(segment, places, chunk_offsets, self.order)
        self.stores = Stores(segment, plan, places, self.order)
        self.accumulators = Accumulators(segment.machine, self.order)
        self.tables = Tables(plan, config, self.order)
        self.vectors = VectorPosts(plan, config, self.accumulators, self.tables, self.order)
        #: Tensors whose borders are written already.
        self.bordered: set[str] = set()
        #: The slot whose results are still to be emitted, and a function that emits them.
        self._open: tuple[int, Callable[[], None]] | None = None

    def load(self, load: Load) -> None:
        """Emit the instructions of a planned LOAD.

        If it affects bytes that pending results use, emit these results before it.
        """
        if self._open is not None and affects_results(self.segment, self.plan, load, self._open[0]):
            self.finish()
        self.loads.append(load)

    def finish(self) -> None:
        """Emit the results of the last tile if they have been held back."""
        if self._open is not None:
            _number, emit = self._open
            self._open = None
            emit()

    def slot(self, slot_index: int, slot: Slot) -> None:
        """Emit the tile of a slot (place in the order), and the STOREs of bytes it completes.

        If EXEC compares its sums with another input (`is_limited`), the results of a tile follow
        the arithmetic of the next tile of the stage: POST then writes them while EXEC works, and
        does not read a bank that EXEC reads.
        """
        stage = self.segment.stages[slot.stage]
        if self._open is not None and self.plan.slots[self._open[0]].stage != slot.stage:
            self.finish()
        self.tables.fill_early(slot_index, self.segment.stages)
        # The tiles of a stage are of its kind.
        tile: Any = slot.tile
        if stage.array is not None and stage.is_limited:
            results = self._emit_limited(slot_index, stage.array, tile, slot)
            self.finish()
            self._open = slot_index, results
            return
        timestamp = self.segment.timestamps[slot.stage] if slot.last else 0
        stores = self.stores.needs_store(slot_index, slot)
        post_mark = 0 if stores else timestamp
        issue: dict[type[Stage], Callable[[int, Any, Any, int], None]] = {
            ArrayStage: self._emit_array_tile,
            VectorStage: self.vectors.append,
        }
        issue[type(stage)](slot_index, stage, tile, post_mark)
        if stores:
            self.stores.append(slot_index, slot, timestamp)

    def _input(self, slot_index: int, stage: ArrayStage, tile: ArrayTile) -> dict[str, int]:
        """Return the fields of EXEC that locate its input, for a tile."""
        name, layout = stage.inputs[0], stage.input_layout
        row_bytes, left = layout.row_bytes, 0
        fields = exec_fields(stage, tile, self.config)
        if name in self.plan.tensor_buffers:
            part = input_region(stage, fields, tile.end_block - tile.first_block, self.config.rows)
            low, rows = part.low, part.high - part.low
            address = self.plan.address(name)
            address += (tile.image * layout.rows + low) * row_bytes
            address += tile.first_block * layout.plane_bytes
        else:
            buffer, input_range = self.plan.input_ranges[slot_index, name]
            address = buffer.address
            row, left = divmod(input_range.start, row_bytes)
            low = row - tile.image * layout.rows
            if input_range.pitch:
                rows, row_bytes = input_range.rows, input_range.width
            else:
                rows = input_range.width // row_bytes
        fields |= {
            "input_addr": address,
            "input_pitch": row_bytes if rows > 1 else 0,
            "input_rows": rows,
            "input_row_bytes": row_bytes,
            "first_row": fields["first_row"] - low,
            "first_byte": fields["first_byte"] - left,
        }
        return fields

    def _exec_fields(
        self, number: int, stage: ArrayStage, tile: ArrayTile, entry: int, weights: int
    ) -> Fields:
        """Return the fields of EXEC for a whole tile, with its entries and its weights' address."""
        computed, fields = stage.computed, self._input(number, stage, tile)
        fields |= {
            "mode": MAC_MODES.index(stage.mode),
            "accumulate": int(tile.first_step > 0 or stage.continues),
            "oc_blocks": tile.end_block - tile.first_block,
            "weight_addr": weights,
            "acc_addr": entry,
            "weights_wait_post": int(computed is not None),
            "weights_transposed": int(computed is not None and computed.layout.transposed),
        }
        return fields

    def _emit_array_tile(
        self, slot_index: int, stage: ArrayStage, tile: ArrayTile, timestamp: int
    ) -> None:
        """Emit the EXECs of a tile and, if they complete its sums, the POSTs of its results."""
        entry = self.accumulators.of(stage, tile)
        weights, params = chunk_addresses(self.plan, slot_index, stage, tile)
        fields = self._exec_fields(slot_index, stage, tile, entry, weights)
        for execute in executes(self.plan, slot_index, stage, tile, fields, self.config):
            self.order.append_fields(Opcode.EXEC, execute)
        if stage.is_unfinished or tile.end_step < stage.loop_nest.steps:
            return
        source = {"acc_addr": entry, "param_addr": params, **self.tables.look_up(slot_index, stage)}
        if stage.addend is not None and not stage.reads_with_sums:
            post = second_input(self.plan, slot_index, stage, tile, entry)
            self.order.append_fields(Opcode.POST, post)
        self._write(slot_index, stage, tile, source, timestamp)

    def _emit_limited(
        self, number: int, stage: ArrayStage, tile: ArrayTile, slot: Slot
    ) -> Callable[[], None]:
        """Emit a tile of maxima of sums and a second input; return the function for its results.

        Return a function that emits its results and STOREs.
        """
        entry = self.accumulators.of(stage, tile)
        weights, first = chunk_addresses(self.plan, number, stage, tile)
        execute = {**self._exec_fields(number, stage, tile, entry, weights), "accumulate": 1}
        params, limits = params_and_limit_addresses(self.plan, number, stage, tile, first)
        if stage.addend is None:
            limit = limit_post(stage, tile, execute, limits)
        else:
            limit = second_input(self.plan, number, stage, tile, entry)
        self.order.append_fields(Opcode.POST, limit)
        self.order.append_fields(Opcode.EXEC, execute)

        def results() -> None:
            """Emit the POSTs of the tile's results, and the STOREs that follow."""
            timestamp = self.segment.timestamps[slot.stage] if slot.last else 0
            stores = self.stores.needs_store(number, slot)
            looks_up = self.tables.look_up(number, stage)
            source = {"acc_addr": entry, "param_addr": params, **looks_up}
            self._write(number, stage, tile, source, 0 if stores else timestamp)
            if stores:
                self.stores.append(number, slot, timestamp)

        return results

    def _write(
        self, number: int, stage: ArrayStage, tile: ArrayTile, source: Fields, timestamp: int
    ) -> None:
        """Emit the POSTs that write a tile's results; `source` has the fields of what they read.

        Results go to their tensor, whose borders are written before the first tile, or to a staging
        buffer until they are stored.
        """
        layout = stage.output_layout
        borders: Iterable[Fields] = ()
        copies: Iterable[Fields] = ()
        if number in self.plan.stagings:
            slot, address = self.plan.slots[number], self.plan.stagings[number].address
            # The tiling is of the kind of its stage.
            tiling: Any = self.plan.tilings[slot.stage]
            writes = tiling.staged_writes(slot.number, self.plan.stored_together(slot))
        else:
            address, writes = self.plan.address(stage.output), layout.writes(tile)
            if stage.output not in self.bordered:
                borders = layout.borders()
                self.bordered.add(stage.output)
            copies = layout.copies(tile)
        made = (self._post(stage, tile, source, each, address) for each in writes)
        posts = [
            *(_move_post(fields, address) for fields in borders),
            *(each for post in made for each in with_addend(self.plan, number, stage, tile, post)),
            *(_move_post(fields, address) for fields in copies),
        ]
        posts[-1]["timestamp"] = timestamp
        for post in posts:
            self.order.append_fields(Opcode.POST, post)

    def _post(
        self, stage: ArrayStage, tile: ArrayTile, source: Fields, write: Write, address: int
    ) -> Fields:
        """Return the fields of a POST that writes its results to an address."""
        whole, rest = divmod(write.size // stage.element_bytes - 1, self.config.columns)
        limbs, params = stage.output_layout.limbs, stage.params.shape[1] // stage.param_sets
        sums = tile.positions * stage.sums_per_output
        return {
            "source": Source.ACC,
            "destination": Destination.SPAD,
            "pairs": stage.accumulators_per_block - 1,
            "pool": int(stage.sums_per_output > 1),
            "width": tile.end_x - tile.first_x,
            "height": tile.height,
            "oc_blocks": whole + 1,
            "tail": rest + 1,
            "x_step": write.x_step,
            **source,
            "acc_addr": source["acc_addr"] + write.block * sums,
            "param_addr": source["param_addr"] + write.block * params,
            "dest_addr": address + write.first_byte,
            "dest_pitch": write.row_step,
            **tile.post,
            **(limb_fields(write.limb) if limbs > 1 else {}),
        }


def _move_post(post: Fields, address: int) -> Fields:
    """Return the fields of a POST with its addresses moved to start at `address`."""
    addresses = ("source_addr", "dest_addr")
    return {**post, **{name: address + post.get(name, 0) for name in addresses}}


def emit_instructions(
    segment: Segment,
    plan: Plan,
    places: dict[str, Place],
    chunk_offsets: dict[tuple[int, int], int],
    dram_bytes: dict[Region, int],
) -> tuple[list[Instruction], list[Timing]]:
    """Return the instructions of a segment, with END last, and the costs of all others.

    Parameters
    ----------
    places:
        Addresses of sources, and of tensors that the plan keeps in external memory.
    chunk_offsets:
        Offset of each (stage, chunk) of weights and parameters in the program image.
    dram_bytes:
        Size in bytes of the regions of external memory that STORE may write.
    """
    emitter = _Emitter(segment, plan, segment.config, places, chunk_offsets, dram_bytes)
    loads = iter(plan.loads)
    load = next(loads, None)
    for number, slot in enumerate(plan.slots):
        while load is not None and load.slot <= number:
            emitter.load(load)
            load = next(loads, None)
        emitter.slot(number, slot)
    emitter.finish()
    emitter.order.end()
    return emitter.order.instructions, emitter.order.costs
