"""Supervisor: states, the first fault, watchdog, reset requests at any time."""

import pytest

from matloom.arch.csr import Fault
from matloom_rtl.control.supervisor import Supervisor
from matloom_rtl.testing import simulate

BUSY, DONE, FAULT, RESETTING = 1, 2, 4, 8
EVENT_DONE, EVENT_FAULT = 1, 2


def run(*steps, quiet=1, held=("timeout", "quiet", "busy_unit")):
    """Set inputs for one cycle each, or permanently; return the outputs of each cycle."""
    dut, seen = Supervisor(), []
    outputs = ("status", "begin", "events", "halt", "core_reset")

    async def main(ctx):
        ctx.set(dut.quiet, quiet)
        for step in steps:
            for name, value in step.items():
                ctx.set(getattr(dut, name), value)
            seen.append({name: ctx.get(getattr(dut, name)) for name in outputs})
            seen[-1]["record"] = (
                ctx.get(dut.record),
                ctx.get(dut.record_index),
                ctx.get(dut.record_address),
            )
            await ctx.tick()
            for name in step:
                if name not in held:
                    ctx.set(getattr(dut, name), 0)

    simulate(dut, main, cycles=len(steps) + 1)
    return seen


def statuses(seen):
    return [step["status"] for step in seen]


START, RESET, END, IDLE = {"start": 1}, {"reset": 1}, {"finished": 1}, {}
BAD = {
    "fault_cause": Fault.DRAM_RANGE,
    "fault_unit": 4,
    "fault_opcode": 4,
    "fault_index": 77,
    "fault_address": 0x8000_0001,
}
RECORD = (Fault.DRAM_RANGE | 4 << 4 | 4 << 8, 77, 0x8000_0001)


def test_runs_follow_one_another():
    seen = run(START, START, END, IDLE, IDLE, START, END, IDLE, IDLE)
    assert statuses(seen) == [0, BUSY, BUSY, BUSY, DONE, DONE, BUSY, BUSY, DONE]
    assert [step["begin"] for step in seen] == [1, 0, 0, 0, 0, 1, 0, 0, 0]
    assert [step["events"] for step in seen] == [0, 0, 0, EVENT_DONE, 0, 0, 0, EVENT_DONE, 0]
    assert not any(step["halt"] or step["core_reset"] for step in seen)


def test_first_fault_is_kept_and_only_a_reset_leaves_it():
    other = {**BAD, "fault_cause": Fault.AXI_READ}
    begin = (START, IDLE, IDLE)
    seen = run(*begin, BAD, other, START, END, other, RESET, IDLE, IDLE, IDLE, START)[3:]
    both = FAULT | RESETTING
    assert statuses(seen) == [BUSY, BUSY, FAULT, FAULT, FAULT, FAULT, both, both, 0, 0]
    assert [step["halt"] for step in seen] == [0, 0, 0, 1, 1, 1, 1, 1, 1, 0]
    assert sum(step["events"] for step in seen) == EVENT_FAULT
    assert [step["record"] for step in seen[1:8]] == [RECORD] * 7
    assert seen[8]["record"] == (0, 0, 0)
    assert seen[9]["begin"]


def test_late_answers_of_the_last_run_are_no_faults():
    seen = run(START, BAD, BAD, END, IDLE, IDLE)
    assert statuses(seen) == [0, BUSY, BUSY, BUSY, BUSY, DONE]
    assert seen[-1]["record"] == (0, 0, 0)
    assert statuses(run(START, IDLE, IDLE, BAD, IDLE, IDLE))[-1] == FAULT


def test_fault_outside_a_run_is_not_recorded():
    seen = run(BAD, IDLE, IDLE, START, END, BAD, IDLE, IDLE)
    assert statuses(seen) == [0, 0, 0, 0, BUSY, BUSY, DONE, DONE]
    assert all(step["record"] == (0, 0, 0) for step in seen[:6])
    assert seen[-1]["record"] == (0, 0, 0)


def test_fault_and_end_in_one_cycle_is_a_fault():
    seen = run(START, IDLE, IDLE, IDLE, {**END, **BAD}, IDLE, IDLE)
    assert statuses(seen) == [0, BUSY, BUSY, BUSY, BUSY, BUSY, FAULT]
    assert seen[5]["events"] == EVENT_FAULT
    assert seen[6]["record"] == RECORD


@pytest.mark.parametrize("waiting", [0, 1, 10])
def test_reset_waits_for_the_bus(waiting):
    request = {"reset": 1, "quiet": 0}
    after = [IDLE] * 4
    seen = run(START, IDLE, request, *[IDLE] * waiting, {"quiet": 1}, *after, START)
    # Units halt two cycles after the request, and are quiet no earlier.
    reset = max(4 + waiting, 6)
    resetting = seen[3 : reset + 1]
    assert statuses(resetting) == [RESETTING] * (reset - 2)
    assert all(step["halt"] for step in resetting[1:])
    assert [cycle for cycle, step in enumerate(seen) if step["core_reset"]] == [reset]
    assert seen[reset + 1]["status"] == 0
    assert seen[-1]["begin"]


@pytest.mark.parametrize(("request_", "begins"), [({"start": 1, "reset": 1}, 0), (START, 1)])
def test_reset_wins_over_a_start_in_the_same_write(request_, begins):
    seen = run(request_, IDLE, IDLE, IDLE, IDLE, IDLE, IDLE)
    assert seen[0]["begin"] == begins
    assert seen[-1]["status"] == (BUSY if begins else 0)


def test_fault_while_a_reset_waits_is_not_recorded():
    seen = run(START, IDLE, {"reset": 1, "quiet": 0}, BAD, IDLE, {"quiet": 1}, IDLE, IDLE)[1:]
    assert seen[3]["status"] == RESETTING
    assert statuses(seen)[-1] == 0
    assert seen[-1]["record"] == (0, 0, 0)


@pytest.mark.parametrize("timeout", [1, 5, 20])
def test_watchdog_counts_cycles_without_progress(timeout):
    moved = {"progress": 1}
    first = {"timeout": timeout, "busy_unit": 3, "fault_index": 9, **START}
    seen = run(*[first, *[moved] * 30, *[IDLE] * 30], held=first.keys() - START.keys())
    failed = next(index for index, step in enumerate(seen) if step["status"] == FAULT)
    assert failed - 31 == timeout + 2
    assert seen[failed]["record"] == (Fault.TIMEOUT | 3 << 4 | 3 << 8, 9, 0)


def test_watchdog_is_off_at_zero():
    assert statuses(run(START, *[IDLE] * 100))[-1] == BUSY


def waits(*steps):
    """Return the cycles from the last progress to the fault; None if none comes in 40 cycles."""
    seen = statuses(run({"timeout": 8, **START}, *steps, *[IDLE] * 40))[len(steps) + 1 :]
    return seen.index(FAULT) if FAULT in seen else None


def test_a_timeout_that_is_written_counts_from_the_next_progress():
    moves, longer, none = {"progress": 1}, {"timeout": 20}, {"timeout": 0}
    before = waits(moves)
    # Written while nothing moves: the old one runs to its end.
    assert waits(moves, IDLE, longer) == before - 2
    assert waits(moves, IDLE, longer, moves) == before + 12
    # From none to some at once.
    assert waits(none, moves, IDLE, IDLE) is None
    assert waits(none, moves, IDLE, {"timeout": 8}) == before


def test_watchdog_starts_anew_with_each_run():
    seen = run({"timeout": 6, **START}, *[IDLE] * 4, END, IDLE, START, *[IDLE] * 4, END, IDLE, IDLE)
    assert statuses(seen)[-1] == DONE
