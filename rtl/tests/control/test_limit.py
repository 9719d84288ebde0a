"""Limit: the cycle in which it fires, the unit and instruction it names, and no false alarms."""

import random

import pytest

from matloom.arch.isa import UNITS
from matloom_rtl.control.limit import Limit
from matloom_rtl.testing import simulate


class Instructions:
    """Outputs of a unit that is busy with instructions in given cycles."""

    def __init__(self, *spans):
        self.spans = spans

    def shows(self, cycle):
        """Return whether it is busy, whether one completes, and how many did before."""
        busy = any(start <= cycle <= end for start, end in self.spans)
        done = any(cycle == end for _start, end in self.spans)
        return busy, done, sum(end < cycle for _start, end in self.spans)

    def oldest(self, cycle):
        """Return the first cycle of the oldest instruction, or None."""
        since = None
        for index, (start, end) in enumerate(self.spans):
            if start <= cycle <= end:
                before = [last for _first, last in self.spans[:index]]
                since = max([start, *(last + 1 for last in before)])
                break
        return since


def run(limit, units, cycles, running=lambda _cycle: True):
    """Return (cycle, unit, index) for each cycle in which Limit fires."""
    dut, found = Limit(), []

    async def main(ctx):
        ctx.set(dut.limit, limit)
        for cycle in range(cycles):
            shown = [unit.shows(cycle) for unit in units]
            ctx.set(dut.running, running(cycle))
            ctx.set(dut.busy, sum(busy << n for n, (busy, _, _) in enumerate(shown)))
            ctx.set(dut.done, sum(done << n for n, (_, done, _) in enumerate(shown)))
            for number, (_busy, _done, completed) in enumerate(shown):
                ctx.set(dut.completed[number], completed)
            if ctx.get(dut.late):
                found.append((cycle, ctx.get(dut.unit), ctx.get(dut.index)))
            await ctx.tick()

    simulate(dut, main, cycles=cycles + 1)
    return found


IDLE = Instructions()


def units_with(number, unit):
    return [unit if n == number else IDLE for n in range(len(UNITS))]


@pytest.mark.fast_cases(21)
@pytest.mark.parametrize("number", range(len(UNITS)))
@pytest.mark.parametrize("limit", [1, 2, 7, 20])
@pytest.mark.parametrize("start", range(0, 9))
def test_one_that_never_ends_is_found_in_time(number, limit, start):
    """Marks come in cycles k * (limit + 1) - 1, k > 0; seeing two of them is too long."""
    found = run(limit, units_with(number, Instructions((start, 10**6))), 100)
    period = limit + 1
    first = -(-(start + 1) // period) * period - 1
    assert found[0] == (first + period, 1 + number, 0)
    assert limit + 2 <= found[0][0] - start + 1
    assert found[0][0] - start + 1 <= 2 * limit + 2


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("limit", [1, 5, 12])
@pytest.mark.parametrize("phase", range(14))
def test_as_many_cycles_as_the_limit_are_never_too_many(limit, phase):
    """Instructions of `limit` cycles never fire it, even if shown before the previous one ends."""
    spans = [(phase + n * (limit + 1), phase + n * (limit + 1) + limit) for n in range(20)]
    early = [(start - 3 * (n > 0), end) for n, (start, end) in enumerate(spans)]
    for each in (spans, early):
        assert run(limit, units_with(phase % 4, Instructions(*each)), 300) == []


@pytest.mark.parametrize("limit", [3, 10])
def test_zero_means_no_limit(limit):
    forever = Instructions((0, 1), (2, 5), (6, 10**6))
    assert run(0, units_with(2, forever), 200) == []
    assert run(limit, units_with(2, forever), 60)[0][1:] == (3, 2)


def test_the_first_unit_of_several_is_named():
    long = Instructions((3, 10**6))
    assert run(10, [IDLE, IDLE, long, long], 40)[0] == (21, 3, 0)
    assert run(10, [IDLE, long, long, long], 40)[0] == (21, 2, 0)


def test_between_runs_nothing_counts():
    unit = Instructions((0, 10**6))
    assert run(5, units_with(1, unit), 100, running=lambda cycle: cycle % 10 < 6) == []
    assert run(5, units_with(1, unit), 100, running=lambda cycle: cycle % 14 < 13)[0] == (11, 2, 0)


def test_random_units_against_the_definition(seed):
    """Fire only above the limit, and always from twice the limit plus two on."""
    generator = random.Random(seed)
    for _case in range(12):
        limit, units = generator.randint(1, 15), []
        for _unit in UNITS:
            at, spans = 1, []
            while at < 400:
                at += generator.choice((0, 0, 1, 9))
                end = at + generator.randint(0, 2 * limit + 3)
                spans.append((at, end))
                at = end + 1
            units.append(Instructions(*spans))
        found = run(limit, units, 400)
        for cycle, unit, index in found:
            chosen = units[unit - 1]
            assert chosen.shows(cycle)[:2] == (True, False)
            assert cycle - chosen.oldest(cycle) >= limit + 1
            assert index == chosen.shows(cycle)[2]
        for number, unit in enumerate(units):
            for start, end in unit.spans:
                late = start + 2 * limit + 2
                if end > late and late < 400:
                    # A unit before it may be named in the same cycle.
                    assert any(
                        start + limit < cycle < late and other <= number + 1
                        for cycle, other, _index in found
                    )
