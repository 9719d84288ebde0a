"""The root command: commands in sections, each with examples in its help."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

import matloom
from matloom.cli.say import discard_output, is_reader_gone, say_text

#: Sections of `matloom --help`, and their commands in the order of use.
SECTIONS = {
    "Networks": (
        "demo",
        "explain",
        "run",
        "evaluate",
        "profile",
        "tune",
        "compile",
        "compare",
        "quantise",
        "precision",
        "disasm",
    ),
    "Chips": ("generate", "package-ip", "simulate-link"),
    "Boards": (
        "fit",
        "explore",
        "build",
        "program",
        "check-board",
        "boot",
        "firmware",
        "plugin",
        "simulate-board",
    ),
    "Verification": ("verify", "replay", "bench"),
    "Housekeeping": ("doctor",),
}


class Command(click.Command):
    """A command whose help ends with examples, whole command lines.

    The first paragraph of its docstring is its summary in `matloom --help`, which is never cut:
    one line of at most 60 characters.
    """

    def __init__(self, *arguments: Any, examples: Sequence[str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; refuse empty arguments and numbers that are not finite."""
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        rest = super().parse_args(ctx, args)
        for parameter in self.get_params(ctx):
            raw, value = given.get(parameter.name or ""), ctx.params.get(parameter.name or "")
            if raw == "" or (isinstance(raw, list | tuple) and "" in raw):
                raise click.BadParameter("it is empty", ctx, parameter)
            if isinstance(value, float) and not math.isfinite(value):
                raise click.BadParameter(f"{value} is not a finite number", ctx, parameter)
        return rest

    @property
    def summary(self) -> str:
        """Return the first paragraph of the help, as one line."""
        return " ".join((self.help or "").split("\n\n")[0].split())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        with formatter.section("Examples"):
            for line in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


@contextmanager
def _closed_pipe_is_no_error() -> Iterator[None]:
    """Return a context that ends the process with status 0 if the reader of stdout is gone."""
    try:
        yield
    except BrokenPipeError:
        if not is_reader_gone():
            raise
        discard_output()
        raise SystemExit(0) from None


class _Commands(click.Group):
    """The commands, listed by section."""

    command_class = Command

    def make_context(self, *arguments: Any, **named: Any) -> click.Context:
        """Parse the command line, which may print help; a closed pipe ends it as in `invoke`."""
        with _closed_pipe_is_no_error():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; if the reader of stdout is gone, end with status 0 (Click: status 1)."""
        with _closed_pipe_is_no_error():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of each section with their full summaries."""
        width = max(map(len, self.commands))
        for section, names in SECTIONS.items():
            commands = [self.commands[name] for name in names]
            rows = [
                (str(each.name).ljust(width), each.summary)
                for each in commands
                if isinstance(each, Command)
            ]
            with formatter.section(section):
                formatter.write_dl(rows)


_EPILOG = """\
\b
Start with
  matloom demo             a trained network on the simulated chip
  matloom explain digits   what it costs, and why; then your .tflite file
  matloom COMMAND --help   options of a command, and examples

\b
Exit status: 0 all is well, 1 a check failed or something differs, 2 an error,
130 interrupted.
"""


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    epilog=_EPILOG,
)
@click.version_option(matloom.__version__, prog_name="matloom")
@click.pass_context
def cli(context: click.Context) -> None:
    """Generate a matrix engine for FPGAs and run quantised networks on it."""
    if context.invoked_subcommand is None:
        say_text(context.get_help())
