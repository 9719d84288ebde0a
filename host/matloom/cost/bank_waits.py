"""Simulates how units wait for each other at the banks of the scratchpad.

A bank serves one read and one write per cycle; EXEC has priority over POST, and POST over STORE and
LOAD. If POST and STORE share a gather, STORE waits for POST at any bank, even while POST itself
waits for EXEC.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from matloom.arch.isa import Opcode
from matloom.arch.machine import Machine
from matloom.cost.arrivals import Loads
from matloom.cost.bank_use import AccessStream
from matloom.cost.timing import Timing

#: Cycles from the start of an EXEC to its first read.
_FIRST_READ = 7

#: Cycles from the arrival of a block's parameters to the first read of the next block's.
_NEXT_PARAMS = 3


def _advance(
    time: float, left: float, until: float, taken: float, rate: float
) -> tuple[float, float]:
    """Return when a unit's accesses end, `until` at the latest, and the work that is left then.

    The unit makes up to `rate` accesses per cycle to a bank where units with priority make `taken`.
    `left` and the work returned are the cycles that the accesses take without waits.
    """
    speed = (1.0 - taken) / rate if taken < 1.0 else 0.0
    if speed > 1.0:
        speed = 1.0
    if speed > 0 and time + left / speed <= until:
        return time + left / speed, 0.0
    return until, left - speed * (until - time)


@dataclass(slots=True)
class _Accesses:
    """Accesses of one unit: ascending intervals of cycles, each with accesses per cycle by bank."""

    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    shares: list[dict[int, float]] = field(default_factory=list)

    def append(self, begin: float, end: float, shares: dict[int, float]) -> None:
        """Add an interval after all others."""
        self.begins.append(begin)
        self.ends.append(end)
        self.shares.append(shares)

    def truncate(self, count: int) -> None:
        """Keep the first `count` intervals only."""
        del self.begins[count:], self.ends[count:], self.shares[count:]

    def first_after(self, time: float) -> int:
        """Return the index of the first interval that ends after `time`, or how many there are."""
        ends, number = self.ends, len(self.ends)
        # Search backwards: only a few intervals end so late.
        while number and ends[number - 1] > time:
            number -= 1
        return number

    def delay(self, time: float, work: float, use: AccessStream) -> float:
        """Return when accesses of `work` cycles end if, from `time` on, this unit's come first."""
        begins, ends, number = self.begins, self.ends, self.first_after(time)
        for bank, share in use.parts:
            left = share * work
            while left > 0:
                while number < len(ends) and ends[number] <= time:
                    number += 1
                until, taken = inf, 0.0
                if number < len(ends):
                    until = begins[number]
                    if until <= time:
                        until, taken = ends[number], self.shares[number].get(bank, 0.0)
                time, left = _advance(time, left, until, taken, use.rate)
        return time

    def uses(self, time: float, banks: frozenset[int]) -> bool:
        """Return whether any interval that ends after `time` uses one of the banks."""
        ends, shares = self.ends, self.shares
        # Search backwards: only a few intervals end so late.
        number = len(ends)
        while number and ends[number - 1] > time:
            number -= 1
            if not banks.isdisjoint(shares[number]):
                return True
        return False


@dataclass(slots=True)
class _RunningInstruction:
    """The last instruction that a unit has started, which may still be running.

    Members
    -------
    work:
        Cycles that it takes without waits.
    end:
        Cycle in which it leaves its unit, as currently known.
    fetched:
        Cycle in which a POST has the parameters of its first block, and may fetch the next ones.
    held:
        Number of intervals of `BankWaits._held` that precede a POST's fetches for later blocks.
    """

    timing: Timing
    start: int
    work: int
    end: int
    fetched: float = 0.0
    held: int = 0


