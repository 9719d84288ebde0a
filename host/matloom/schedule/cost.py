"""Predicted cycles of a command buffer: decoupled units, their queues and their waits."""

from bisect import bisect_right
from dataclasses import dataclass

from matloom.arch.instruction import Instruction
from matloom.arch.isa import FORMATS, INSTRUCTION_WORD_BYTES, UNITS, Opcode, Region
from matloom.arch.machine import Machine

__all__ = ["Prediction", "predict"]

#: Cycles that the dispatcher takes for an instruction: its words, its extents, its verdict.
_DISPATCH = {Opcode.LOAD: 25, Opcode.EXEC: 30, Opcode.POST: 37, Opcode.STORE: 25}

#: Bytes of a burst of commands; bytes that are read ahead.
_BURST = 256
_READ_AHEAD = 2 * _BURST

#: Places of a queue, however shallow it should be.
_QUEUE_PLACES = 3

#: By how much the fetch of a first block's parameters is longer than the way of its results.
_POST_LEAD = 5

#: Cycles between the end of what an instruction waits for and its first action.
_HANDOVER = 3

_WAITS = ("wait_load", "wait_exec", "wait_post", "wait_store")


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Cycles of a command buffer.

    Members
    -------
    cycles:
        From the doorbell to done.
    timestamps:
        Completion time of each timestamp.
    busy:
        Cycles that each unit works, by its name in lower case.
    """

    cycles: int
    timestamps: dict[int, int]
    busy: dict[str, int]


class _Commands:
    """When commands arrive at the dispatcher: bursts, each asked for when there is room for it."""

    def __init__(self, machine: Machine, size: int) -> None:
        self._machine, self._left = machine, size - _READ_AHEAD
        self._burst = machine.transfer_cycles(_BURST)
        #: When each burst begins to arrive.
        self._begins = [machine.command_latency, machine.command_latency + self._burst]
        self._taken = 0

    def arrival(self, size: int) -> int:
        """Return when the next command, of so many bytes, has arrived."""
        number, place = divmod(self._taken + size - 1, _BURST)
        beats = self._machine.transfer_cycles(place + 1) - self._machine.beat_cycles + 1
        return round(self._begins[number] + beats)

    def take(self, size: int, time: int, loads: "_Loads") -> None:
        """Make room at a time, and ask for the bursts that it is enough for."""
        self._taken += size
        while self._left > 0 and self._taken >= (len(self._begins) - 1) * _BURST:
            place = time + loads.under_way(time)
            begins = max(time + self._machine.command_latency, place, self._begins[-1])
            self._begins.append(max(begins, self._begins[-1] + self._burst))
            beats = round(self._machine.transfer_cycles(min(self._left, _BURST)))
            loads.make_way(round(begins), beats)
            self._left -= _BURST


class _Loads:
    """When beats of LOADs come.

    Members
    -------
    done:
        When each is done.
    """

    def __init__(self, machine: Machine, free: int) -> None:
        self.done: list[int] = []
        self.free = free
        self._machine = machine
        self._starts: list[int] = []
        self._ends: list[int] = []

    def append(self, start: int, hold: int, more: int) -> None:
        """Note the beats of the next LOAD, and what passes until it completes."""
        self._starts.append(start)
        self._ends.append(start + hold)
        self.done.append(start + hold + more)
        self.free = start + hold

    def skip(self) -> None:
        """Note a LOAD that is left out."""
        self._starts.append(self._starts[-1] if self._starts else 0)
        self._ends.append(self._ends[-1] if self._ends else 0)
        self.done.append(0)

    def under_way(self, time: int) -> float:
        """Return the cycles of the beats that have been asked for at a time."""
        asked = time + self._machine.load_latency
        at = bisect_right(self._starts, asked) - 1
        return min(self._machine.window_cycles, self._ends[at] - time) if at >= 0 else 0.0

    def make_way(self, time: int, beats: int) -> None:
        """Let beats of commands come at a time: those of LOADs behind it come later."""
        at = len(self._ends) - 1
        while at >= 0 and self._ends[at] > time:
            self._ends[at] += beats
            self.done[at] += beats
            if self._starts[at] >= time:
                self._starts[at] += beats
            at -= 1
        if self._ends and self.free > time:
            self.free = self._ends[-1]


def _ready(
    instruction: Instruction, dispatch: int, done: dict[Opcode, list[int]], machine: Machine
) -> int:
    """Return when what an instruction waits for is done, from its dispatch on."""
    ready = dispatch + _HANDOVER
    for field, other in zip(_WAITS, UNITS, strict=True):
        wait = instruction.values.get(field, 0)
        if wait:
            ready = max(ready, done[other][-wait] + _HANDOVER)
    reads = machine.post_reads(instruction.values) if instruction.opcode is Opcode.POST else 0
    if reads:
        # Its first block is fetched as soon as the LOADs are there.
        wait = instruction.values.get("wait_load", 0)
        loaded = done[Opcode.LOAD][-wait] if wait else 0
        ready = max(ready, max(dispatch, loaded) + _HANDOVER + reads + _POST_LEAD)
    return ready


def predict(
    instructions: list[Instruction], machine: Machine, *, resident: bool = False
) -> Prediction:
    """Return the predicted cycles of a command buffer that ends with END.

    With `resident`, the LOADs of constants are left out, as if these were in the scratchpad.
    """
    done: dict[Opcode, list[int]] = {unit: [] for unit in UNITS}
    started: dict[Opcode, list[int]] = {unit: [] for unit in UNITS}
    free = dict.fromkeys(UNITS, 0)
    busy = dict.fromkeys(UNITS, 0)
    timestamps: dict[int, int] = {}
    sizes = [
        FORMATS[instruction.opcode].instruction_words * INSTRUCTION_WORD_BYTES
        for instruction in instructions
    ]
    first = machine.transfer_cycles(min(sum(sizes), _READ_AHEAD))
    fetched = _Commands(machine, sum(sizes))
    loads = _Loads(machine, machine.command_latency + round(first))
    done[Opcode.LOAD] = loads.done
    dispatch, places = 0, max(machine.config.queue_depth, _QUEUE_PLACES)
    for instruction, size in zip(instructions, sizes, strict=True):
        unit = instruction.opcode
        if unit is Opcode.END:
            break
        queue = started[unit]
        if resident and unit is Opcode.LOAD and instruction.values.get("region") == Region.PROGRAM:
            queue.append(0)
            loads.skip()
            continue
        dispatch = max(dispatch, fetched.arrival(size)) + _DISPATCH[unit]
        fetched.take(size, dispatch, loads)
        if len(queue) >= places:
            dispatch = max(dispatch, queue[-places])
        taken_at = ready = _ready(instruction, dispatch, done, machine)
        if unit is Opcode.LOAD:
            ready += machine.load_latency
        free[Opcode.LOAD] = loads.free
        start = max(ready, free[unit])
        hold, more = machine.duration(instruction, behind=bool(queue) and free[unit] >= ready)
        free[unit] = start + hold
        if unit is Opcode.LOAD:
            loads.append(start, hold, more)
            start = max(taken_at, start - machine.load_latency)
        else:
            done[unit].append(start + hold + more)
        queue.append(start)
        busy[unit] += hold
        timestamp = instruction.values.get("timestamp", 0)
        if timestamp:
            timestamps[timestamp] = done[unit][-1]
    cycles = max((times[-1] for times in done.values() if times), default=dispatch) + _HANDOVER
    return Prediction(
        cycles=cycles,
        timestamps=timestamps,
        busy={unit.name.lower(): count for unit, count in busy.items()},
    )
