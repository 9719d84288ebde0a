"""Which accumulators a tile has: halves take turns."""

from math import inf

from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode
from matloom.arch.machine import Machine
from matloom.schedule.tiles import ArrayTile
from matloom.schedule.timing import timings_of
from matloom.select.stage import ArrayStage

__all__ = ["Accumulators"]

#: Cycles from the end of an instruction to the start of one that waits for it.
_HANDOVER = 3

#: Reads a cycle of EXEC in a bank that leave POST too few.
_BUSY = 0.9


class Accumulators:
    """Gives tiles their entries, in the order in which they are emitted.

    A memory of sums serves the array before POST. So a tile whose sums come in every cycle would
    keep POST from the half that it is in, were POST not done with the tile before it there.

    Parameters
    ----------
    instructions:
        Those that were emitted; more come while tiles ask for entries.

    Members
    -------
    half:
        The half that the last tile is in.
    """

    def __init__(self, machine: Machine, instructions: list[Instruction]):
        self._machine, self._instructions = machine, instructions
        self._config = machine.config
        self.half = 1
        #: The first entry of that tile, and the end of the last tile in each half.
        self._entry, self._end = 0, [0, 0]
        self._timeline = _Timeline(machine)

    def of(self, stage: ArrayStage, tile: ArrayTile) -> int:
        """Return the first accumulator entry of a tile: halves take turns.

        Tiles lie after each other in a half, so that none waits for POST of the one before, where
        that keeps POST from nothing.
        """
        half = stage.entries(self._config)
        if tile.prologue_sums is not None:
            self.half, self._end = tile.prologue_sums.half, [0, 0]
            return self.half * half + tile.prologue_sums.entry
        if not tile.first_step:
            self.half ^= 1
            end = self._end[self.half]
            first = end if end + tile.entries <= half else 0
            if not first < end <= first + tile.entries and not self._leaves_post(tile):
                # It waits for what POST reads last.
                first = max(0, end - tile.entries)
            self._end[self.half] = first + tile.entries
            self._entry = self.half * half + first
        return self._entry

    def _leaves_post(self, tile: ArrayTile) -> bool:
        """Return whether POST can read what lies in the half of a tile that begins now."""
        slow = max(self._config.tile_load_cycles, self._config.acc_update_latency)
        if 2 * tile.positions <= slow:
            return True
        self._timeline.follow(self._instructions)
        return self._timeline.is_read(self.half)


class _Timeline:
    """When EXEC and POST do what was emitted, if neither waits for a transfer.

    POST whose parameters lie where EXEC reads in every cycle gets them when EXEC waits: never, as
    far as is known here.
    """

    def __init__(self, machine: Machine):
        self._timings, self._latency = timings_of(machine), machine.exec_latency
        self._half = machine.config.acc_entries // 2
        self._seen = 0
        self._done: dict[Opcode, list[int]] = {Opcode.EXEC: [], Opcode.POST: []}
        self._free = dict.fromkeys(self._done, 0)
        #: When the last of POST's reads of each half is done; reads a cycle of EXEC in each bank.
        self._read, self._reads = [0.0, 0.0], dict[int, float]()

    def follow(self, instructions: list[Instruction]) -> None:
        """Take note of the instructions that came since the last time."""
        for instruction in instructions[self._seen :]:
            opcode, get = instruction.opcode, instruction.values.get
            if opcode not in self._done:
                continue
            timing = self._timings.of(instruction)
            work, more = timing.durations[0]
            start = self._free[opcode]
            for unit, wait in ((Opcode.EXEC, "wait_exec"), (Opcode.POST, "wait_post")):
                if get(wait):
                    start = max(start, self._done[unit][-get(wait, 0)] + _HANDOVER)
            self._free[opcode] = start + work
            self._done[opcode].append(start + work + more)
            if opcode is Opcode.EXEC:
                self._reads = timing.reads
                continue
            half = get("acc_addr", 0) // (self._half >> get("pairs", 0))
            busy = max((self._reads.get(bank, 0.0) for bank, _ in timing.params.parts), default=0.0)
            starves = timing.param_reads > 0 and busy > _BUSY
            self._read[half] = inf if starves else start + timing.cycles
        self._seen = len(instructions)

    def is_read(self, half: int) -> bool:
        """Return whether POST has read a half when sums of an EXEC that begins now come to it."""
        return self._read[half] <= self._free[Opcode.EXEC] + self._latency