def _end_of_accesses(
    time: float, work: float, use: AccessStream, others: Iterable[_Accesses]
) -> float:
    """Return when accesses of `work` cycles end if, from `time` on, all `others` come first."""
    # Most intervals end earlier, so only the last few matter.
    waited = [each for each in others if each.ends and each.ends[-1] > time]
    if len(waited) == 1:
        return waited[0].delay(time, work, use)
    ahead = []
    for each in waited:
        number = each.first_after(time)
        ahead.append((each.begins[number:], each.ends[number:], each.shares[number:]))
    for bank, share in use.parts:
        left = share * work
        while left > 0:
            until, taken = inf, 0.0
            for begins, ends, shares in ahead:
                for number, end in enumerate(ends):
                    if end > time:
                        if begins[number] > time:
                            end = begins[number]
                        else:
                            taken += shares[number].get(bank, 0.0)
                        if end < until:
                            until = end
                        break
            # All values are non-negative.
            time, left = _advance(time, left, until, taken, use.rate)
    return time


class BankWaits:
    """Cycles in which instructions end, with their waits at the banks of the scratchpad.

    Instructions must be added in the order in which they start. Then an instruction can delay only
    those still running, and nothing that depends on their ends has started.

    Members
    -------
    last:
        The last instruction that each unit, except LOAD, started.
    changed_units:
        Units whose `last` is new, or ends later; the reader of `last` clears the list.
    """

    def __init__(self, machine: Machine, loads: Loads) -> None:
        self._machine, self._loads = machine, loads
        self._shares_gather = machine.config.shares_gather
        self.last: dict[Opcode, _RunningInstruction] = {}
        self.changed_units: list[Opcode] = []
        self._exec_reads, self._post_reads = _Accesses(), _Accesses()
        #: POST's reads as seen by STORE: with a shared gather, they block every bank.
        self._gathered = _Accesses() if self._shares_gather else self._post_reads
        #: Intervals in which POST fetches parameters or waits for them, which block STORE at a
        #: shared gather.
        self._held = _Accesses()
        self._everywhere = dict.fromkeys(range(machine.config.spad_banks), 1.0)
        self._writes = _Accesses()
        #: Cost of each LOAD, None if it is skipped, and the cycles of its beats.
        self._load_costs: list[tuple[Timing | None, int]] = []
        #: Times of parameters: when the last POST has all of its own, so that the next POST's may
        #: be fetched; when its last vector releases them; when the next POST's arrive.
        self._ready, self._released, self._fetched = 0.0, 0.0, 0.0
        #: Number of intervals in `_held` that belong to POSTs already started; a further one
        #: belongs to the next POST.
        self._held_by_begun = 0

    def load(self, start: int, work: int, timing: Timing | None) -> int:
        """Add the next LOAD, of `work` cycles from `start` on; return when its beats end."""
        self._load_costs.append((timing, work))
        return self._load_end(len(self._load_costs) - 1, start)

    def begin(self, start: int, work: int, timing: Timing) -> bool:
        """Start an EXEC, POST or STORE that takes `work` cycles; return whether it delays LOADs."""
        unit = timing.opcode
        self.changed_units.append(unit)
        now = self.last[unit] = _RunningInstruction(
            timing, start, work, start + work, self._fetched
        )
        if unit is Opcode.STORE:
            self._delay_store(start)
            return False
        if unit is Opcode.EXEC:
            self._exec_reads.append(start + _FIRST_READ, now.end + _FIRST_READ, timing.reads)
        else:
            self._add_post(now)
        return self._delay_post_and_store(start)

    def fetch(self, time: int, post: Timing) -> int:
        """Return when the next POST has its first parameters, if it fetches them from `time` on."""
        begin = max(time, self._ready)
        self._fetched = self._exec_reads.delay(begin, post.param_reads, post.params)
        if self._shares_gather:
            # From the time at which it could begin, because STORE waits, too.
            self._held.truncate(self._held_by_begun)
            self._held.append(begin, self._fetched, self._everywhere)
            self._delay_store(begin)
        return round(self._fetched)

    def _load_end(self, number: int, start: int) -> int:
        """Return when the beats of LOAD `number` end if they begin at `start` and yield to POST."""
        timing, work = self._load_costs[number]
        if timing is None or not self._writes.uses(start, timing.banks):
            return start + work
        return round(self._writes.delay(start, work, timing.moved))

    def _add_post(self, post: _RunningInstruction) -> None:
        """Add the accesses that a POST makes if it never waits; each write follows its read."""
        timing = post.timing
        way = post.work - timing.cycles
        self._post_reads.append(post.start, post.end - way, timing.reads)
        if self._shares_gather:
            banks = range(self._machine.config.spad_banks) if timing.reads else ()
            share = min(1.0, sum(timing.reads.values()))
            self._gathered.append(post.start, post.end - way, dict.fromkeys(banks, share))
            post.held = self._held_by_begun = len(self._held.ends)
        self._writes.append(post.start + way, post.end, timing.writes)
        way = timing.fetch - timing.param_reads
        post.fetched = max(post.fetched + way - _NEXT_PARAMS, self._released)
        self._released, blocks = post.end, timing.blocks
        self._ready = post.end - timing.cycles // blocks if blocks > 1 else post.start

    def _delay_post_and_store(self, time: int) -> bool:
        """Delay POST and STORE at `time` for accesses of EXEC; return whether a LOAD ends later."""
        post, late = self.last.get(Opcode.POST), False
        if post is not None and post.end > time:
            more = self._post_end(post) - post.end
            if more > 0:
                post.end += more
                self.changed_units.append(Opcode.POST)
                self._post_reads.ends[-1] += more
                if self._shares_gather:
                    self._gathered.ends[-1] += more
                self._writes.ends[-1] += more
                self._released = post.end
            if more > 0 or post.start == time:
                late = self._loads.delay_after(time, self._load_end)
        self._delay_store(time)
        return late

    def _post_end(self, post: _RunningInstruction) -> int:
        """Return when a POST ends if its reads yield to those of EXEC."""
        timing, above = post.timing, self._exec_reads
        if timing.fills or not above.uses(post.start, timing.banks):
            return post.end
        vectors, reads, params = timing.vectors, timing.param_reads, timing.params
        time, ready = float(post.start), post.fetched
        streamed = time + vectors
        self._held.truncate(post.held)
        if timing.moved.parts:
            streamed = above.delay(time, vectors, timing.moved)
        for _ in range(0 if timing.softmax else timing.blocks - 1):
            # The next block's parameters are fetched while this one streams.
            fetched = time + timing.fetch
            if reads:
                begin = ready + _NEXT_PARAMS
                fetched = above.delay(begin, reads, params)
                if self._shares_gather:
                    self._held.append(begin, fetched, self._everywhere)
                fetched += timing.fetch - reads - _NEXT_PARAMS
            ready = max(fetched, streamed)
            time = max(streamed + self._machine.post_block_gap, fetched)
            streamed = time + vectors
            if timing.moved.parts:
                streamed = above.delay(time, vectors, timing.moved)
        self._held_by_begun = len(self._held.ends)
        if timing.blocks > 1:
            self._ready = time
        return max(post.end, round(streamed) + post.work - timing.cycles)

    def _delay_store(self, time: float) -> None:
        """Delay the STORE that runs at `time` by the reads of EXEC and POST."""
        store = self.last.get(Opcode.STORE)
        if store is None or store.end <= time:
            return
        start, timing, banks = store.start, store.timing, store.timing.banks
        execs, posts, held = self._exec_reads, self._gathered, self._held
        if execs.uses(start, banks) or posts.uses(start, banks) or held.uses(start, banks):
            end = round(_end_of_accesses(start, store.work, timing.moved, (execs, posts, held)))
            if end > store.end:
                store.end = end
                self.changed_units.append(Opcode.STORE)
