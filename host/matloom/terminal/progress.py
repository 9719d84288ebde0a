"""Says on standard error that a long computation is under way."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["progress"]

#: Seconds for which nothing is said.
_PATIENCE = 2.0


@contextmanager
def progress(
    text: str, *, after: float = _PATIENCE, console: "Console | None" = None
) -> Iterator[None]:
    """Show `text` and the time that has passed, from `after` seconds on, while the body runs.

    The line goes to standard error, or to `console`, and only where that is a terminal; it
    disappears at the end.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    shown = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console or Console(stderr=True),
        transient=True,
    )
    shown.add_task(text, total=None)
    if not shown.console.is_terminal:
        yield
        return
    timer = threading.Timer(after, shown.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        shown.stop()
