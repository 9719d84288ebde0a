"""Printing for commands: the only way to the terminal, with control characters escaped."""

import os
import select
import sys
from collections.abc import Iterable
from typing import Any

import click

from matloom.printable import printable, printable_lines


def say(line: object, *, err: bool = False) -> None:
    """Print one line, on stdout or on stderr; line breaks within it are escaped."""
    click.echo(printable(str(line)), err=err)


def say_text(text: str, *, err: bool = False) -> None:
    """Print a text of several lines; the caller escapes line breaks within names."""
    click.echo(printable_lines(text), err=err)


def show(items: Iterable[Any]) -> None:
    """Print tables and lines; None is skipped."""
    from matloom.terminal.tables import plain_console

    console = plain_console()
    for item in items:
        if item is not None:
            console.print(printable(item) if isinstance(item, str) else item)


def is_reader_gone() -> bool:
    """Return whether the program that reads stdout has closed it, as `head` does."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(events & select.POLLERR for _stream, events in poll.poll(0))


def discard_output() -> None:
    """Redirect stdout to the null device, so that Python's flush at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
