"""The command verify: checks everything about a chip that can be checked within some minutes."""

import hashlib
import json
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from matloom.cli.group import cli
from matloom.cli.options import CONFIG
from matloom.cli.places import require_folder, require_writable, write_file
from matloom.cli.say import say
from matloom.cli.worker_options import Workers, worker_options
from matloom.device.errors import DeviceError
from matloom.printable import printable
from matloom.verification.verdicts import FAILED, STEPS

if TYPE_CHECKING:
    from matloom.arch.config import Config
    from matloom.toolchain.verilator import LintWarning
    from matloom.verification.plan import Prover
    from matloom.verification.verdicts import Verification


def _prover() -> "Prover | str":
    """Return the prover of a chip's formal properties, or the name of the tool it lacks."""
    from matloom.verification.plan import Prover
    from matloom_rtl import formal
    from matloom_rtl.formal.engine import missing

    missing_requirements: str = missing()
    return missing_requirements or Prover(run=formal.run, expected=formal.estimate_seconds)


def _lint(config: "Config", folder: Path) -> "tuple[str, list[LintWarning]]":
    """Write the Verilog and its description, like `generate`, and lint it with Verilator."""
    from matloom.toolchain.verilator import lint
    from matloom_rtl.generate import TOP_NAME, generate
    from matloom_rtl.lint import WAIVERS

    source, _sidecar = generate(config).write(folder)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    complaints = lint([source], TOP_NAME, sorted(WAIVERS))
    return f"{source.name}, SHA-256 {digest}: {len(complaints)} warnings", complaints


def _write_reports(verification: "Verification", folder: Path, junit: Path | None) -> list[Path]:
    """Write the reports and return their paths."""
    from matloom.verification.junit import to_junit
    from matloom.verification.report import to_html

    texts = {
        folder / "report.html": to_html(verification),
        folder / "report.json": json.dumps(verification.as_dict(), indent=1) + "\n",
        **({} if junit is None else {junit: to_junit(verification)}),
    }
    for path, text in texts.items():
        write_file(path, text)
    return list(texts)


def _print_outcome(verification: "Verification") -> None:
    """Print the outcome of each step and overall, and what to do next."""
    for step in verification.steps:
        say(f"{step.name:12} {step.verdict:10} {step.seconds:6.1f} s  {step.sentence}")
        if step.verdict == "FAILED":
            for line in step.lines[:2]:
                say(f"{'':12} {line}")
    say(f"{verification.name}: {verification.verdict}")
    if verification.complete_minutes is not None:
        say(f"about {verification.complete_minutes} minutes would complete it:")
        say(f"  {verification.command(verification.complete_minutes)}")


def _run_steps(verification: "Verification", folder: Path, workers: Workers) -> None:
    """Run the steps of a verification, and show progress."""
    from matloom.verification import campaign
    from matloom.workers import TaskRunner, reused_executor

    with reused_executor(workers.make) as make:
        campaign.verify(
            verification,
            linter=_lint,
            prover=_prover(),
            folder=folder,
            say=lambda line: say(line, err=True),
            tasks=TaskRunner(make=make, at_once=workers.at_once),
        )


@cli.command(
    examples=(
        "matloom verify --config nano --minutes 5",
        "matloom verify --config nano --minutes 60 --workers 2",
        "matloom verify --config mine.json --minutes 60 -o verification",
        "matloom verify --config nano --only proofs --junit proofs.xml",
    ),
)
@CONFIG
@click.option(
    "--minutes",
    type=click.FloatRange(0, 100_000, min_open=True),
    default=30.0,
    show_default=True,
    help="Time limit. Steps that can be completed come first.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    help="Seed of everything random. [default: a new one]",
)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(STEPS),
    help="Run only this step, and those it needs; may be given several times.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("verification"),
    show_default=True,
    help="Folder for report.html and report.json.",
)
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the report as JUnit XML.",
)
@worker_options
def verify(
    config: str,
    minutes: float,
    seed: int | None,
    only: tuple[str, ...],
    output: Path,
    junit: Path | None,
    workers: Workers,
) -> None:
    """Verify the chip: random programs, coverage, proofs.

    Random programs run on the simulated chip and on the functional model, and every cycle is
    checked against the rules of AXI; --workers and --cluster share their checks. Steps that cannot
    run here are NOT RUN in the report, with the reason. A step that runs out of time is INCOMPLETE,
    with the minutes it needs. Exit status 1 if anything failed, or nothing ran. Control-C ends it
    early, with a report up to then and exit status 130.
    """
    from matloom.arch.config import load_config
    from matloom.coverage.coverage import Coverage
    from matloom.verification.verdicts import Verification

    chosen = load_config(config)
    require_writable("--junit", junit)
    require_folder("--output", output)
    found = Verification(
        name=printable(Path(config).stem),
        source=config,
        config=chosen,
        seed=secrets.randbits(32) if seed is None else seed,
        minutes=minutes,
        only=only,
        coverage=Coverage(chosen),
    )
    say(f"--seed={found.seed}", err=True)
    _run_steps(found, output, workers)
    written = _write_reports(found, output, junit)
    _print_outcome(found)
    for path in written:
        say(path)
    if found.interrupted and found.verdict != FAILED:
        raise click.exceptions.Abort
    sys.exit(1 if found.failed else 0)


@cli.command(examples=("matloom replay streams:1234 --config mine.json --waves failing.vcd",))
@click.argument("check", metavar="CHECK:SEED")
@CONFIG
@click.option(
    "--waves",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a VCD of the run that fails, if one does.",
)
def replay(check: str, config: str, waves: Path | None) -> None:
    """Run a check that failed in verify again.

    The report of `matloom verify` contains the command for each failure. Exit status 1 if it fails
    again.
    """
    from matloom.arch.config import load_config
    from matloom.terminal.progress import progress
    from matloom.verification import replays
    from matloom.verification.pair import MismatchError

    require_writable("--waves", waves)
    failed = replays.Replay.parse(check)
    try:
        with progress(f"running {check}"):
            replays.replay(load_config(config), failed, waves, lambda line: say(line, err=True))
    except (MismatchError, DeviceError) as error:
        say(f"{check}: FAILED, {error}")
        if waves is not None:
            say(waves)
        sys.exit(1)
    say(f"{check}: PASSED{'; waves are written of failures only' if waves else ''}")
