import io
import time

import pytest
from rich.console import Console

from matloom.terminal.progress import progress


def _shown(seconds, after, *, terminal=True):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=80)
    with progress("compiling net", after=after, console=console):
        time.sleep(seconds)
    return stream.getvalue()


def test_what_takes_long_is_shown():
    assert "compiling net" in _shown(0.3, 0.01)


def test_what_is_done_soon_is_not_shown():
    assert "compiling net" not in _shown(0.0, 60.0)


def test_nothing_goes_to_a_file():
    assert _shown(0.3, 0.01, terminal=False) == ""


def test_an_error_ends_it():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with pytest.raises(KeyError), progress("compiling net", after=0.01, console=console):
        raise KeyError
    # Another one may be shown on the same console.
    with progress("compiling net", after=0.01, console=console):
        time.sleep(0.1)
