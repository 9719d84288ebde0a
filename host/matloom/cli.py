"""The command line: one verb a function, each importing what it needs when it is called."""

import sys

import click

import matloom

#: Errors of the user's making; anything else is a defect and keeps its traceback.
USER_ERRORS = (ValueError, TypeError, OSError, ModuleNotFoundError)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(matloom.__version__, prog_name="matloom")
def cli() -> None:
    """Generate a matrix engine for FPGAs and run quantised networks on it."""


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def doctor(as_json: bool) -> None:
    """Report the state of each tool, with the remedy."""
    from matloom import doctor as clinic

    findings = clinic.examine()
    click.echo(clinic.to_json(findings) if as_json else clinic.to_table(findings), nl=as_json)
    sys.exit(0 if clinic.healthy(findings) else 1)


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
