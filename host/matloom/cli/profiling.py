"""The command profile: shows where a network's cycles go."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from matloom.cli.group import cli
from matloom.cli.network_argument import NETWORK, is_program
from matloom.cli.networks import REPORT, RunResult, run_once
from matloom.cli.options import Compilation, RunInputs, Target, compilation, run_inputs, target
from matloom.cli.places import require_folder, write_file
from matloom.cli.programs import SOURCE, modes_by_layer, require_network
from matloom.cli.say import say, show
from matloom.errors import UserError

if TYPE_CHECKING:
    from matloom.arch.config import Config
    from matloom.arch.memory import Memory
    from matloom.profile.comparison import ProfileComparison
    from matloom.profile.profile import Profile
    from matloom.program import Program

#: Number of lines of advice to print.
_ADVICE_LINES = 3


@dataclass(frozen=True, kw_only=True)
class _Result:
    """Options for what to do with a profile: write, compare, advise.

    `other` is the argument of --compare; other members are named as on the command line.
    """

    output: Path | None
    other: str | None
    thorough: bool


def _result(command: Callable[..., Any]) -> Any:
    """Add the options of `_Result` to a command, which receives them as its argument `result`."""

    @click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder for index.html, timeline.json (ui.perfetto.dev opens it), layers.csv, "
        "profile.json and node_data.json (Model Explorer); created if it does not exist.",
    )
    @click.option(
        "--compare",
        "other",
        metavar="PROFILE.json|CONFIG",
        help="Compare with an earlier profile, or with a prediction for another engine.",
    )
    @click.option(
        "--thorough",
        is_flag=True,
        help="Compile even a large network again for each line of advice.",
    )
    @functools.wraps(command)
    def wrapper(output: Path | None, other: str | None, thorough: bool, **values: Any) -> Any:
        """Call the command with these options as one `_Result`."""
        return command(result=_Result(output=output, other=other, thorough=thorough), **values)

    return wrapper


@cli.command(
    examples=(
        "matloom profile digits",
        "matloom profile digits --device model -o out",
        "matloom profile net.tflite --memory sdram-16 --report report.json",
        "matloom profile net.tflite --config nano -o out --compare nano+lanes=4",
        "matloom profile net.tflite -o after --compare before/profile.json",
        "matloom profile net.tflite -o out --thorough",
    ),
)
@NETWORK
@run_inputs("random")
@target
@compilation()
@REPORT
@_result
def profile(
    network: Path,
    inputs: RunInputs,
    target: Target,
    options: Compilation,
    report: Path | None,
    result: _Result,
) -> None:
    """Run NET once and show cycles by layer and by cause.

    With several samples, the last one is shown: the cost of a call does not depend on its values.
    With --output it also writes a page that says which changes would help most (docs/profiling.md).
    """
    output = result.output
    if result.thorough and (output is None or is_program(network)):
        raise click.UsageError("--thorough must go with a network, not a program, and --output")
    before = None if result.other is None else _other_profile(network, options, result.other)
    if output is not None:
        require_network(network)
        require_folder("--output", output)
    ran = run_once(network, inputs, target, options, report)
    show((ran.report.table(), *ran.report.lines()))
    if output is None and before is None:
        return
    made = _profile(network, options, ran, result)
    comparison = None if before is None else _print_comparison(before, made)
    if output is None:
        return
    _write_profile(made, comparison, output)
    for number, line in enumerate(made.advice[:_ADVICE_LINES], 1):
        say(f"{number}. {line.sentence()}: {line.how}")
    say(f"wrote {output / 'index.html'}")


def _profile(network: Path, options: Compilation, ran: RunResult, result: _Result) -> "Profile":
    """Return the profile of a run."""
    from matloom.profile.advice import AdviceOptions
    from matloom.profile.profile import make_profile
    from matloom.terminal.progress import progress

    modes = None if is_program(network) else modes_by_layer(network, options)

    def compile_again(config: "Config", memory: "Memory", effort: int) -> "Program":
        """Compile the network for another configuration, memory or effort of the compiler."""
        from matloom.compiler import CompileOptions
        from matloom.runtime import compile

        return compile(network, config, CompileOptions(effort=effort), modes, "none", memory)

    able = None if is_program(network) else compile_again
    advise = AdviceOptions(effort=options.effort, compile_again=able, thorough=result.thorough)
    with progress(f"profiling {ran.program.name}"):
        return make_profile(
            ran.program,
            ran.report,
            ran.counted,
            iterations=ran.iterations,
            advise=None if result.output is None else advise,
        )


def _other_profile(network: Path, options: Compilation, other: str) -> dict[str, Any]:
    """Return the profile that --compare asks for: from a file, or predicted for a configuration."""
    from matloom.arch.config import load_config
    from matloom.compiler import CompileOptions
    from matloom.profile.comparison import is_profile, read_profile
    from matloom.profile.profile import make_profile
    from matloom.report import make_report
    from matloom.runtime import compile
    from matloom.terminal.progress import progress

    if is_profile(Path(other)):
        return read_profile(Path(other))
    config = load_config(other)
    if is_program(network):
        raise UserError(
            f"--compare with a configuration must go with a network, not the program "
            f"{str(network)!r}",
            hint=SOURCE,
        )
    modes = modes_by_layer(network, options)
    with progress(f"compiling {network.name} for {other}"):
        compile_options = CompileOptions(effort=options.effort)
        program = compile(network, config, compile_options, modes, "none", options.memory)
    if program.loops:
        raise UserError(
            "--compare with a configuration needs a network whose loops have a known number of "
            "iterations, and an input decides that of this network",
            hint="profile it for both configurations with -o, then --compare the profile.json",
        )
    return make_profile(program, make_report(program, "prediction", []), advise=None).as_dict()


def _print_comparison(before: dict[str, Any], after: "Profile") -> "ProfileComparison":
    """Return the comparison of two profiles, and print its summary."""
    from matloom.profile.comparison import compare_profiles

    comparison = compare_profiles(before, after.as_dict())
    show((f"compared with {comparison.name}: {comparison.sentence}",))
    return comparison


def _write_profile(
    profile: "Profile", comparison: "ProfileComparison | None", folder: Path
) -> None:
    """Write a profile to a folder: page, timeline, CSV, JSON and data for Model Explorer."""
    from matloom.profile.files import to_csv, to_json, to_node_data
    from matloom.profile.page import to_html
    from matloom.profile.trace import to_chrome

    texts = {
        "index.html": to_html(profile, comparison),
        "timeline.json": to_chrome(profile.program, profile.timelines, profile.report),
        "layers.csv": to_csv(profile),
        "profile.json": to_json(profile),
        "node_data.json": to_node_data(profile),
    }
    for name, text in texts.items():
        write_file(folder / name, text)
