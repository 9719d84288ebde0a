import io
import time

import pytest
from rich.console import Console

from matloom.terminal.progress import progress, set_activity


def _shown(seconds, after, *, terminal=True):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=80)
    with progress("compiling net", after=after, console=console):
        time.sleep(seconds)
    return stream.getvalue()


def test_long_tasks_show_progress():
    assert "compiling net" in _shown(0.3, 0.01)


def test_short_tasks_show_no_progress():
    assert "compiling net" not in _shown(0.0, 60.0)


def test_lines_go_to_a_file():
    stream = io.StringIO()
    console = Console(file=stream, width=20)
    with progress("compiling net", after=0, every=0.1, console=console):
        set_activity("3 of 5 files compiled")
        assert stream.getvalue() == "compiling net\n"
        time.sleep(0.35)
    lines = stream.getvalue().splitlines()
    assert lines[1] == "compiling net: 3 of 5 files compiled, 0 s"
    assert lines[-1] == "compiling net: done in 0 s"
    assert 3 <= len(lines) <= 6


def test_nested_tasks_do_not_print():
    stream = io.StringIO()
    console = Console(file=stream, width=80)
    outer = progress("running net", after=0, every=0.1, console=console)
    with outer, progress("building", after=0):
        time.sleep(0.3)
    assert "running net: building, 0 s\n" in stream.getvalue()
    assert "\nbuilding" not in stream.getvalue()


def test_failed_requests_have_no_effect():
    stream = io.StringIO()
    shown = progress("compiling net", after=0, console=Console(file=stream))
    with pytest.raises(OSError, match="no"), shown:
        raise OSError("no")
    assert "done" not in stream.getvalue()


def test_an_error_ends_it():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with pytest.raises(KeyError), progress("compiling net", after=0.01, console=console):
        raise KeyError
    # Another one may be shown on the same console.
    with progress("compiling net", after=0.01, console=console):
        time.sleep(0.1)
