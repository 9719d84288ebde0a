"""Which accumulators a tile has: halves take turns."""

from matloom.arch.config import Config
from matloom.schedule.tiles import ArrayTile
from matloom.select.stage import ArrayStage

__all__ = ["Accumulators"]


class Accumulators:
    """Gives tiles their entries, in the order in which they are emitted.

    Members
    -------
    half:
        The half that the last tile is in.
    """

    def __init__(self, config: Config):
        self._config = config
        self.half = 1
        #: The first entry of that tile; in each half, how many small tiles have used.
        self._entry, self._used = 0, [0, 0]

    def of(self, stage: ArrayStage, tile: ArrayTile) -> int:
        """Return the first accumulator entry of a tile: halves take turns.

        Small tiles lie after each other in a half, so that none waits for POST of the one before.
        Not where sums come in every cycle: they would keep POST from their half.
        """
        half = stage.entries(self._config)
        if tile.prologue_sums is not None:
            self.half, self._used = tile.prologue_sums.half, [0, 0]
            return self.half * half + tile.prologue_sums.entry
        if not tile.first_step:
            self.half ^= 1
            first, self._used[self.half] = self._used[self.half], 0
            slow = max(self._config.tile_load_cycles, self._config.acc_update_latency)
            if 2 * tile.positions <= slow:
                first = first if first + tile.entries <= half else 0
                self._used[self.half] = first + tile.entries
                self._entry = self.half * half + first
            else:
                self._entry = self.half * half
        return self._entry
