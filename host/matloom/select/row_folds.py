"""Chooses how many rows of a one-channel image are folded into channels, and how they are used.

A folded row (`select.layout.row_folding`) serves a row of outputs, in fewer steps than the image
would take, or a group of rows of outputs, so that rows of the image are loaded less often.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from matloom.arch.isa import Opcode, largest
from matloom.arch.machine import Machine
from matloom.cost import step_cycles
from matloom.ir.names import derived_name
from matloom.select.constant import ConstantWeights
from matloom.select.grouped_rows import GroupedRows
from matloom.select.layout.base import Transfer
from matloom.select.layout.row_folding import RowFolding
from matloom.select.operand import join_steps
from matloom.select.stage import ArrayStage
from matloom.select.window import Window

#: Maximum number of folded rows, and of bytes of a folded row.
_MOST_ROWS, _LONGEST_ROW = largest(Opcode.EXEC, "input_rows"), 1 << 16

#: Fraction of the plain stage's cycles above which folding does not pay, as it delays the start.
_MAX_SHARE = 0.85

#: Overhead of a LOAD in cycles, beyond its writes.
_LOAD_CYCLES = 14

#: Function that builds the stage of a window and its filters.
_Make = Callable[[Window, np.ndarray], ArrayStage]

#: Approximate number of tiles of a first layer: the array starts when the first one is loaded.
_FIRST_LAYER_TILES = 4


def fastest_row_folding(
    make: Callable[[Window, np.ndarray, str], ArrayStage],
    *,
    window: Window,
    filters: np.ndarray,
    tensor: str,
    zero: int,
    machine: Machine,
) -> ArrayStage:
    """Return the stage with the fastest row folding, or the one without if that is about as fast.

    Parameters
    ----------
    make:
        Builds the stage of a window, its filters (int8: channels, rows, columns, depth) and the
        name of its input.
    tensor:
        Name of the input, which is in external memory when the segment starts.
    zero:
        The zero point, which pads above the first and below the last row.
    """
    plain, config = make(window, filters, tensor), machine.config
    name, stages = derived_name(tensor, f"rows for {plain.name}"), [plain]

    def make_folded(window: Window, filters: np.ndarray) -> ArrayStage:
        """Return the convolution's stage with this window and filters."""
        return make(window, filters, name)

    for spread in range(1, config.last_spread + 1):
        for fold, build in (
            (_interleaved_folding, _folded_stages),
            (_grouped_folding, _grouped_stages),
        ):
            rows = fold(window, tensor, 1 << spread, zero)
            if rows is not None and rows.size <= config.spad_bytes // 4:
                stages += build(make_folded, window, filters, rows)
    best = min(stages, key=lambda stage: _estimated_cycles(stage, machine))
    if _estimated_cycles(best, machine) > _MAX_SHARE * _estimated_cycles(plain, machine):
        return plain
    return replace(best, macs=plain.macs)


