"""How long units wait for each other at the banks of the scratchpad.

A bank serves one read and one write a cycle: EXEC before POST, POST before STORE and LOAD.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode, Table
from matloom.arch.machine import Machine
from matloom.schedule.arrivals import Loads
from matloom.schedule.bank_use import Use, bank_use

__all__ = ["BankWaits"]

#: Cycles from the start of an EXEC to its first read.
_FIRST_READ = 7

#: Cycles from parameters at hand to the first read of the next ones.
_NEXT_PARAMS = 3


@dataclass(slots=True)
class _Accesses:
    """The times in which a unit uses banks, one behind the other: accesses in a cycle by bank."""

    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    shares: list[dict[int, float]] = field(default_factory=list)

    def append(self, begin: float, end: float, shares: dict[int, float]) -> None:
        """Note a time behind all others."""
        self.begins.append(begin)
        self.ends.append(end)
        self.shares.append(shares)

    def at(self, time: float, bank: int) -> tuple[float, float]:
        """Return the accesses in a cycle to a bank at a time, and until when they are so many."""
        number = bisect_right(self.ends, time)
        if number == len(self.ends):
            return 0.0, inf
        if self.begins[number] > time:
            return 0.0, self.begins[number]
        return self.shares[number].get(bank, 0.0), self.ends[number]

    def meet(self, time: float, banks: set[int]) -> bool:
        """Return whether one of the banks is used at a time or after."""
        first = bisect_right(self.ends, time)
        return not all(banks.isdisjoint(shares) for shares in self.shares[first:])


@dataclass(slots=True)
class _UnderWay:
    """The last instruction that a unit began.

    Members
    -------
    use, fetched:
        What it reads, and where its parameters lie; when its first block's were fetched.
    work, cycles:
        Cycles that it takes alone, and those of them in which it streams.
    end:
        When it leaves its unit, as far as is known.
    """

    values: dict[str, int]
    use: Use
    params: int
    start: int
    work: int
    cycles: int
    end: int
    fetched: float = 0.0


def _through(time: float, work: float, use: Use, others: Iterable[_Accesses]) -> float:
    """Return when so many cycles of accesses that begin at a time are done, behind others'."""
    for bank, share in use.parts:
        left = share * work
        while left > 0:
            until, taken = inf, 0.0
            for other in others:
                accesses, end = other.at(time, bank)
                taken += accesses
                until = min(until, end)
            rate = min(1.0, max(0.0, 1.0 - taken) / use.rate)
            if rate > 0 and time + left / rate <= until:
                time += left / rate
                break
            left -= rate * (until - time)
            time = until
    return time


