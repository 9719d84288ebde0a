"""Predicts the cycles of a command buffer by simulating units, queues, waits and banks."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from matloom.arch.instruction import Instruction
from matloom.arch.isa import UNITS, Opcode
from matloom.arch.machine import Machine
from matloom.cost.arrivals import READ_AHEAD, Commands, Loads
from matloom.cost.bank_waits import BankWaits
from matloom.cost.dispatch import SIZES, Waits, commands
from matloom.cost.timing import HANDOVER, Timing

#: Minimum depth of a queue, whatever the configuration.
_MIN_QUEUE_DEPTH = 3

#: Minimum number of cycles from the arrival of a POST's first parameters to its start.
_POST_LEAD_CYCLES = 5

_UNITS = {unit: number for number, unit in enumerate(UNITS)}
_LOAD, _EXEC, _POST = (_UNITS[unit] for unit in (Opcode.LOAD, Opcode.EXEC, Opcode.POST))

_NEVER = 1 << 60


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Predicted cycles of a command buffer.

    Members
    -------
    cycles:
        Cycles from the doorbell to completion.
    timestamps:
        Cycle in which the instruction with each timestamp completes, by timestamp.
    busy:
        Cycles for which each unit works, by its name in lower case.
    bank_waits:
        Cycles for which EXEC, POST and STORE wait for banks, in total.
    """

    cycles: int
    timestamps: dict[int, int]
    busy: dict[str, int]
    bank_waits: int


#: An instruction in a queue: cost (None if it is skipped), time of entry, waits.
_Queued = tuple[Timing | None, int, Waits]


