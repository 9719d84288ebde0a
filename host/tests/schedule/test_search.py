"""The search for a schedule: every candidate is on record, and what does not fit is a value."""

from dataclasses import replace

import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, Job, run_phases
from matloom.data.digits import NETWORK
from matloom.schedule import DoesNotFit, Scheduled, schedule_segment, search
from matloom.schedule.constants import Image


@pytest.fixture
def segment():
    """Return the one segment of the network of digits."""
    job = Job(config=PRESETS["small"], options=CompileOptions())
    (run, _host) = run_phases(NETWORK, job, "bind").values["bind"].runs
    return run.segment


def scheduled(segment, config, options=None):
    more = {"arena_start": 0, "output_bytes": 64}
    return schedule_segment(segment, config, options or CompileOptions(), Image(), **more)


def test_each_decision_has_one_candidate_chosen_and_a_reason_for_all_others(segment):
    found = scheduled(segment, PRESETS["small"], CompileOptions(effort=2))
    assert isinstance(found, Scheduled)
    starts = [each for each in found.tried if each.decision == "start"]
    assert len(starts) == len(search.candidates(segment, PRESETS["small"]))
    chosen = [each for each in starts if each.outcome == "chosen"]
    assert len(chosen) == 1
    assert chosen[0].cycles == min(each.cycles for each in starts if each.cycles is not None)
    assert all(each.outcome for each in found.tried)


def test_what_does_not_fit_is_returned(segment):
    small = PRESETS["small"]
    tiny = replace(small, spad_bytes=small.spad_banks * 16 * small.line_bytes)
    machine = replace(segment.machine, config=tiny)
    # No tensor may leave the chip, where there is no room for two of them.
    wide = replace(segment, machine=machine, on_chip=frozenset(segment.sizes))
    wide = replace(wide, sizes={name: tiny.spad_bytes // 2 + 1 for name in segment.sizes})
    found = scheduled(wide, tiny)
    assert isinstance(found, DoesNotFit)
    assert "bytes of scratchpad for tensor beside its other buffers" in found.reason


def test_a_candidate_that_does_not_fit_is_dropped_with_its_reason(segment, monkeypatch):
    fit, reason = search.fit, "stage x needs 9 bytes"

    def some(segment, config, options, candidate):
        if candidate.tiles == 2:
            return DoesNotFit(reason=reason)
        return fit(segment, config, options, candidate)

    monkeypatch.setattr(search, "fit", some)
    found = scheduled(segment, PRESETS["small"])
    assert isinstance(found, Scheduled)
    (dropped,) = (each for each in found.tried if each.outcome == reason)
    assert (dropped.decision, dropped.cycles) == ("start, by 3 stages", None)