class BankWaits:
    """When instructions end that may wait at banks.

    They are told in the order in which they begin. So what a later one keeps waiting is under way,
    and nothing has begun on the strength of when that would have ended.
    """

    def __init__(self, machine: Machine, loads: Loads) -> None:
        self._machine, self._loads = machine, loads
        self._last: dict[Opcode, _UnderWay] = {}
        self._reads = {Opcode.EXEC: _Accesses(), Opcode.POST: _Accesses()}
        self._writes = _Accesses()
        #: What each LOAD writes, and the cycles of its beats.
        self._moved: list[tuple[Use, int]] = []
        #: When the last POST's last parameters came to hand, after which the next one's may be
        #: fetched, and when its last vector left them; when those of the next are there.
        self._at_hand, self._released, self._fetched = 0.0, 0.0, 0.0

    def ends(self) -> Iterable[tuple[Opcode, int]]:
        """Return the units but LOAD that have begun, and when their last instructions end."""
        return ((unit, last.end) for unit, last in self._last.items())

    def load(self, start: int, work: int, instruction: Instruction | None) -> int:
        """Return when the beats of the next LOAD end; of None, which is left out, at once."""
        if instruction is None:
            self._moved.append((Use(), 0))
            return start
        self._moved.append((bank_use(instruction, self._machine, work).writes, work))
        return self._load_end(len(self._moved) - 1, start)

    def begin(self, start: int, work: int, instruction: Instruction) -> bool:
        """Let one of the other units begin; return whether LOADs under way are late for it."""
        unit, values, cycles = instruction.opcode, instruction.values, work
        if unit is Opcode.POST:
            cycles = self._machine.post_cycles(values)
        use = bank_use(instruction, self._machine, cycles)
        now = _UnderWay(
            values, use.reads, use.params, start, work, cycles, start + work, self._fetched
        )
        self._last[unit] = now
        if unit is Opcode.STORE:
            self._delay_store(start)
            return False
        if unit is Opcode.EXEC:
            taken = use.reads.by_bank()
            for bank, share in use.weights.by_bank().items():
                taken[bank] = min(1.0, taken.get(bank, 0.0) + share)
            self._reads[unit].append(start + _FIRST_READ, now.end + _FIRST_READ, taken)
        else:
            self._add_post(now, use.writes)
        return self._delay_post(start)

    def fetch(self, time: int, values: dict[str, int]) -> int:
        """Return when the first parameters of the next POST are read, at a time or later."""
        bank = values.get("param_addr", 0) // self._machine.bank_bytes
        begin, reads = max(time, self._at_hand), self._machine.post_reads(values)
        above = (self._reads[Opcode.EXEC],)
        self._fetched = _through(begin, reads, Use(((bank, 1.0),), 1.0), above)
        return round(self._fetched)

    def _load_end(self, number: int, start: int) -> int:
        """Return when the beats of a LOAD end, which wait for what POST writes."""
        use, work = self._moved[number]
        if not self._writes.meet(start, {bank for bank, _ in use.parts}):
            return start + work
        return round(_through(start, work, use, (self._writes,)))

    def _add_post(self, post: _UnderWay, writes: Use) -> None:
        """Note what a POST does if it does not wait: results follow what they are made of."""
        way = post.work - post.cycles
        self._reads[Opcode.POST].append(post.start, post.end - way, post.use.by_bank())
        self._writes.append(post.start + way, post.end, writes.by_bank())
        way = self._machine.post_fetch(post.values) - self._machine.post_reads(post.values)
        post.fetched = max(post.fetched + way - _NEXT_PARAMS, self._released)
        self._released = post.end
        blocks = post.values["oc_blocks"]
        self._at_hand = post.end - post.cycles // blocks if blocks > 1 else post.start

    def _delay_post(self, time: int) -> bool:
        """Let the POST under way wait for EXEC, and others for it; return as `begin`."""
        post, late = self._last.get(Opcode.POST), False
        if post is not None and post.end > time:
            more = self._post_end(post) - post.end
            if more > 0:
                post.end += more
                self._reads[Opcode.POST].ends[-1] += more
                self._writes.ends[-1] += more
                self._released = post.end
            if more > 0 or post.start == time:
                late = self._loads.hold_up(time, self._load_end)
        self._delay_store(time)
        return late

    def _post_end(self, post: _UnderWay) -> int:
        """Return when a POST ends whose vectors and parameters wait for what EXEC reads."""
        values, machine, blocks = post.values, self._machine, post.values["oc_blocks"]
        above = self._reads[Opcode.EXEC]
        banks = {bank for bank, _ in post.use.parts} | ({post.params} if blocks > 1 else set())
        if not above.meet(post.start, banks) or values.get("table", 0) == Table.FILL:
            return post.end
        vectors = values["width"] * values["height"] * machine.post_beats(values)
        reads, params = machine.post_reads(values), Use(((post.params, 1.0),), 1.0)
        time, at_hand = float(post.start), post.fetched
        streamed = _through(time, vectors, post.use, (above,)) if post.use.parts else time + vectors
        for _ in range(blocks - 1):
            # The next block's parameters are fetched while this one streams.
            fetched = time + machine.post_fetch(values)
            if reads:
                fetched = _through(at_hand + _NEXT_PARAMS, reads, params, (above,))
                fetched += machine.post_fetch(values) - reads - _NEXT_PARAMS
            at_hand = max(fetched, streamed)
            time = max(streamed + machine.post_turn, fetched)
            streamed = time + vectors
            if post.use.parts:
                streamed = _through(time, vectors, post.use, (above,))
        if blocks > 1:
            self._at_hand = time
        return max(post.end, round(streamed) + post.work - post.cycles)

    def _delay_store(self, time: int) -> None:
        """Let the STORE under way at a time wait for what EXEC and POST read."""
        store = self._last.get(Opcode.STORE)
        if store is None or store.end <= time:
            return
        banks = {bank for bank, _ in store.use.parts}
        if any(other.meet(store.start, banks) for other in self._reads.values()):
            end = _through(store.start, store.work, store.use, tuple(self._reads.values()))
            store.end = max(store.end, round(end))
