"""Times at which commands, and the data of LOADs, arrive over the bus that they share."""

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache

from matloom.arch.machine import Machine

#: Bytes of commands that are read ahead, and maximum bytes of a burst of commands.
READ_AHEAD = 512
LONGEST_BURST = READ_AHEAD // 2


@lru_cache
def _byte_arrivals(size: int, bus_bytes: int, beat_cycles: float) -> list[float]:
    """Return the cycle in which each byte of a burst arrives, counted from the burst's start."""
    return [(place + 1) / bus_bytes * beat_cycles - beat_cycles + 1 for place in range(size)]


class Commands:
    """Arrival times of commands, the bytes of instructions, at the dispatcher.

    Commands arrive in bursts. A burst is requested as soon as the read-ahead buffer has room for
    it.
    """

    def __init__(self, machine: Machine, size: int) -> None:
        self._machine, self._left = machine, size - READ_AHEAD
        self._size = min(machine.config.burst_beats * machine.config.bus_bytes, LONGEST_BURST)
        self._burst_cycles = machine.transfer_cycles(self._size)
        self._rounded_burst_cycles = round(self._burst_cycles)
        #: Arrival time of each byte of a burst, relative to its start.
        self._byte_arrivals = _byte_arrivals(
            self._size, machine.config.bus_bytes, machine.beat_cycles
        )
        #: Time at which each burst begins to arrive.
        self._begins = [
            machine.command_latency + number * self._burst_cycles
            for number in range(READ_AHEAD // self._size)
        ]
        self._room = self._size
        self._taken = 0

    def arrival(self, size: int) -> int:
        """Return the cycle in which the last of the next `size` bytes of commands arrives."""
        number, place = divmod(self._taken + size - 1, self._size)
        return round(self._begins[number] + self._byte_arrivals[place])

    def dispatch(self, size: int, time: int, loads: "Loads") -> None:
        """Free the bytes of a command dispatched at `time`, and request the bursts that now fit.

        The bursts delay beats of `loads`, which arrive over the same bus.
        """
        self._taken += size
        while self._left > 0 and self._taken >= self._room:
            self._room += self._size
            place = time + loads.cycles_outstanding(time)
            begins = max(time + self._machine.command_latency, place, self._begins[-1])
            self._begins.append(max(begins, self._begins[-1] + self._burst_cycles))
            beats = self._rounded_burst_cycles
            if self._left < self._size:
                beats = round(self._machine.transfer_cycles(self._left))
            loads.insert_commands(round(begins), beats)
            self._left -= self._size


class Loads:
    """Cycles in which the data of LOADs arrive over the bus, beat by beat.

    Members
    -------
    done:
        Cycle in which each LOAD completes.
    free:
        Earliest cycle in which the beats of another LOAD could begin.
    starts, ends:
        Cycles in which the beats of each LOAD begin and end.
    """

    def __init__(self, machine: Machine, free: int) -> None:
        self.done: list[int] = []
        self.free = free
        self._machine = machine
        self.starts: list[int] = []
        self.ends: list[int] = []
        #: Cycles of commands between the beats of each LOAD.
        self._between: list[int] = []

    def append(self, start: int, end: int, completion_cycles: int) -> None:
        """Add the next LOAD, whose beats (words of the bus) arrive in cycles `start` to `end`.

        `completion_cycles` are the cycles from its last beat to its completion.
        """
        self.starts.append(start)
        self.ends.append(end)
        self._between.append(0)
        self.done.append(end + completion_cycles)
        self.free = end

    def skip(self) -> None:
        """Add a LOAD that is not executed: it has no beats, and is complete in cycle 0."""
        self.starts.append(self.starts[-1] if self.starts else 0)
        self.ends.append(self.ends[-1] if self.ends else 0)
        self._between.append(0)
        self.done.append(0)

    def cycles_outstanding(self, time: int) -> float:
        """Return the cycles from `time` until all data requested by then have arrived.

        The result is 0 or negative if none are outstanding.
        """
        requested_until = time + self._machine.load_latency
        at = bisect_right(self.starts, requested_until) - 1
        return min(self._machine.outstanding_read_cycles, self.ends[at] - time) if at >= 0 else 0.0

    def insert_commands(self, time: int, beats: int) -> None:
        """Reserve the bus for commands from `time` on, and delay the later beats of LOADs.

        The commands take `beats` cycles from `time` on.
        """
        at = len(self.ends) - 1
        while at >= 0 and self.ends[at] > time:
            whole = self.starts[at] >= time
            self._delay(at, beats, whole=whole)
            self._between[at] += 0 if whole else beats
            at -= 1
        # Later requests are answered later.
        self.free = max(self.free, time + beats, self.ends[-1] if self.ends else 0)

    def delay_after(self, time: int, end_of: Callable[[int, int], int]) -> bool:
        """Delay LOADs that end after `time`, as `end_of` requires; return whether any was delayed.

        `end_of` takes the index of a LOAD and the start of its beats, and returns when they end if
        no commands interrupt them. No LOAD begins before the previous one ends.
        """
        changed, before = False, 0
        for number in range(bisect_right(self.ends, time), len(self.ends)):
            late = before - self.starts[number]
            if late > 0:
                self._delay(number, late, whole=True)
            end = end_of(number, self.starts[number]) + self._between[number]
            more = max(0, end - self.ends[number])
            self._delay(number, more, whole=False)
            before = self.ends[number]
            changed |= late > 0 or more > 0
        self.free = max(self.free, before)
        return changed

    def _delay(self, index: int, cycles: int, *, whole: bool) -> None:
        """Delay the end of a LOAD and, if `whole`, also its start, by a number of cycles."""
        self.ends[index] += cycles
        self.done[index] += cycles
        if whole:
            self.starts[index] += cycles
