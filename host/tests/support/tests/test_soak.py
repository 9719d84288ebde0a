"""Replays of seeds that once failed, and the file that keeps them."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from matloom.arch.config import PRESETS
from matloom.device.rtl import RtlTransport
from matloom.toolchain.cache import entry
from matloom.verification import checks
from matloom.verification.pair import MEMORY_BYTES
from support import soak
from support.soak import FailedSeed, failed_seeds, replay

KEPT = Path(__file__).with_name("failed_seeds.json")


@pytest.mark.parametrize("failed", failed_seeds(KEPT), ids=lambda each: f"{each.check}-{each.seed}")
def test_kept_seeds(failed):
    chip = RtlTransport(failed.config, MEMORY_BYTES, state_seed=failed.seed)
    try:
        replay(chip, failed)
    finally:
        chip.close()


def run(tmp_path, *options):
    keep = tmp_path / "failed.json"
    words = ["--config", "nano", "--seed", "5", "--instructions", "1", "--keep", str(keep)]
    words += options
    return keep, CliRunner().invoke(soak.main, words)


@pytest.mark.slow
def test_a_failing_check_is_kept_once_and_fails_again(tmp_path, monkeypatch):
    """Here the model is wrong: it ends every stream with one byte changed."""

    def wrong(driver, stream):
        written = run_stream(driver, stream)
        if isinstance(driver.transport, RtlTransport):
            return written
        return {region: bytes([data[0] ^ 1]) + data[1:] for region, data in written.items()}

    run_stream = checks.run_stream
    monkeypatch.setattr(checks, "run_stream", wrong)
    for _time in range(2):
        keep, result = run(tmp_path, "--config-seconds", "0.5", "--check", "streams")
        assert result.exit_code == 1
        assert "FAILED streams seed" in result.output
        assert "MismatchError: stream 0: external memory differs" in result.output
    first = failed_seeds(keep)[0]
    assert len({each.seed for each in failed_seeds(keep)}) == len(json.loads(keep.read_text()))
    chip = RtlTransport(PRESETS["nano"], MEMORY_BYTES)
    with pytest.raises(checks.MismatchError, match="stream 0: external memory differs"):
        replay(chip, first)
    monkeypatch.undo()
    assert replay(chip, first)["streams"] == 20
    chip.close()


@pytest.mark.slow
def test_a_clean_campaign_keeps_nothing(tmp_path):
    keep, result = run(tmp_path, "--check", "streams")
    assert result.exit_code == 0, result.output
    assert '"streams": 20' in result.output
    assert not keep.exists()


def test_kept_seeds_come_back(tmp_path):
    config = dataclasses.replace(PRESETS["nano"], timestamps=2)
    kept = [FailedSeed(check="layers", config=config, seed=seed) for seed in (3, 4)]
    for failed in (*kept, kept[0]):
        soak._keep(tmp_path / "failed.json", failed)
    assert failed_seeds(tmp_path / "failed.json") == kept


def test_a_build_that_takes_too_long_ends_with_the_time(tmp_path, monkeypatch):
    """The cache must not report it as an error of the system."""
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / "cache"))

    def build(*_words, **_more):
        return entry("simulator", lambda _folder: time.sleep(60))

    monkeypatch.setattr(soak, "RtlTransport", build)
    began = time.monotonic()
    _keep, result = run(tmp_path, "--seconds", "0.2")
    assert time.monotonic() - began < 10
    assert result.exit_code == 1
    assert "error: nothing was tested: 0 s were over before" in result.output
    assert "hint: ask for more seconds" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [20, 60])
def test_soak_tests_something_and_ends_in_time(tmp_path, seconds):
    """As in `make soak SECONDS=60`, with a simulator that exists or can be built in time."""
    RtlTransport(PRESETS["nano"], MEMORY_BYTES).close()
    words = ["--seconds", str(seconds), "--keep", str(tmp_path / "failed.json")]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "support.soak", *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert seconds - 1 < time.monotonic() - began < seconds + 30
    assert re.search(r'"checks": [1-9]', done.stdout)
