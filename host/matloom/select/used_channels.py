"""Skips input channels that a layer does not use: those whose weights are all zero.

A shuffle of channels before a layer becomes part of its weights, which are zero for channels that
the layer does not use. EXEC then reads runs of bytes at equal distances.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from matloom.arch.isa import Opcode, largest
from matloom.ir.graph import Array
from matloom.select.loop_nest import MAX_TAPS, LoopNest

_LONGEST_STEP = largest(Opcode.EXEC, "kernel_col_step")


@dataclass(frozen=True, kw_only=True)
class Reads:
    """Bytes of an input position that EXEC reads for each output block: runs at equal distances.

    Members
    -------
    first:
        The first byte that the first output block reads.
    block_step:
        Distance in bytes from the first byte of one output block to that of the next.
    runs, run_step:
        Number of runs of bytes, and bytes from the start of one to the start of the next.
    vectors:
        Number of vectors of a run.
    """

    first: int
    block_step: int = 0
    runs: int = 1
    run_step: int = 0
    vectors: int

    @property
    def steps(self) -> int:
        """Number of vectors of a position that each output block reads."""
        return self.runs * self.vectors

    def gather(self, matrix: Array, rows: int, block: int) -> Array:
        """Return the weights in the order in which EXEC reads their bytes.

        The result is int8 (kernel rows, runs, bytes of a run, output channels).

        Parameters
        ----------
        matrix:
            int8 (kernel rows, 1, bytes, output channels).
        rows, block:
            Size in bytes of a vector, and number of channels of an output block.
        """
        kernel_rows, _taps, _depth, channels = matrix.shape
        found = np.zeros((kernel_rows, self.runs, self.vectors * rows, channels), np.int8)
        for number, at in enumerate(range(0, channels, block)):
            own = matrix[:, 0, :, at : at + block]
            for byte in np.flatnonzero(own.any(axis=(0, 2))):
                place = int(byte) - self.first - number * self.block_step
                run = min(place // self.run_step, self.runs - 1) if self.runs > 1 else 0
                found[:, run, place - run * self.run_step, at : at + block] = own[:, byte]
        return found


def used_channels(
    nest: LoopNest, matrix: Array, rows: int, block: int, element: int
) -> tuple[LoopNest, Array]:
    """Return a loop nest that reads only bytes with nonzero weights, and the weights for it.

    Return both unchanged if that saves nothing. Parameters are those of `shortest_reads`; a kernel
    has one column.
    """
    reads = shortest_reads(matrix, rows, block, element)
    if reads is None:
        return nest, matrix
    nest = replace(
        nest,
        kernel_cols=reads.runs,
        kernel_col_step=reads.run_step,
        blocks=reads.vectors,
        oc_step=reads.block_step,
        pad_left_bytes=nest.pad_left_bytes - reads.first,
    )
    return nest, reads.gather(matrix, rows, block)


def shortest_reads(matrix: Array, rows: int, block: int, element: int = 1) -> Reads | None:
    """Find the reads of all bytes with nonzero weights that take the fewest vectors.

    Return None if no reads save a vector.

    Parameters
    ----------
    matrix, rows, block:
        As in `Reads.gather`.
    element:
        Size in bytes of an input element, whose places within a vector stay the same.
    """
    used = [
        np.flatnonzero(matrix[:, 0, :, at : at + block].any(axis=(0, 2)))
        for at in range(0, matrix.shape[3], block)
    ]
    if not all(len(each) for each in used):
        return None
    found, most = None, -(-matrix.shape[2] // rows)
    for step in _block_steps(used, element):
        shifted = [each - number * step for number, each in enumerate(used)]
        reads = _shortest_runs(np.unique(np.concatenate(shifted)), rows, most, element)
        if reads is not None:
            first, runs, run_step, vectors = reads
            found, most = (
                Reads(first=first, block_step=step, runs=runs, run_step=run_step, vectors=vectors),
                runs * vectors,
            )
    return found


def _block_steps(used: list[Array], element: int) -> Iterator[int]:
    """Yield the distances in bytes to try between the reads of successive output blocks."""
    yield 0
    step = int(used[-1][0] - used[0][0]) // max(1, len(used) - 1) // element * element
    if 0 < step <= _LONGEST_STEP:
        yield step


def _shortest_runs(
    places: Array, rows: int, most: int, element: int
) -> tuple[int, int, int, int] | None:
    """Find equal runs of bytes, at equal distances, that cover all `places` (indices of bytes).

    Return the first byte, the number of runs, their distance (a multiple of `element`), and the
    vectors of each. Return None if all runs take `most` vectors or more.
    """
    first, span = int(places[0]), int(places[-1] - places[0]) + 1
    for steps in range(-(-len(places) // rows), most):
        if span <= steps * rows:
            return first, 1, 0, steps
        for runs in (each for each in range(2, min(steps, MAX_TAPS) + 1) if steps % each == 0):
            size = steps // runs * rows
            least = -(-(span - size) // (runs - 1) // element) * element
            longest = min((span - 1) // (runs - 1), _LONGEST_STEP)
            for step in range(least, longest + 1, element):
                run = np.minimum((places - first) // step, runs - 1)
                if (places - first - run * step < size).all():
                    return first, runs, step, steps // runs
    return None
