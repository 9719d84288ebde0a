"""Assigns accumulator entries to tiles, alternating between both halves of the accumulators."""

from matloom.arch.machine import Machine
from matloom.cost import ArithmeticTimeline
from matloom.schedule.commands.dependencies import DependencyTracker
from matloom.schedule.tiling.tiles import ArrayTile
from matloom.select.stage import ArrayStage


class Accumulators:
    """Assigns accumulator entries to tiles, in the order in which they are emitted.

    The accumulators give the array priority over POST. A tile that updates its sums in every cycle
    would therefore block POST from finishing an earlier tile in the same half.

    Parameters
    ----------
    emitted:
        Has the instructions emitted so far, and their costs.

    Members
    -------
    half:
        The half of the last tile.
    """

    def __init__(self, machine: Machine, emitted: DependencyTracker):
        self._machine, self._emitted = machine, emitted
        self._config = machine.config
        self.half = 1
        #: The first entry of that tile, and the end of the last tile in each half.
        self._entry, self._end = 0, [0, 0]
        self._timeline = ArithmeticTimeline(machine)
        #: The half with the sums of stages that share them; no other tile may use it.
        self._kept: int | None = None

    def of(self, stage: ArrayStage, tile: ArrayTile) -> int:
        """Return the first accumulator entry of a tile, in one of two halves of the accumulators.

        Consecutive tiles share a half if that does not block POST, so that no tile waits for POST
        of the one before. Otherwise halves alternate.
        """
        half, sums = stage.entries(self._config), stage.sums_per_output
        if stage.shares_sums:
            return self._entry_of_shared_sums(stage, tile)
        if tile.prologue_sums is not None:
            self.half, self._end = tile.prologue_sums.half, [0, 0]
            return sums * (self.half * half + tile.prologue_sums.entry)
        if not tile.first_step:
            self.half = 1 - (self.half if self._kept is None else self._kept)
            # A tile of pairs, or of several sums for each output, counts fewer entries than an
            # earlier tile of single sums may have.
            end = min(self._end[self.half], half)
            first = end if end + tile.entries <= half else 0
            if not first < end <= first + tile.entries and not self._lets_post_read(tile):
                # The tile waits for the last entry that POST reads.
                first = max(0, end - tile.entries)
            self._end[self.half] = first + tile.entries
            self._entry = sums * (self.half * half + first)
        return self._entry

    def _entry_of_shared_sums(self, stage: ArrayStage, tile: ArrayTile) -> int:
        """Return the first entry for a tile of sums to which several stages add.

        Its last stage frees it.
        """
        if self._kept is None:
            self._kept = 1 - self.half
        half, entry = self._kept, tile.first_block * tile.positions
        last = tile.end_block == stage.grid.blocks and tile.end_step == stage.steps
        if last and not stage.is_unfinished:
            self.half, self._kept = half, None
            self._end[half] = entry + tile.entries
        return half * stage.entries(self._config) + entry

    def _lets_post_read(self, tile: ArrayTile) -> bool:
        """Return whether POST can read from the accumulators' half in which `tile` runs."""
        slow = max(self._config.tile_load_cycles, self._config.acc_update_latency)
        if 2 * tile.positions <= slow:
            return True
        self._timeline.add_emitted(self._emitted.instructions, self._emitted.costs)
        return self._timeline.post_has_read(self.half)