def _interleaved_folding(
    window: Window, tensor: str, channels: int, zero: int
) -> RowFolding | None:
    """Return a folding of `channels` image rows into channels, for one output row each.

    Return None if the window cannot use it.
    """
    if window.kernel_height == 1 or channels % window.stride_y:
        return None
    taps = -(-window.kernel_height // channels)
    rows = window.out_height + (taps - 1) * (channels // window.stride_y)
    return _folding_of_rows(window, tensor, channels, zero, rows=rows, row_step=window.stride_y)


def _grouped_folding(window: Window, tensor: str, channels: int, zero: int) -> RowFolding | None:
    """Return the folding in which each folded row serves several output rows.

    Return None if there is none.
    """
    group = (channels - window.kernel_height) // window.stride_y + 1
    if group <= 1:
        return None
    rows, row_step = -(-window.out_height // group), group * window.stride_y
    return _folding_of_rows(window, tensor, channels, zero, rows=rows, row_step=row_step)


def _folding_of_rows(
    window: Window, tensor: str, channels: int, zero: int, *, rows: int, row_step: int
) -> RowFolding | None:
    """Return a folding of an image's rows into `channels` channels; None if it is not possible.

    It is not if images, channels or dilation forbid it, or if it is too large. The folded image has
    `rows` rows, which begin `row_step` rows of the image apart.
    """
    if window.depth > 1 or window.images > 1 or window.dilation_y > 1:
        return None
    if rows > _MOST_ROWS or window.in_width * channels > _LONGEST_ROW:
        return None
    return RowFolding(
        source=tensor,
        source_rows=window.in_height,
        source_row_bytes=window.in_width,
        first_row=-window.pad_top,
        row_step=row_step,
        channels=channels,
        rows=rows,
        fill_value=zero & 255,
    )


def _folded_stages(
    make: _Make, window: Window, filters: np.ndarray, rows: RowFolding
) -> list[ArrayStage]:
    """Return a list with the stage in which each folded row serves one output row."""
    stage = make(*fold_filters(window, filters, rows))
    return [replace(stage, input_layout=rows)]


def _grouped_stages(
    make: _Make, window: Window, filters: np.ndarray, rows: RowFolding
) -> list[ArrayStage]:
    """Return a list with the stage in which each folded row serves several output rows.

    Rows of the image are loaded less often than if each served one output row. The list is empty if
    a vector cannot hold all taps of an output.
    """
    other = replace(
        window, in_height=rows.rows, depth=rows.channels, kernel_height=1, stride_y=1, pad_top=0
    )
    spare = rows.channels - window.kernel_height
    stages = []
    for above in range(0, rows.row_step, window.stride_y):
        padded = np.pad(filters, ((0, 0), (above, spare - above), (0, 0), (0, 0)))
        stages.append(make(other, np.ascontiguousarray(padded.transpose(0, 3, 2, 1))))
    nest, *others = {stage.loop_nest for stage in stages}
    if others or nest.steps > 1:
        return []
    weights = [each.weights for each in stages if isinstance(each.weights, ConstantWeights)]
    grouped = GroupedRows(inner=nest, group=len(stages))
    return [replace(stages[0], input_layout=rows, loop_nest=grouped, weights=join_steps(weights))]


def fold_filters(
    window: Window, filters: np.ndarray, rows: RowFolding
) -> tuple[Window, np.ndarray]:
    """Return the window and the filters that compute the same outputs from folded rows."""
    channels, height, width, _depth = filters.shape
    taps = -(-height // rows.channels)
    padded = np.pad(filters, ((0, 0), (0, taps * rows.channels - height), (0, 0), (0, 0)))
    thick = padded.reshape(channels, taps, rows.channels, width).transpose(0, 1, 3, 2)
    other = replace(
        window,
        in_height=rows.rows,
        depth=rows.channels,
        kernel_height=taps,
        stride_y=1,
        dilation_y=rows.channels // window.stride_y,
        pad_top=0,
    )
    return other, np.ascontiguousarray(thick)


def _estimated_cycles(stage: ArrayStage, machine: Machine) -> int:
    """Return an estimate of the cycles of the array and of the input's LOADs.

    Both overlap except in the first tile.
    """
    config = machine.config
    grid, rows = stage.grid, stage.input_layout
    vectors = stage.loop_nest.vectors_per_step(grid.rows, grid.width)
    streamed = step_cycles(vectors, config) * stage.loop_nest.steps * grid.blocks
    loaded = int(machine.transfer_cycles(grid.images * rows.rows * rows.row_bytes))
    if isinstance(rows, RowFolding):
        whole = Transfer(start=0, size=rows.size, runs=1, step=0, address=0, pitch=0)
        loads = [machine.load_cycles(fields)[1] for fields in rows.loads(whole)]
        # Each tile has LOADs of its own, in the worst case as many as the whole tensor.
        loaded = sum(loads) + _FIRST_LAYER_TILES * len(loads) * _LOAD_CYCLES
    return max(streamed, loaded) + min(streamed, loaded) // _FIRST_LAYER_TILES
