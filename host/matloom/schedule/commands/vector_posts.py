"""Emits the POSTs of tiles of element-wise stages."""

from matloom.arch.config import Config
from matloom.arch.isa import Destination, Opcode, post_element_bytes
from matloom.schedule import tuning
from matloom.schedule.commands.accumulators import Accumulators
from matloom.schedule.commands.dependencies import DependencyTracker
from matloom.schedule.commands.tables import Tables
from matloom.schedule.plan import Plan
from matloom.schedule.tiling.tiles import VectorTile
from matloom.select.stage import VectorStage


class VectorPosts:
    """Appends the POST instructions of element-wise tiles to a program.

    Intermediate sums use the half of the accumulators that the tile before used.
    """

    def __init__(
        self,
        plan: Plan,
        config: Config,
        accumulators: Accumulators,
        tables: Tables,
        tracker: DependencyTracker,
    ):
        self._plan, self._config, self._order = plan, config, tracker
        self._accumulators, self._tables = accumulators, tables
        #: The slot, stage, first entry and shape of the last tile with a repeated input.
        self._filled: tuple[int, VectorStage | None, int, dict[str, int]] = (-1, None, 0, {})
        #: The block of channels of the next POSTs, if tables differ by channel.
        self._channels = 0

    def append(self, slot_index: int, stage: VectorStage, tile: VectorTile, timestamp: int) -> None:
        """Emit the POSTs of a tile: one for its whole vectors, then one for remaining bytes.

        A vector has a byte for each column of the array.

        A single POST does both if there are at most `tuning.RAGGED_BLOCKS` whole vectors: it
        processes them as blocks of one position, of which the last is incomplete. If inputs repeat,
        a single POST processes a row for each repetition.
        """
        if stage.channel_blocks > 1:
            self._append_by_channel(slot_index, stage, tile, timestamp)
            return
        size, period = stage.element_bytes, stage.period
        vector = self._config.columns * size
        if period and (tile.end - tile.start) % period == 0:
            rows = {
                "width": 1,
                "height": (tile.end - tile.start) // period,
                **self._block_fields(period, vector),
            }
            self._vectors(slot_index, stage, tile, tile.start, rows, timestamp)
            return
        whole = (tile.end - tile.start) // vector
        middle = tile.start + whole * vector
        line = {"height": 1, "oc_blocks": 1}
        if middle < tile.end and whole <= tuning.RAGGED_BLOCKS:
            blocks = {"height": 1, "width": 1, **self._block_fields(tile.end - tile.start, vector)}
            self._vectors(slot_index, stage, tile, tile.start, blocks, timestamp)
            return
        if whole:
            last = timestamp if middle == tile.end else 0
            vectors = {**line, "width": whole, "tail": self._config.columns}
            self._vectors(slot_index, stage, tile, tile.start, vectors, last)
        if middle < tile.end:
            rest = {**line, "width": 1, "tail": (tile.end - middle) // size}
            self._vectors(slot_index, stage, tile, middle, rest, timestamp)

    def _append_by_channel(
        self, slot_index: int, stage: VectorStage, tile: VectorTile, timestamp: int
    ) -> None:
        """Emit the POSTs of a tile whose lookup tables differ by channel, block by block.

        The block whose tables are filled comes first.
        """
        columns, count = self._config.columns, stage.channel_blocks
        positions = (tile.end - tile.start) // (count * columns)
        # Positions of inputs of different depth are rows.
        width, height = (1, positions) if stage.period else (positions, 1)
        line = {"width": width, "height": height, "oc_blocks": 1, "tail": columns}
        blocks = sorted(range(count), key=lambda at: not self._tables.is_filled(stage, at))
        for block in blocks:
            self._channels = block
            last = timestamp if block == blocks[-1] else 0
            self._vectors(slot_index, stage, tile, tile.start + block * columns, line, last)
        self._channels = 0

    def _vectors(
        self,
        number: int,
        stage: VectorStage,
        tile: VectorTile,
        start: int,
        shape: dict[str, int],
        timestamp: int,
    ) -> None:
        """Emit the POSTs of `shape`, in vectors, for a tile's bytes from `start` on."""
        entry = self._accumulators.half * (self._config.acc_entries // 2)
        if number in self._plan.stagings:
            dest = self._plan.stagings[number].address + start - tile.start
        else:
            dest = self._plan.address(stage.output) + start
        pitch = stage.period if shape["height"] > 1 else 0
        looks_up = self._tables.look_up(number, stage, self._channels)
        posts: list[dict[str, int]] = []
        for index, (source, post) in enumerate(stage.posts):
            if index == 0 and self._is_filled(number, stage, entry, shape):
                continue
            step = self._config.columns * post_element_bytes(post) * max(1, stage.channel_blocks)
            skipped, extent = self._block_extent(stage, index, shape)
            if extent["oc_blocks"] <= 0:
                continue
            fields = {"x_step": step if shape["width"] > 1 else 0, **extent, **post}
            if post["destination"] == Destination.SPAD:
                fields |= {"dest_addr": dest + skipped * step, "dest_pitch": pitch, **looks_up}
            if source is not None:
                address, fields["source_pitch"] = self._read_address_and_pitch(
                    number, stage, source, start, shape
                )
                fields["source_addr"] = address + skipped * step
            fields["acc_addr"] = entry + skipped * shape["height"]
            posts.append(fields)
        posts[-1]["timestamp"] = timestamp
        for fields in posts:
            self._order.append_fields(Opcode.POST, fields)

    def _block_extent(
        self, stage: VectorStage, index: int, shape: dict[str, int]
    ) -> tuple[int, dict[str, int]]:
        """Return the first block of channels that POST `index` of a stage makes, and its extent.

        The extent is given by fields, and `shape` is that of a POST of all blocks. It has no blocks
        if the POST makes none of the channels of the current block.
        """
        source, _post = stage.posts[index]
        vector = self._config.columns * stage.element_bytes
        if source is not None and source == stage.narrow:
            narrow = stage.narrow_bytes - self._channels * vector
            return 0, {
                **shape,
                **self._block_fields(min(narrow, shape["oc_blocks"] * vector), vector),
            }
        if index == stage.edge:
            skipped = max(0, stage.narrow_bytes // vector - self._channels)
            return skipped, {**shape, "oc_blocks": shape["oc_blocks"] - skipped}
        return 0, shape

    def _block_fields(self, row_bytes: int, vector: int) -> dict[str, int]:
        """Return the fields of POST for rows of `row_bytes`, cut into vectors of `vector` bytes."""
        blocks = -(-row_bytes // vector)
        elements = (row_bytes - (blocks - 1) * vector) * self._config.columns // vector
        return {"oc_blocks": blocks, "tail": elements}

    def _read_address_and_pitch(
        self, slot_index: int, stage: VectorStage, source: int, start: int, shape: dict[str, int]
    ) -> tuple[int, int]:
        """Return the address and the row pitch with which a POST reads input `source` of a stage.

        `start` is the output byte for which it reads first; `shape` has the extent of the POST.
        """
        row, first = stage.period if shape["height"] > 1 else 0, start
        if source in stage.repeated:
            row, first = 0, start % stage.period
        elif source == stage.narrow:
            position, place = divmod(start, stage.period)
            row, first = row and stage.narrow_bytes, position * stage.narrow_bytes + place
        ratio = stage.input_ratio
        first = stage.start(source) + first * ratio
        return self._source(slot_index, stage.inputs[source], first), row * ratio

    def _is_filled(
        self, slot_index: int, stage: VectorStage, entry: int, shape: dict[str, int]
    ) -> bool:
        """Return whether the accumulators still hold a repeated input from the previous tile.

        `entry` is its first accumulator entry, and `shape` its extent. Record that the accumulators
        hold it after this tile.
        """
        if not (stage.fills_once and shape["height"] > 1):
            return False
        *before, filled = self._filled
        # Entries lie row by row in a block, so they include fewer rows of one block.
        rows = filled.get("height", 0) if shape["oc_blocks"] == 1 else shape["height"]
        same = {**shape, "height": max(rows, shape["height"])} == filled
        held = same and before == [slot_index - 1, stage, entry]
        self._filled = (slot_index, stage, entry, filled if held else shape)
        return held

    def _source(self, slot_index: int, name: str, first_byte: int) -> int:
        """Return the scratchpad address at which the tile at a slot of the order reads a byte."""
        if name in self._plan.tensor_buffers:
            return self._plan.address(name) + first_byte
        buffer, input_range = self._plan.input_ranges[slot_index, name]
        return buffer.address + first_byte - input_range.start
