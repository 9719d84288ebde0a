"""Trials: a mutant is noticed or not, and one that is no valid hardware is recognised."""

import json
import os
import subprocess
import sys

import pytest

from mutation.units import ROOT

UNIT, TESTS = "memory/rotate", "rtl/tests/memory/test_rotate.py"
#: A process of its own, which has not imported the hardware.
SCRIPT = """
import dataclasses, json, sys
from mutation.trial import run_tests
from mutation.units import RTL
before, after, limit = json.loads(sys.argv[1])
source = (RTL / "memory/rotate.py").read_text()
assert before in source
source = source.replace(before, after)
outcome = run_tests("memory/rotate", source, ["rtl/tests/memory/test_rotate.py"], {}, limit)
print(json.dumps(dataclasses.asdict(outcome)))
"""


def attempt(before, after, limit=60):
    arguments = json.dumps([before, after, limit])
    command = [sys.executable, "-c", SCRIPT, arguments]
    paths = [str(ROOT / "bench"), os.environ.get("PYTHONPATH", "")]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ("def rotate_left(", "def rotate_left(", "survived"),
        ("rotate_left(unit << step)", "rotate_left(unit)", "killed"),
        ("def rotate_left(", "def turn_left(", "invalid"),
        ("def rotate_left(", "while True:\n    pass\n\n\ndef rotate_left(", "timeout"),
    ],
)
def test_verdicts(before, after, verdict):
    outcome = attempt(before, after, limit=2 if verdict == "timeout" else 60)
    assert outcome["verdict"] == verdict
    if verdict == "killed":
        assert outcome["by"].startswith(f"{TESTS}::test_every_amount")
