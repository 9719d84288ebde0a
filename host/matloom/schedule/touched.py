"""The addresses on chip that an instruction touches, closer than the box of its extent."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import NARROW, Extent, Memory, Opcode, post_element_bytes

__all__ = ["Lines", "touched_lines", "view"]

_Entry = TypeVar("_Entry", bound=np.generic)

#: The field that holds the bytes from row to row, for each side of POST.
_POST_PITCHES = {"source_addr": "source_pitch", "dest_addr": "dest_pitch"}


@dataclass(frozen=True)
class Lines:
    """Lines that an instruction touches: `run` of them from `start`, again for each count."""

    start: int
    run: int
    counts: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """Line behind the last."""
        last = sum((count - 1) * step for count, step in zip(self.counts, self.steps, strict=True))
        return self.start + last + self.run


def view(table: NDArray[_Entry], lines: Lines) -> NDArray[_Entry]:
    """Return the entries of some lines of a table (units, lines), units first."""
    assert lines.start >= 0
    assert lines.end <= table.shape[1], "as_strided checks no bounds"
    unit, line = table.strides
    return as_strided(
        table[:, lines.start :],
        (len(table), *lines.counts, lines.run),
        (unit, *(step * line for step in lines.steps), line),
    )


def touched_lines(extent: Extent, instruction: Instruction, config: Config) -> Lines | None:
    """Return the bytes or entries of an extent on chip; None where they are the whole box."""
    if extent.memory is Memory.ACC:
        return _pairs(instruction, config)
    if extent.memory is not Memory.SPAD:
        return None
    values = defaultdict(int, instruction.values)  # Fields not given are zero.
    if extent.base == "input_addr":
        return _read_channels(values, config)
    if extent.base in _POST_PITCHES:
        return _post_channels(values, extent.base, config)
    if extent.base == "spad_addr":
        return _moved_rows(values)
    return None


def _pairs(instruction: Instruction, config: Config) -> Lines | None:
    """Return the entries of pairs, where they are pairs and of one bank."""
    if instruction.opcode is Opcode.EXEC:
        blocks = instruction.oc_blocks if instruction.mode in NARROW else 0
    else:
        blocks = -(-instruction.oc_blocks // 2) if instruction.pairs else 0
    if not blocks:
        return None
    first, apart = instruction.acc_addr, config.pair_distance
    count = blocks * instruction.height * instruction.width
    bank = first // apart
    if (first + count - 1) // apart != bank:
        return None
    return Lines(first + bank * apart, count, (2,), (apart,))


def _moved_rows(values: dict[str, int]) -> Lines | None:
    """Return the rows of LOAD or STORE, where there are several and their bytes are dense."""
    counts = (values["planes"], values["rows"])
    if max(counts) == 1 or values["spread"]:
        return None
    steps = (values["spad_plane_step"], values["spad_row_step"])
    return Lines(values["spad_addr"], values["row_bytes"], counts, steps)


def _read_channels(values: dict[str, int], config: Config) -> Lines | None:
    """Return what EXEC reads if it is the same channels of each position of its input.

    So it is where positions and taps are whole positions apart; those it reads may be fewer.
    """
    step, width = values["x_step"], values["input_row_bytes"]
    if step == 0 or width % step:
        return None
    if values["kernel_cols"] > 1 and values["kernel_col_step"] % step:
        return None
    first = values["first_byte"] % step
    run = (values["oc_blocks"] - 1) * values["oc_step"] + values["blocks"] * config.rows
    if values["window"] and values["paired"]:
        run += config.paired_bytes - config.rows
    if width == step:
        run = min(run, step - first)  # What lies beyond the row is not read.
    if first + run > step:
        return None
    counts = (values["input_rows"], width // step)
    return Lines(values["input_addr"] + first, run, counts, (values["input_pitch"], step))


def _post_channels(values: dict[str, int], base: str, config: Config) -> Lines:
    """Return the bytes of POST: some channels of each position."""
    counts = (values["height"], values["width"])
    steps = (values[_POST_PITCHES[base]], values["x_step"])
    run = (values["oc_blocks"] - 1) * config.columns + values["tail"]
    return Lines(values[base], run * post_element_bytes(values), counts, steps)
