"""Contents of the scratchpad over time: bytes that will be read later, and their kind."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.isa import AddressSpace, Opcode, Region
from matloom.profile.timeline import Timeline
from matloom.program.accesses import accesses

#: Kinds of contents of the scratchpad.
CONTENTS = ("weights and parameters", "tensors from memory", "results")

#: Approximate number of pieces into which the scratchpad is divided.
_PIECES = 256


@dataclass(frozen=True, kw_only=True)
class Holding:
    """Contents of neighbouring pieces of the scratchpad, from their first write to the last read.

    Pieces are the small equal parts (`piece_bytes`) into which the scratchpad is divided here.

    Members
    -------
    first, end:
        Index of the first piece, and of the one after the last.
    start, last_read:
        Times of the first write and of the last read, in cycles.
    content:
        Index into `CONTENTS`.
    layer:
        Index of the operator for which the contents were written; -1 if unknown.
    """

    first: int
    end: int
    start: int
    last_read: int
    content: int
    layer: int


def piece_count(config: Config) -> int:
    """Return the number of equal pieces for which contents of the scratchpad are recorded."""
    return -(-config.spad_bytes // piece_bytes(config))


def piece_bytes(config: Config) -> int:
    """Return the size in bytes of a piece of the scratchpad."""
    return -(-config.spad_bytes // _PIECES)


def holdings(timeline: Timeline, config: Config) -> tuple[Holding, ...]:
    """Return the contents of the scratchpad during a timeline, in the order of replacement.

    A piece is held from the first write of a content until its last read. It gets a new content
    when an instruction writes to it for another operator, or another kind of content.
    Neighbouring pieces that are alike are one holding.
    """
    size = piece_bytes(config)
    count = piece_count(config)
    held = _PieceStates(count)
    found: list[Holding] = []
    for span, owner in zip(timeline.spans, timeline.owners, strict=True):
        instruction = timeline.instructions[span.index]
        content = _content_index(instruction.opcode, instruction.values.get("region", 0))
        for access in accesses(instruction, config):
            if access.space[0] is not AddressSpace.SPAD or access.end <= access.start:
                continue
            pieces = slice(access.start // size, min(count, -(-access.end // size)))
            if access.write:
                found += held.write(pieces, span.start, owner, content)
            else:
                held.read(pieces, span.end)
    found += held.end()
    return tuple(found)


def _content_index(opcode: Opcode, region: int) -> int:
    """Return the kind of a transfer's content, as an index: constant, input, or result."""
    if opcode is not Opcode.LOAD:
        return 2
    return 0 if region == Region.PROGRAM else 1


class _PieceStates:
    """State of each piece of the scratchpad: first write, last read, operator, kind of content."""

    def __init__(self, count: int) -> None:
        self._start = np.full(count, -1, np.int64)
        self._last_read = np.full(count, -1, np.int64)
        self._owner = np.full(count, -1, np.int64)
        self._content = np.zeros(count, np.int64)

    def write(self, pieces: slice, time: int, owner: int, content: int) -> Iterator[Holding]:
        """Record a write to `pieces` at `time`; yield the contents that it replaces."""
        other = (self._owner[pieces] != owner) | (self._content[pieces] != content)
        other |= self._start[pieces] < 0
        ended = np.flatnonzero(other) + pieces.start
        yield from self._contents_of(ended)
        self._start[ended], self._last_read[ended] = time, -1
        self._owner[ended], self._content[ended] = owner, content

    def read(self, pieces: slice, time: int) -> None:
        """Record a read that ends at `time`."""
        last_read = self._last_read[pieces]
        np.maximum(last_read, time, out=last_read)

    def end(self) -> Iterator[Holding]:
        """Yield the contents that no write has replaced, at the end of a timeline."""
        yield from self._contents_of(np.arange(len(self._start)))

    def _contents_of(self, pieces: NDArray[np.int64]) -> Iterator[Holding]:
        """Yield the contents of `pieces` that were read, with neighbouring equal pieces joined."""
        read = pieces[
            (self._last_read[pieces] > self._start[pieces]) & (self._last_read[pieces] >= 0)
        ]
        if not len(read):
            return
        table = np.stack([self._start, self._last_read, self._owner, self._content], axis=1)[read]
        apart = (np.diff(read) != 1) | (np.diff(table, axis=0) != 0).any(axis=1)
        edges = [0, *(np.flatnonzero(apart) + 1), len(read)]
        for low, high in pairwise(edges):
            start, last_read, owner, content = table[low].tolist()
            yield Holding(
                first=int(read[low]),
                end=int(read[high - 1]) + 1,
                start=max(0, start),
                last_read=last_read,
                content=content,
                layer=owner,
            )


def occupied_bytes(timeline: Timeline, config: Config) -> list[tuple[int, int]]:
    """Return ascending times, each with the bytes in use from then on, in whole pieces."""
    changes: dict[int, int] = {}
    for each in holdings(timeline, config):
        pieces = each.end - each.first
        changes[each.start] = changes.get(each.start, 0) + pieces
        changes[each.last_read] = changes.get(each.last_read, 0) - pieces
    found, now, size = [], 0, piece_bytes(config)
    for time in sorted(changes):
        now += changes[time]
        found.append((time, min(now * size, config.spad_bytes)))
    return found
