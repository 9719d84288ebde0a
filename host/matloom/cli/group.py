"""The command that all verbs belong to."""

import click

import matloom

__all__ = ["cli"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(matloom.__version__, prog_name="matloom")
def cli() -> None:
    """Generate a matrix engine for FPGAs and run quantised networks on it."""
