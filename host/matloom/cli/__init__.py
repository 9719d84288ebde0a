"""The command line: one function per command, which imports what it needs when called."""

import os
import signal
import sys
import warnings
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO, cast

import click

from matloom.cli import (
    accuracy,
    boards,
    chips,
    exploring,
    firmware,
    fitting,
    lines,
    networks,
    plugins,
    profiling,
    programs,
    quantiser,
    tuning,
    verify,
)
from matloom.cli.complaints import error_message, show_warning
from matloom.cli.group import cli
from matloom.cli.say import discard_output, say_text
from matloom.errors import HintedError

__all__ = [
    "USER_ERRORS",
    "accuracy",
    "boards",
    "chips",
    "cli",
    "exploring",
    "firmware",
    "fitting",
    "lines",
    "main",
    "networks",
    "plugins",
    "profiling",
    "programs",
    "quantiser",
    "tuning",
    "verify",
]

#: Errors caused by users; anything else is a defect and keeps its traceback.
USER_ERRORS = (HintedError, ValueError, TypeError, OSError, ModuleNotFoundError)

#: Exit status of a program ended by SIGINT, as shells report it.
_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run the command line and end the process.

    Exit status: 0 for success, 1 if a check failed, 2 for an error, printed on stderr as `error:`
    and `hint:`, 130 if interrupted. A closed pipe, as with `matloom ... | head`, is not an error.
    """
    # A stream that the shell closed is None in Python: matloom ... >&-
    sys.stdout, sys.stderr = (each or _discarding_stream() for each in (sys.stdout, sys.stderr))
    for stream in (sys.stdout, sys.stderr):
        # Names come from files; characters that a terminal cannot show are escaped.
        cast(TextIOWrapper, stream).reconfigure(errors="backslashreplace")
    warnings.showwarning = show_warning
    try:
        status = cli.main(prog_name="matloom", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        status = _INTERRUPTED
    except BrokenPipeError:
        discard_output()
        status = 0
    except (click.ClickException, *USER_ERRORS) as error:
        # python -X dev shows the traceback.
        if sys.flags.dev_mode:
            raise
        say_text(error_message(error), err=True)
        status = 2
    sys.exit(status or 0)


def _discarding_stream() -> TextIO:
    """Return a stream that discards its text."""
    return Path(os.devnull).open("w")
