"""Addresses on chip that an instruction touches, more precisely than the box of its extent."""

from collections.abc import Mapping
from typing import NamedTuple

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import NARROW, AddressSpace, Extent, Opcode, post_element_bytes

#: The field with the distance between rows, for each side of POST.
_POST_PITCHES = {"source_addr": "source_pitch", "dest_addr": "dest_pitch"}


class StridedRange(NamedTuple):
    """Lines that an instruction touches: runs of `run` lines from `start`, repeated at strides."""

    start: int
    run: int
    counts: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """End of the last run."""
        end = self.start + self.run
        if not self.counts:
            return end
        for count, step in zip(self.counts, self.steps, strict=True):
            end += (count - 1) * step
        return end


def footprint(extent: Extent, instruction: Instruction, config: Config) -> StridedRange | None:
    """Return the bytes or entries of an extent on chip; None if they fill the whole box."""
    if extent.memory is AddressSpace.ACC:
        return _pairs(instruction, config)
    if extent.memory is not AddressSpace.SPAD:
        return None
    values = instruction.values
    if extent.base == "input_addr":
        return _read_channels(values, config)
    if extent.base in _POST_PITCHES:
        return _post_channels(values, extent.base, config)
    if extent.base == "spad_addr":
        return _moved_rows(values)
    return None


def _pairs(instruction: Instruction, config: Config) -> StridedRange | None:
    """Return the entries of pairs, if the instruction uses pairs of a single bank."""
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
    """Return the rows of LOAD or STORE, if there are several with contiguous bytes."""
    get = values.get
    counts = (get("planes", 0), get("rows", 0))
    if max(counts) == 1 or get("spread", 0):
        return None
    steps = (get("spad_plane_step", 0), get("spad_row_step", 0))
    return StridedRange(get("spad_addr", 0), get("row_bytes", 0), counts, steps)


def _read_channels(values: Mapping[str, int], config: Config) -> StridedRange | None:
    """Return the input of EXEC if it reads the same channels of each position.

    That holds if outputs and taps are whole positions apart; EXEC may skip some positions.
    """
    get = values.get
    step, width = get("x_step", 0), get("input_row_bytes", 0)
    if step == 0 or width % step:
        return None
    if get("kernel_cols", 0) > 1 and get("kernel_col_step", 0) % step:
        return None
    first = get("first_byte", 0) % step
    run = (get("oc_blocks", 0) - 1) * get("oc_step", 0) + get("blocks", 0) * config.rows
    if get("window", 0) and get("paired", 0):
        run += config.paired_bytes - config.rows
    if width == step and (first == 0 or values["first_byte"] >= 0):
        # Nothing beyond the row is read. A vector that begins before the row ends inside it.
        run = min(run, step - first)
    if first + run > step:
        return None
    counts = (get("input_rows", 0), width // step)
    return StridedRange(get("input_addr", 0) + first, run, counts, (get("input_pitch", 0), step))


def _post_channels(values: Mapping[str, int], base: str, config: Config) -> StridedRange:
    """Return the bytes of POST if they are the same channels of each position."""
    get = values.get
    counts = (get("height", 0), get("width", 0))
    steps = (get(_POST_PITCHES[base], 0), get("x_step", 0))
    run = (get("oc_blocks", 0) - 1) * config.columns + get("tail", 0)
    return StridedRange(get(base, 0), run * post_element_bytes(values), counts, steps)
