"""Shows the progress of long computations on standard error: activity and elapsed time."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from matloom.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

#: Seconds before anything is shown, and seconds between status lines outside a terminal.
_PATIENCE, _EVERY = 2.0, 10.0


class _Step:
    """A running computation, with its description and its current activity."""

    def __init__(self, text: str, detail: Callable[[], str] | None) -> None:
        self.text, self.activity, self._detail = printable(text), "", detail
        self.began = time.monotonic()

    @property
    def now(self) -> str:
        """Description of the current activity; empty if unknown."""
        return self._detail() if self._detail else self.activity

    def line(self) -> str:
        """Return a line with the description, the current activity and the elapsed seconds."""
        details = [each for each in (self.now, f"{time.monotonic() - self.began:.0f} s") if each]
        return printable(f"{self.text}: {', '.join(details)}")


#: The computation that is shown, if any; a computation within it only updates its activity.
_shown: list[_Step] = []
_lock = threading.Lock()


def set_activity(detail: str) -> None:
    """Set the current activity of the running computation, such as "12 files compiled"."""
    with _lock:
        if _shown:
            _shown[-1].activity = detail


@contextmanager
def progress(
    text: str,
    *,
    after: float = _PATIENCE,
    every: float = _EVERY,
    detail: Callable[[], str] | None = None,
    console: "Console | None" = None,
) -> Iterator[None]:
    """Show `text` and the elapsed seconds while the body runs, from `after` seconds on.

    On a terminal, a single line is kept up to date and disappears at the end. Elsewhere, a line is
    written after `after` seconds, then a status line every `every` seconds, and a last line at the
    end if any was written. Within another `progress`, `text` only becomes the activity of the outer
    computation.

    Parameters
    ----------
    detail:
        Function that returns the current activity, called from another thread. None shows the last
        text passed to `set_activity`.
    console:
        Console to write to; None for standard error.
    """
    with _lock:
        inner = bool(_shown)
        step = _Step(text, detail)
        if not inner:
            _shown.append(step)
    if inner:
        set_activity(text)
        yield
        return
    try:
        with _display(step, after, every, console):
            yield
    finally:
        with _lock:
            _shown.remove(step)


@contextmanager
def _display(step: _Step, after: float, every: float, console: "Console | None") -> Iterator[None]:
    """Show a step from `after` seconds on, from a thread while the body runs; then its duration."""
    from matloom.terminal.console import PipeConsole

    console = console or PipeConsole(stderr=True)
    show = _spin if console.is_terminal else _write
    ended = threading.Event()
    shown = threading.Event()
    thread = threading.Thread(
        target=show, args=(step, console, after, every, shown, ended), daemon=True
    )
    thread.start()
    if not after:
        # A line without delay comes before any output of the body.
        shown.wait(1)
    try:
        yield
        if shown.is_set() and not console.is_terminal:
            ended.set()
            thread.join()
            _print_line(console, f"{step.text}: done in {time.monotonic() - step.began:.0f} s")
    finally:
        ended.set()
        thread.join()


def _print_line(console: "Console", text: str) -> None:
    """Print a line of text as it is, without markup or line breaks."""
    console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)


def _write(
    step: _Step,
    console: "Console",
    after: float,
    every: float,
    is_shown: threading.Event,
    ended: threading.Event,
) -> None:
    """Write a line after `after` seconds, then a status line every `every` seconds until ended."""
    if ended.wait(after):
        return
    _print_line(console, step.text)
    is_shown.set()
    while not ended.wait(every):
        _print_line(console, step.line())


def _spin(
    step: _Step,
    console: "Console",
    after: float,
    _every: float,
    is_shown: threading.Event,
    ended: threading.Event,
) -> None:
    """Keep a single terminal line up to date, from `after` seconds on until ended."""
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    if ended.wait(after):
        return
    spinner = Spinner("dots", Text(step.text))
    with Live(spinner, console=console, transient=True, refresh_per_second=10):
        is_shown.set()
        while not ended.wait(0.2):
            spinner.update(text=Text(step.line()))
