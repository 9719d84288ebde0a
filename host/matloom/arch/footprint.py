"""Addresses on chip that an instruction accesses, more precise than the bounds of its extents."""

from collections.abc import Mapping
from typing import NamedTuple

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import NARROW, AddressSpace, Extent, Opcode, post_element_bytes

#: Field with the distance between rows, by the address field of each side of POST.
_POST_PITCHES = {"source_addr": "source_pitch", "dest_addr": "dest_pitch"}


class StridedRange(NamedTuple):
    """Addresses that an instruction accesses: runs of `run` bytes or entries, at regular strides.

    The first run begins at `start`. For each dimension, the outermost first, `counts` has the
    number of repetitions and `steps` the distance between them.
    """

    start: int
    run: int
    counts: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """First address after the last run."""
        end = self.start + self.run
        if not self.counts:
            return end
        for count, step in zip(self.counts, self.steps, strict=True):
            end += (count - 1) * step
        return end

    def merge_runs(self) -> "StridedRange":
        """Return the same addresses in fewer dimensions, by joining runs that leave no gaps."""
        run = self.run
        counts: tuple[int, ...] = ()
        steps: tuple[int, ...] = ()
        for count, step in zip(reversed(self.counts), reversed(self.steps), strict=True):
            if count == 1:
                continue
            if not counts and step == run:
                run *= count
            else:
                counts, steps = (count, *counts), (step, *steps)
        return StridedRange(self.start, run, counts, steps)


def footprint(extent: Extent, instruction: Instruction, config: Config) -> StridedRange | None:
    """Return the bytes or entries that an instruction accesses within an on-chip extent.

    Returns None if it may access all of the extent, or if the extent is in external memory.
    """
    if extent.memory is AddressSpace.ACC:
        return _pair_entries(instruction, config)
    if extent.memory is not AddressSpace.SPAD:
        return None
    values = instruction.values
    if extent.base == "input_addr":
        return _read_input(values, config)
    if extent.base in _POST_PITCHES:
        return _post_channels(values, extent.base, config)
    if extent.base == "spad_addr":
        return _moved_rows(values)
    return None


def _pair_entries(instruction: Instruction, config: Config) -> StridedRange | None:
    """Return the entries that an instruction accesses as pairs within one bank; None otherwise."""
    get = instruction.values.get
    if instruction.opcode is Opcode.EXEC:
        blocks = get("oc_blocks", 0) if get("mode", 0) in NARROW else 0
    else:
        blocks = -(-get("oc_blocks", 0) // 2) if get("pairs", 0) else 0
    if not blocks:
        return None
    first, apart = get("acc_addr", 0), config.pair_distance
    count = blocks * get("height", 0) * get("width", 0)
    bank = first // apart
    if (first + count - 1) // apart != bank:
        return None
    return StridedRange(first + bank * apart, count, (2,), (apart,))


def _moved_rows(values: Mapping[str, int]) -> StridedRange | None:
    """Return the scratchpad rows of a LOAD or STORE; None for a single row or spread bytes."""
    get = values.get
    counts = (get("planes", 0), get("rows", 0))
    if max(counts) == 1 or get("spread", 0):
        return None
    steps = (get("spad_plane_step", 0), get("spad_row_step", 0))
    return StridedRange(get("spad_addr", 0), get("row_bytes", 0), counts, steps)


def _read_input(values: Mapping[str, int], config: Config) -> StridedRange | None:
    """Return the input bytes that EXEC reads: channels of positions, or a part of each row.

    Returns None if it reads whole rows.
    """
    get = values.get
    run = (get("oc_blocks", 0) - 1) * get("oc_step", 0) + get("blocks", 0) * config.rows
    if get("window", 0) and get("paired", 0):
        run += config.paired_bytes - config.rows
    columns = (get("kernel_cols", 0) - 1) * get("kernel_col_step", 0)
    span = (get("width", 0) - 1) * get("x_step", 0) + columns
    return _read_channels(values, run, span) or _read_part(values, run + span)


def _read_channels(values: Mapping[str, int], run: int, span: int) -> StridedRange | None:
    """Return the input bytes of EXEC if it reads the same `run` bytes of each position, else None.

    That is the case if outputs and taps are whole positions apart; the result includes positions
    that EXEC skips. The last position begins `span` bytes after the first.
    """
    get = values.get
    step, width = get("x_step", 0), get("input_row_bytes", 0)
    if step == 0 or width % step or span % step:
        return None
    position, first = divmod(get("first_byte", 0), step)
    if width == step and (first == 0 or values["first_byte"] >= 0):
        # Nothing beyond the row is read. A vector that begins before the row ends inside it.
        run = min(run, step - first)
    if first + run > step:
        return None
    low, high = _clip_range(position, position + span // step + 1, width // step)
    counts = (get("input_rows", 0), high - low)
    start = get("input_addr", 0) + low * step + first
    return StridedRange(start, run, counts, (get("input_pitch", 0), step))


def _read_part(values: Mapping[str, int], length: int) -> StridedRange | None:
    """Return the input bytes of EXEC if it reads a part of each row; None if it reads whole rows.

    The part begins at `first_byte` and has `length` bytes, of which those outside the row are
    padding.
    """
    get = values.get
    first, width = get("first_byte", 0), get("input_row_bytes", 0)
    low, high = _clip_range(first, first + length, width)
    if high - low == width:
        return None
    start, pitch = get("input_addr", 0) + low, get("input_pitch", 0)
    return StridedRange(start, high - low, (get("input_rows", 0),), (pitch,))


def _clip_range(low: int, high: int, size: int) -> tuple[int, int]:
    """Return the range from `low` to `high` (exclusive), clipped to ``0 .. size``.

    At least one element remains.
    """
    first = min(max(low, 0), size - 1)
    return first, max(first + 1, min(high, size))


def _post_channels(values: Mapping[str, int], base: str, config: Config) -> StridedRange:
    """Return the scratchpad bytes that a POST reads or writes: the same channels of each position.

    `base` is the field with the address of the first byte, of the source or of the destination.
    """
    get = values.get
    counts = (get("height", 0), get("width", 0))
    steps = (get(_POST_PITCHES[base], 0), get("x_step", 0))
    run = (get("oc_blocks", 0) - 1) * config.columns + get("tail", 0)
    return StridedRange(get(base, 0), run * post_element_bytes(values), counts, steps)
