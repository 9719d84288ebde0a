"""Runs external programs, and returns or passes on their output."""

import errno
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matloom.errors import HintedError, reason


class ToolError(HintedError, OSError):
    """Error raised if an external program is missing, too old, or fails."""


def _first_error(lines: list[str]) -> str:
    """Return the line to quote in a message: the first that contains "error", else the last."""
    errors = (line for line in lines if "error" in line.lower())
    return next(errors, lines[-1] if lines else "it printed nothing").strip()


def _failure(name: str, status: int, lines: list[str]) -> ToolError:
    """Return the error for a program that failed, by its status and what it printed."""
    if any(os.strerror(errno.ENOSPC) in line for line in lines):
        return ToolError(
            f"{name} failed: the disk of the folder for temporary files, {tempfile.gettempdir()}, "
            "is full",
            hint="free some space there, or set TMPDIR to a folder on another disk",
        )
    return ToolError(
        f"{name} failed with status {status}: {_first_error(lines)}",
        hint="run: matloom doctor; it checks the tools that are installed",
    )


def run(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    folder: Path | None = None,
) -> list[str]:
    """Run a program to its end; return the lines that it printed to stdout and stderr.

    Parameters
    ----------
    environment:
        Environment variables added to those of this process.
    on_line:
        Called with each line as it appears.
    folder:
        Working directory; None for that of this process.

    Raises
    ------
    ToolError
        The program cannot be started, or exits with a nonzero status; the message quotes its first
        error.
    """
    words = [str(word) for word in command]
    name = words[3] if words[:2] == ["sh", "-c"] else Path(words[0]).name
    try:
        # In a separate session, so that an interruption also ends the compilers that it started.
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=os.environ | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(
            f"{name} cannot be started: {reason(error)}", hint="run: matloom doctor"
        ) from error
    lines = []
    with process:
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip("\n"))
                if on_line:
                    on_line(lines[-1])
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise _failure(name, process.returncode, lines)
    return lines
