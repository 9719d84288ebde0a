"""Rich's console, for streams that another program may close."""

import errno
import os

from rich.console import Console


class PipeConsole(Console):
    """Rich console that raises an error for a closed pipe on stdout; Rich's own exits instead."""

    def on_broken_pipe(self) -> None:
        """Raise `BrokenPipeError` for stdout; for stderr, drop all further output."""
        if not self.stderr:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        self.quiet = True
