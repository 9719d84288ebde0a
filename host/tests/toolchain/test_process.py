"""Running programs: output, failures, termination."""

import sys
import time

import pytest

from matloom.toolchain.process import ToolError, run


def python(script):
    return [sys.executable, "-c", script]


def test_lines_of_both_streams_are_passed_on():
    seen = []
    script = (
        "import os, sys; print(os.environ['GREETING'], flush=True); print('b', file=sys.stderr)"
    )
    lines = run(python(script), environment={"GREETING": "a"}, on_line=seen.append)
    assert lines == seen == ["a", "b"]


def test_failure_names_the_first_error():
    script = "print('x.cpp:3: error: no such thing'); print('make: *** stop'); exit(7)"
    with pytest.raises(ToolError, match=r"status 7: x\.cpp:3: error: no such thing\n"):
        run(python(script))


def test_silent_failure():
    with pytest.raises(ToolError, match="status 1: it printed nothing"):
        run(python("exit(1)"))


def test_missing_program(tmp_path):
    with pytest.raises(ToolError, match="absent cannot be started: no such file"):
        run([tmp_path / "absent"])


def test_interruption_ends_the_program():
    def interrupt(line):
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(python("import time; print(1, flush=True); time.sleep(60)"), on_line=interrupt)
    assert time.monotonic() - started < 30
