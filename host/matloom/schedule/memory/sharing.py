"""Finds tensors that can share a buffer: results that overwrite an input after its last use."""

import itertools
from collections.abc import Iterator, Sequence

from matloom.schedule import tuning
from matloom.schedule.plan import Buffer, ScheduleParams
from matloom.schedule.segment import Segment
from matloom.schedule.tiling.array import ArrayTiling
from matloom.schedule.tiling.sequence import Sequence as Order
from matloom.schedule.tiling.stages import Tiling
from matloom.select.layout.dense import Dense, DenseInput


def lead_bytes(tiling: ArrayTiling) -> int:
    """Return by how many bytes a result must begin before the input that it overwrites.

    Then no tile overwrites bytes that a later tile reads.
    """
    layout, grid = tiling.stage.output_layout, tiling.stage.grid
    ends = (
        layout.byte(tile.image, tile.end_row - 1, tile.end_x - 1, 0) + grid.position_bytes
        for tile in tiling.tiles
    )
    starts = [each.start for each in tiling.input_ranges[:0:-1]]
    later = list(itertools.accumulate(starts, min))[::-1]
    # `later` has one entry fewer: no tile follows the last one.
    pairs = zip(itertools.accumulate(ends, max), later, strict=False)
    return max([0, *(end - start for end, start in pairs)])


def share_buffers(
    segment: Segment,
    params: ScheduleParams,
    order: Order,
    tilings: Sequence[Tiling],
    buffers: dict[str, Buffer],
) -> dict[str, int]:
    """Let results share the buffers of inputs, as the choices allow.

    Return the offset of each such tensor in its buffer. `buffers` is changed in place: tensors that
    share bytes have the same buffer.
    """
    sharing = _Sharing(segment, order.spans, buffers)
    for index, stage in enumerate(segment.stages):
        if stage.output not in buffers:
            continue
        if stage.is_elementwise and params.in_place:
            sharing.share_elementwise(index)
        elif params.over_inputs and not stage.is_elementwise:
            sharing.share_array(index, tilings[index])
    return sharing.offsets


class _Sharing:
    """Decides which tensors share a buffer, because one overwrites another.

    Members
    -------
    offsets:
        First byte of a tensor in its buffer; 0 for tensors that are not listed.
    """

    def __init__(
        self, segment: Segment, spans: Sequence[tuple[int, int]], buffers: dict[str, Buffer]
    ) -> None:
        self._segment, self._spans, self._buffers = segment, spans, buffers
        config = segment.config
        self._align = max(config.bus_bytes, config.weight_boundary)
        self._readers: dict[str, list[int]] = {}
        for number, stage in enumerate(segment.stages):
            for name in stage.inputs:
                self._readers.setdefault(name, []).append(number)
        #: For each tensor that shares a buffer, the tensors in it.
        self._together: dict[str, list[str]] = {}
        self.offsets: dict[str, int] = {}

    def share_elementwise(self, index: int) -> None:
        """Let an element-wise stage overwrite an input that no later stage reads."""
        stage = self._segment.stages[index]
        if stage.output in self._segment.on_chip:
            # Its address is a multiple of more than an input's is.
            return
        for name in stage.inputs:
            whole = self._segment.sizes[name] == stage.input_layout.row_bytes
            if whole and self._has_no_other_reader(name, index):
                self._share_buffer(name, index, 0)
                return

    def share_array(self, index: int, tiling: Tiling) -> None:
        """Let a stage that streams through the array overwrite an input of the same size."""
        assert isinstance(tiling, ArrayTiling)
        segment, stage = self._segment, tiling.stage
        small = segment.sizes[stage.output] < tuning.SHARED_PART * segment.config.spad_bytes
        dense = isinstance(stage.output_layout, Dense)
        if small or stage.output in segment.on_chip or not dense:
            return
        for name, bytes_before in self._overwritable_inputs(tiling):
            size = segment.sizes[name]
            stays = name in segment.on_chip or name in segment.sources
            if (
                segment.sizes[stage.output] != size
                or stays
                or not self._has_no_other_reader(name, index)
            ):
                continue
            aligned = bytes_before + -bytes_before % self._align
            more = max(0, aligned - self.offsets.get(name, 0))
            if self._buffers[name].size + more <= tuning.SHARED_BYTES * size:
                self._share_buffer(name, index, aligned)
                return

    @staticmethod
    def _overwritable_inputs(tiling: ArrayTiling) -> Iterator[tuple[str, int]]:
        """Yield each input that results may overwrite, and how many bytes before it they begin."""
        stage = tiling.stage
        if stage.addend is not None:
            yield stage.addend, 0
        if isinstance(stage.input_layout, DenseInput):
            yield stage.inputs[0], lead_bytes(tiling)

    def _has_no_other_reader(self, name: str, index: int) -> bool:
        """Return whether no other stage reads an input, or the tensors in its buffer, any more."""
        stage, begin = self._segment.stages[index], self._spans[index][0]
        if name not in self._buffers or name in self._segment.results:
            return False
        together = self._together.get(name, [name])
        return self._last_read_by_others(together, index) < begin and stage.inputs.count(name) == 1

    def _share_buffer(self, name: str, index: int, bytes_before: int) -> None:
        """Put the output of a stage into the buffer of an input, some bytes before it."""
        output = self._segment.stages[index].output
        shared, result = self._buffers[name], self._buffers[output]
        shared.last = max(shared.last, result.last)
        shared.last_read = max(shared.reads[1], result.reads[1])
        together = self._together.setdefault(name, [name])
        together.append(output)
        self._buffers[output], self._together[output] = shared, together
        self.offsets[output] = self.offsets.get(name, 0) - bytes_before
        if self.offsets[output] < 0:
            missing = -self.offsets[output]
            shared.size += missing
            self.offsets |= {each: self.offsets.get(each, 0) + missing for each in together}

    def _last_read_by_others(self, names: Sequence[str], index: int) -> int:
        """Return the last slot (place in the order) where a stage but `index` reads a tensor."""
        return max(
            (
                self._spans[number][1]
                for name in names
                for number in self._readers.get(name, ())
                if number != index
            ),
            default=-1,
        )