class EngineSimulation:
    """Simulation of the engine's units and queues; time advances as instructions start.

    Of all queue heads, the one that can start first starts next, as `BankWaits` requires. Units are
    indices into `UNITS` for speed, because this runs for every instruction of every candidate.

    Members
    -------
    queued, started, done:
        Cycles in which instructions enter their queue, start and complete: a list for each unit.
        All are 0 for skipped LOADs.
    loads:
        Cycles in which the beats of each LOAD begin and end.
    busy:
        Cycles for which each unit works.
    alone:
        Cycles for which EXEC, POST and STORE would work if they waited for no bank.
    marks:
        Unit, and index within it, of the instruction with each timestamp.
    """

    def __init__(
        self,
        instructions: list[Instruction],
        machine: Machine,
        *,
        resident: bool,
        costs: Iterable[Timing] | None = None,
    ):
        self._machine = machine
        self._left = deque(commands(instructions, machine, costs, resident=resident))
        size = sum(SIZES[instruction.opcode] for instruction in instructions)
        first = machine.transfer_cycles(min(size, READ_AHEAD))
        self._commands = Commands(machine, size)
        self.loads = Loads(machine, machine.command_latency + round(first))
        self._banks = BankWaits(machine, self.loads)
        self.done: list[list[int]] = [[] for _ in UNITS]
        self.done[_LOAD] = self.loads.done
        self.queued: list[list[int]] = [[] for _ in UNITS]
        self.started: list[list[int]] = [[] for _ in UNITS]
        self._queues: list[deque[_Queued]] = [deque() for _ in UNITS]
        self._issued = [0] * len(UNITS)
        #: Time at which each unit becomes free, and the delay from then until its last instruction
        #: completes.
        self._free, self._more = [0] * len(UNITS), [0] * len(UNITS)
        self.busy, self.alone = [0] * len(UNITS), 0
        self._dispatched = 0
        self._places = max(machine.config.queue_depth, _MIN_QUEUE_DEPTH)
        self.marks: dict[int, tuple[int, int]] = {}
        #: Time at which the waits of each queue's head are met, if that is known.
        self._ready: list[int | None] = [None] * len(UNITS)

    @property
    def end(self) -> int:
        """Cycle in which the last instruction completes."""
        return max((times[-1] for times in self.done if times), default=self._dispatched)

    def run(self) -> None:
        """Dispatch and start one instruction after another until none can start."""
        dispatch = _NEVER
        unit, start = self._next()
        while True:
            if dispatch == _NEVER:
                dispatch = self._next_dispatch()
            if dispatch < _NEVER and dispatch <= start:
                heads = self._dispatch(dispatch)
                dispatch = _NEVER
                if not heads:
                    continue
            elif unit < 0:
                return
            else:
                self._begin(unit, start)
            unit, start = self._next()

    def _next(self) -> tuple[int, int]:
        """Return the unit whose queue head can start first, and the cycle when it can.

        Return (-1, `_NEVER`) if no head can start.
        """
        best, first, free = -1, _NEVER, self._free
        if self._ready[_POST] is None:
            # POST first: its fetch of parameters may delay the running STORE, and what awaits it.
            self._ready[_POST] = self._ready_at(_POST)
            if self._banks.changed_units:
                self._note_ends()
        for unit, start in enumerate(self._ready):
            if start is None:
                start = self._ready[unit] = self._ready_at(unit)
            if start < free[unit]:
                start = free[unit]
            if start < first:
                best, first = unit, start
        return best, first

    def _ready_at(self, unit: int) -> int:
        """Return the cycle in which the waits of the instruction at a queue's head are met.

        The result is `_NEVER` if that is still unknown or the queue is empty.
        """
        queue = self._queues[unit]
        if not queue:
            return _NEVER
        timing, since, awaited = queue[0]
        ready = loaded = since
        for other, number in awaited:
            times = self.done[other]
            if number >= len(times):
                return _NEVER
            time = times[number]
            if time > ready:
                ready = time
            if other == _LOAD and time > loaded:
                loaded = time
        ready += HANDOVER
        if unit == _POST and timing is not None and timing.param_reads:
            # Its first block's parameters are fetched as soon as the LOADs are complete.
            ready = max(ready, self._banks.fetch(loaded + HANDOVER, timing) + _POST_LEAD_CYCLES)
        return ready

    def _next_dispatch(self) -> int:
        """Return the cycle in which the next instruction is put into its queue.

        The result is `_NEVER` if none is left or its queue is full.
        """
        if not self._left:
            return _NEVER
        timing, unit, size, _waits, _timestamp = self._left[0]
        if timing is None:
            return self._dispatched
        if self._issued[unit] - self._places >= len(self.started[unit]):
            return _NEVER
        return max(self._dispatched, self._commands.arrival(size)) + timing.dispatch

    def _dispatch(self, time: int) -> bool:
        """Put the next instruction into its queue; return whether it becomes the queue's head."""
        timing, unit, size, waits, timestamp = self._left.popleft()
        issued, queue = self._issued, self._queues[unit]
        number = issued[unit]
        issued[unit] = number + 1
        heads = not queue
        if heads:
            self._ready[unit] = None
        if timing is None:
            self.queued[unit].append(0)
            queue.append((None, 0, ()))
            return heads
        self._commands.dispatch(size, time, self.loads)
        if number >= self._places:
            time = max(time, self.started[unit][number - self._places])
        self._dispatched = time
        self.queued[unit].append(time)
        awaited = tuple([(other, issued[other] - count) for other, count in waits])
        queue.append((timing, time, awaited))
        if timestamp:
            self.marks[timestamp] = unit, number
        return heads

    def _begin(self, unit: int, start: int) -> None:
        """Start the instruction at the head of a unit's queue in cycle `start`."""
        timing = self._queues[unit].popleft()[0]
        self._ready[unit] = None
        if unit == _LOAD:
            self._begin_load(timing, start)
            self._invalidate_ready(unit)
            return
        assert timing is not None
        back_to_back = bool(self.started[unit]) and self._free[unit] >= start
        work, self._more[unit] = timing.durations[back_to_back]
        self.alone += timing.durations[1][0]
        self.started[unit].append(start)
        self.done[unit].append(0)
        self._free[unit] = start
        if self._banks.begin(start, work, timing):
            self._invalidate_ready(_LOAD)
        self._note_ends()
        if unit == _EXEC:
            # It may delay the fetch of the next parameters.
            self._ready[_POST] = None

    def _note_ends(self) -> None:
        """Update the ends of instructions that `BankWaits` has added or delayed."""
        moved, self._banks.changed_units = self._banks.changed_units, []
        for opcode in moved:
            other, end = _UNITS[opcode], self._banks.last[opcode].end
            if self._free[other] != end:
                self.busy[other] += end - self._free[other]
                self._free[other] = end
            if self.done[other][-1] != end + self._more[other]:
                self.done[other][-1] = end + self._more[other]
                self._invalidate_ready(other)

    def _begin_load(self, timing: Timing | None, ready: int) -> None:
        """Start the next LOAD, whose waits are met at `ready`; without `timing`, skip it."""
        loads, machine, started = self.loads, self._machine, self.started[_LOAD]
        if timing is None:
            started.append(0)
            self._banks.load(0, 0, None)
            loads.skip()
            return
        arrives = ready + machine.load_latency
        start = max(arrives, loads.free)
        back_to_back = bool(started) and loads.free >= arrives
        work, more = timing.durations[back_to_back]
        loads.append(start, self._banks.load(start, work, timing), more)
        started.append(max(ready, start - machine.load_latency))
        self.busy[_LOAD] += work

    def _invalidate_ready(self, unit: int) -> None:
        """Mark the queue heads that wait for a unit, to compute their ready times again."""
        ready = self._ready
        for other, queue in enumerate(self._queues):
            if queue and ready[other] is not None:
                for awaited, _number in queue[0][2]:
                    if awaited == unit:
                        ready[other] = None


def predict(
    instructions: list[Instruction],
    machine: Machine,
    *,
    resident: bool = False,
    costs: Iterable[Timing] | None = None,
) -> Prediction:
    """Return the predicted cycles of a command buffer that ends with END.

    With `resident`, LOADs of constants are skipped, as if the constants were already in the
    scratchpad. `costs` has the cost of each instruction except END; None computes them.
    """
    engine = EngineSimulation(instructions, machine, resident=resident, costs=costs)
    engine.run()
    return Prediction(
        cycles=engine.end + HANDOVER,
        timestamps={mark: engine.done[unit][at] for mark, (unit, at) in engine.marks.items()},
        busy={unit.name.lower(): count for unit, count in zip(UNITS, engine.busy, strict=True)},
        bank_waits=sum(engine.busy) - engine.busy[_LOAD] - engine.alone,
    )
