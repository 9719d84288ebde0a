"""Keeps track of the parts of spilled tensors that are on chip for the tiles that read them."""

from collections.abc import Collection

from matloom.schedule.plan import Buffer
from matloom.schedule.tiling.tile_reads import InputRange

#: A part of a tensor, and the buffer that holds it.
Held = tuple[Buffer, InputRange]


class RangesOnChip:
    """The parts of tensors that tiles have loaded, or made for the next stage.

    `in_turns` are the stages that alternate with their reader, some rows at a time. All parts that
    such a stage loads are remembered, because its reader may be several parts behind; for other
    stages, only the latest part is.
    """

    def __init__(self, in_turns: Collection[int]):
        self._in_turns = in_turns
        self._made: dict[str, list[Held]] = {}
        self._loaded: dict[tuple[int, str], list[Held]] = {}

    def hand_over(self, name: str, made: InputRange, buffer: Buffer) -> None:
        """Record the buffer of a part of a tensor (`made`) that tiles make for the next stage."""
        self._made.setdefault(name, []).append((buffer, made))

    def load(self, stage: int, name: str, part: InputRange, buffer: Buffer) -> Held:
        """Record the part of a tensor that a LOAD brings to a buffer for a stage; return both."""
        parts = self._loaded.setdefault((stage, name), [])
        if stage not in self._in_turns:
            parts.clear()
        parts.append((buffer, part))
        return parts[-1]

    def find(self, stage: int, name: str, wanted: InputRange) -> Held | None:
        """Return the buffer and range that contain a part of a tensor; None if it must be loaded.

        A stage finds also what the stage before loaded, if both alternate, some rows at a time.
        """
        if name in self._made:
            latest = reversed(self._made[name])
            return next(held for held in latest if held[1].start <= wanted.start)
        loaded = self._loaded.get((stage, name))
        if loaded is not None and loaded[-1][1] == wanted:
            return loaded[-1]
        if stage - 1 not in self._in_turns:
            return None
        shared = reversed(self._loaded.get((stage - 1, name), []))
        return next((held for held in shared if _contains(held[1], wanted)), None)


def _contains(part: InputRange, wanted: InputRange) -> bool:
    """Return whether a part is one run of contiguous bytes and contains another part."""
    return part.rows == 1 and part.start <= wanted.start and wanted.end <= part.end
