"""Transpositions of matrices of bytes in two steps, each of which interleaves rows.

A copy moves one byte per cycle, because neighbours in the result come from different rows.
Interleaving `n` rows takes `n` cycles for each vector of the result: with 16 columns, two steps of
four rows take eight cycles where copies take sixteen.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, largest
from matloom.select.build import Convolution, convolution_stage
from matloom.select.context import SAME_SCALE, Context
from matloom.select.layout.base import Grid, OutputLayout
from matloom.select.layout.placed import Placed
from matloom.select.stage import ArrayStage
from matloom.select.transposed_tiles import array_transpose_stages
from matloom.select.window import Window

#: Maximum number of rows, and of positions of a row, of an EXEC.
_MAX_EXEC_ROWS = min(largest(Opcode.EXEC, name) for name in ("height", "width"))


@dataclass(frozen=True, kw_only=True)
class MatrixTranspose:
    """Transposition of `rows` rows, from `first_row` on, of matrices (in_rows, row_bytes)."""

    images: int
    in_rows: int
    row_bytes: int
    rows: int
    first_row: int = 0

    def steps(self, config: Config) -> tuple[int, int] | None:
        """Return how many rows are interleaved by the first of two steps, and by the second.

        The result is None if byte copies are as fast, or if the array's size does not permit it.
        """
        second = 1 << (config.columns.bit_length() - 1) // 2
        first, rest = divmod(config.columns, second)
        vectors = -(-self.rows // config.columns) * (first + second)
        slow = vectors >= self.rows or second > config.rows
        return None if rest or slow else (first, second)


def interleaving_stages(
    context: Context,
    tensors: tuple[str, str],
    task: MatrixTranspose,
    steps: tuple[int, int],
    place: Callable[..., OutputLayout],
) -> Iterator[ArrayStage]:
    """Yield the stages that transpose matrices by interleaving rows twice.

    Parameters
    ----------
    tensors:
        Names of the matrices and of the result.
    task:
        The matrices, and which of their rows to transpose.
    steps:
        Result of `MatrixTranspose.steps`.
    place:
        Function that returns the layout of some outputs from their `grid` and `at`, the index of
        the first row from which they are made. A row of outputs has a position for each byte of a
        row of the matrices, and a position has a byte for each of up to `columns` of these rows.
    """
    rows, middle = context.config.columns, context.buffer_name(f"{tensors[1]}, rows interleaved")
    window = _first_window(task, steps)
    first, second = steps
    single = np.eye(rows, dtype=np.int8)
    # Channel (x, y) of a position is byte x of row y.
    filters = single.reshape(rows, second, first, 1).swapaxes(1, 2)
    yield _selecting_convolution(context, (tensors[0], middle), window, filters, None)
    filters = single.reshape(rows, second, 1, first)
    whole, rest = divmod(task.rows, rows)
    for at, count, size in ((0, whole, rows), (whole, 1, rest)):
        if count * size:
            part = _second_window(window, (at, count), task.row_bytes)
            layout = partial(place, at=at * rows)
            yield _selecting_convolution(
                context, (middle, tensors[1]), part, filters[:size], layout
            )


def _first_window(task: MatrixTranspose, steps: tuple[int, int]) -> Window:
    """Return the window of the first step, which interleaves `steps[0]` rows."""
    first, second = steps
    return Window(
        images=task.images,
        in_height=task.in_rows,
        in_width=task.row_bytes,
        depth=1,
        out_height=-(-task.rows // first),
        out_width=-(-task.row_bytes // second),
        kernel_height=first,
        kernel_width=second,
        stride_y=first,
        stride_x=second,
        pad_top=-task.first_row,
    )


def _second_window(window: Window, part: tuple[int, int], row_bytes: int) -> Window:
    """Return the window of the second step for some of its output rows.

    `window` is that of the first step; `part` has the first of these rows and their number.
    """
    first, second = window.stride_y, window.stride_x
    return Window(
        images=window.images,
        in_height=window.out_height,
        in_width=window.out_width * second,
        depth=first,
        out_height=part[1],
        out_width=row_bytes,
        kernel_height=second,
        kernel_width=1,
        stride_y=second,
        pad_top=-part[0] * second,
    )


def transpose_matrices(
    context: Context, tensors: tuple[str, str], task: MatrixTranspose
) -> tuple[ArrayStage, ...]:
    """Return the stages that transpose whole matrices into a dense tensor.

    There are none if byte copies are as fast, or if a matrix is too large for one EXEC.
    """
    turned = tuple(
        array_transpose_stages(context, tensors, (task.images, task.rows, task.row_bytes))
    )
    if turned:
        return turned
    config, steps, sizes = context.config, task.steps(context.config), (task.rows, task.row_bytes)
    if steps is None or max(sizes) > _MAX_EXEC_ROWS:
        return ()

    def place(*, grid: Grid, at: int) -> Placed:
        """Return the layout of the rows of the result that begin at byte `at` of a column."""
        last = at + grid.rows * config.columns >= task.rows
        return Placed(
            grid=grid,
            offset=at,
            x_step=task.rows,
            row_step=config.columns,
            image_step=task.rows * task.row_bytes,
            complete=task.images * task.rows * task.row_bytes if last else 0,
        )

    return tuple(interleaving_stages(context, tensors, task, steps, place))


def _selecting_convolution(
    context: Context,
    tensors: tuple[str, str],
    window: Window,
    filters: np.ndarray,
    place: Callable[..., OutputLayout] | None,
) -> ArrayStage:
    """Return the stage of a convolution that selects bytes: each filter has a single 1."""
    return convolution_stage(
        Convolution(
            name=context.name,
            nodes=context.nodes,
            tensors=tensors,
            window=window,
            filters=filters,
            bias=np.zeros(len(filters), np.int32),
            input_zero=0,
            scale=SAME_SCALE,
            config=context.config,
            macs=0,
            place=place,
        )
    )
