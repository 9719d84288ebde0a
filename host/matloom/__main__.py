"""Entry point of `matloom` and `python -m matloom`."""

import signal
import sys

#: Exit status of a program ended by SIGINT, as shells report it.
_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run the command line; end without a traceback if Ctrl-C interrupts it or its imports."""
    try:
        from matloom.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
