"""Failed checks run again, and record waves of the failing run."""

import pytest

from matloom.arch.config import load_config
from matloom.verification import replays
from matloom.verification.pair import MismatchError

NANO = load_config("nano")


def times(vcd):
    """Return the first and the last time of a VCD."""
    found = [int(line[1:]) for line in vcd.read_text().splitlines() if line.startswith("#")]
    return found[0], found[-1]


def replayed(text, waves):
    """Return the output of replaying a check that must fail."""
    said = []
    with pytest.raises(MismatchError, match="differs"):
        replays.replay(NANO, replays.Replay.parse(text), waves, said.append)
    assert "failed: stream" in said[-2]
    return said


@pytest.mark.slow
def test_waves_are_of_the_run_that_fails(tmp_path, monkeypatch):
    """The model has a bug here, so the chip's results differ from it."""
    monkeypatch.setattr(
        "matloom.device.model.post.clamp", lambda values, low, high: values.clip(low + 1, high)
    )
    replayed("streams:5", tmp_path / "failing.vcd")
    first, last = times(tmp_path / "failing.vcd")
    # Clearing the chip takes far longer than what the waves have.
    assert 0 < last - first < first


@pytest.mark.slow
def test_a_steered_stream_is_drawn_again(tmp_path, monkeypatch):
    """It depends on the coverage of earlier streams, which run without waves."""
    checked, check = [], replays.check_stream

    def fails(pair, stream, number):
        check(pair, stream, number)
        checked.append(stream.commands)
        if number == 2:
            raise MismatchError("stream 2: external memory differs")

    monkeypatch.setattr(replays, "check_stream", fails)
    replayed("coverage:5:2", tmp_path / "failing.vcd")
    assert len(checked) == 4
    assert checked[2] == checked[3] not in checked[:2]
    first, last = times(tmp_path / "failing.vcd")
    assert last - first > 0


def test_without_waves_a_check_runs_once(monkeypatch):
    def check(pair, seed):
        ran.append(seed)
        raise MismatchError("differs")

    class Chip:
        def __init__(self, config, waves, first_run):
            assert waves is None

        def close(self):
            ran.append("closed")

    ran = []
    monkeypatch.setitem(replays.CHECKS, "layers", check)
    monkeypatch.setattr(replays, "_Traced", Chip)
    monkeypatch.setattr(replays.Pair, "start", lambda chip, config: None)
    with pytest.raises(MismatchError):
        replays.replay(NANO, replays.Replay.parse("layers:7"), None, lambda line: None)
    assert ran == [7, "closed"]
