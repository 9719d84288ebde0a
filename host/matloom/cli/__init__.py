"""The command line: one verb a function, each importing what it needs when it is called."""

import sys

import click

from matloom.cli import boards, chips, fitting, lines, networks, verify
from matloom.cli.group import cli

__all__ = [
    "USER_ERRORS",
    "boards",
    "chips",
    "cli",
    "fitting",
    "lines",
    "main",
    "networks",
    "verify",
]

#: Errors of the user's making; anything else is a defect and keeps its traceback.
USER_ERRORS = (ValueError, TypeError, OSError, ModuleNotFoundError)


def main() -> None:
    """Run the command line; a mistake of the user's is one line on stderr and exit status 2."""
    try:
        cli(prog_name="matloom")
    except USER_ERRORS as error:
        # python -X dev shows where it was raised.
        if sys.flags.dev_mode:
            raise
        sentence = " ".join(str(error).split()) or type(error).__name__
        click.echo(f"matloom: {sentence}", err=True)
        sys.exit(2)
