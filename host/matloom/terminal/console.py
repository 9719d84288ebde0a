"""Rich's console, for streams that another program may close."""

import errno
import os

from rich.console import Console


class PipeConsole(Console):
    """A console that leaves a closed pipe to its caller; Rich ends the process with status 1."""

    def on_broken_pipe(self) -> None:
        """Raise `BrokenPipeError` for stdout; say no more on stderr, which does not matter."""
        if not self.stderr:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        self.quiet = True
