"""Entry point of `matloom` and `python -m matloom`."""

import sys

__all__ = ["main"]

#: As a shell counts a program that SIGINT ended.
_INTERRUPTED = 130


def main() -> None:
    """Run the command line, quiet if it is interrupted, even while its modules are imported."""
    try:
        from matloom.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
