"""Tiles of a few channels each, whose results share a buffer and a STORE."""

import itertools
import operator
from collections.abc import Iterator, Sequence

from matloom.arch.config import Config
from matloom.schedule import tuning
from matloom.schedule.tiling.tile_reads import StagedResult
from matloom.schedule.tiling.tiles import ArrayTile
from matloom.select.layout.base import Write
from matloom.select.layout.dense import staged_writes
from matloom.select.stage import ArrayStage

#: The fields of a tile that say which positions it has.
positions_of = operator.attrgetter("image", "first_row", "end_row", "first_x", "end_x", "row_step")


def stored_together(
    stage: ArrayStage, tiles: Sequence[ArrayTile], output_bytes: Sequence[int], config: Config
) -> list[range]:
    """Return for each tile the indices of the tiles that are stored with it, including itself.

    Together they have longer rows. Parts of a reduction make the same results, and stay together.

    Parameters
    ----------
    output_bytes:
        Number of output bytes of each tile.
    """
    if stage.addend is not None or stage.output_layout.limbs > 1:
        return [range(number, number + 1) for number in range(len(tiles))]
    most = config.spad_bytes // tuning.JOINT_SHARE
    row_bytes = tuning.JOINT_BEATS * config.bus_bytes
    begins, size = [0], 0
    for number, (before, tile) in enumerate(itertools.pairwise(tiles), 1):
        same = positions_of(before) == positions_of(tile)
        if same and before.first_block == tile.first_block:
            continue
        size += output_bytes[number - 1]
        follows = same and before.end_block == tile.first_block
        narrow = max(map(stage.grid.bytes_in, (before, tile))) <= row_bytes
        if not (follows and narrow) or size + output_bytes[number] > most:
            begins.append(number)
            size = 0
    groups = itertools.starmap(range, itertools.pairwise([*begins, len(tiles)]))
    return [group for group in groups for _tile in group]


def tiles_by_strip(tiles: Sequence[ArrayTile]) -> list[range]:
    """Return for each tile the indices of the tiles of its strip, including itself.

    Empty if some tiles have no strip, or if the tiles of a strip do not follow each other.
    """
    if any(tile.strip is None for tile in tiles):
        return []
    numbers = range(len(tiles))
    groups = itertools.groupby(numbers, lambda number: (tiles[number].image, tiles[number].strip))
    found = {turn: [*group] for turn, group in groups}
    turns = [range(group[0], group[-1] + 1) for group in found.values()]
    return [turn for turn in turns for _tile in turn] if sum(map(len, turns)) == len(tiles) else []


def _joint_tile(tiles: Sequence[ArrayTile]) -> ArrayTile:
    """Return one tile with all outputs of tiles that are stored together."""
    if len(tiles) == 1:
        return tiles[0]
    return tiles[0]._replace(
        end_row=max(tile.end_row for tile in tiles),
        end_x=max(tile.end_x for tile in tiles),
        end_block=max(tile.end_block for tile in tiles),
    )


class JointStores:
    """Addresses of the results of consecutive tiles that share a buffer, and one STORE per limb."""

    def __init__(self, stage: ArrayStage, tiles: Sequence[ArrayTile]) -> None:
        self._stage, self._tiles = stage, tiles
        #: For a range of tiles, one tile that covers the outputs of all.
        self._joint: dict[range, ArrayTile] = {}

    def _joint_tile_of(self, tiles: range) -> ArrayTile:
        """Return one tile with all outputs of some consecutive tiles."""
        joint = self._joint.get(tiles)
        if joint is None:
            joint = self._joint[tiles] = _joint_tile(self._tiles[tiles.start : tiles.stop])
        return joint

    def results(self, tiles: range) -> list[StagedResult]:
        """Return the results of tiles in their buffer, with their place in the tensor, by limb."""
        joint, layout = self._joint_tile_of(tiles), self._stage.output_layout
        width = joint.end_x - joint.first_x
        return [
            StagedResult(home, here.first_byte, height=joint.height, width=width)
            for home, here in zip(layout.writes(joint), staged_writes(layout, joint), strict=True)
        ]

    def writes(self, number: int, tiles: range) -> Iterator[Write]:
        """Yield where tile `number` writes in the buffer that `tiles` share, for each byte limb."""
        tile, joint, grid = self._tiles[number], self._joint_tile_of(tiles), self._stage.grid
        first = (tile.first_block - joint.first_block) * grid.block_bytes
        for write in staged_writes(self._stage.output_layout, joint):
            begin = write.first_byte + first
            begin += (tile.first_row - joint.first_row) * write.row_step
            begin += (tile.first_x - joint.first_x) * write.x_step
            yield write._replace(first_byte=begin, size=grid.bytes_in(tile))
