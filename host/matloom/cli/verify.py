"""The verb verify: everything that can be checked of a chip here, within some minutes."""

import hashlib
import json
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from matloom.cli.group import cli
from matloom.cli.options import CONFIG

if TYPE_CHECKING:
    from matloom.arch.config import Config
    from matloom.testing.verification import Prover
    from matloom.toolchain.verilator import LintWarning


def _prover() -> "Prover | str":
    """Return what proves claims of a configuration, or which tool it lacks."""
    from matloom_rtl import formal
    from matloom_rtl.formal.engine import missing

    lacking: str = missing()
    prover: Prover = formal.run
    return lacking or prover


def _lint(config: "Config", folder: Path) -> "tuple[str, list[LintWarning]]":
    """Write the Verilog and its description, as `generate` does, and let Verilator read it."""
    from matloom.toolchain.verilator import lint
    from matloom_rtl.generate import TOP_NAME, generate
    from matloom_rtl.lint import WAIVERS

    source, _sidecar = generate(config).write(folder)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    complaints = lint([source], TOP_NAME, sorted(WAIVERS))
    return f"{source.name}, SHA-256 {digest}: {len(complaints)} warnings", complaints


@cli.command(
    examples=(
        "matloom verify --config nano --minutes 5",
        "matloom verify --config mine.json --minutes 60 -o verification",
    ),
)
@CONFIG
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="How long; each step begins that has time left.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Of all that is random; else new.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("verification"),
    show_default=True,
    help="Folder of report.html and report.json.",
)
def verify(config: str, minutes: float, seed: int | None, output: Path) -> None:
    """Verify the chip: random programs, coverage, proofs.

    Random programs run on the simulated chip and on the functional model, every cycle held against
    the rules of AXI. What cannot run here is NOT RUN in the report, with the reason. Exit status
    1 where anything failed. Control-C ends it early, with a report of what was done.
    """
    from matloom.arch.config import load_config
    from matloom.coverage.coverage import Coverage
    from matloom.testing import verification as steps
    from matloom.testing.verdicts import Verification
    from matloom.testing.verification_report import to_html

    chosen = load_config(config)
    output.mkdir(parents=True, exist_ok=True)
    found = Verification(
        name=Path(config).stem,
        config=chosen,
        seed=secrets.randbits(32) if seed is None else seed,
        minutes=minutes,
        coverage=Coverage(chosen),
    )
    click.echo(f"--seed={found.seed}", err=True)
    steps.verify(
        found,
        linter=_lint,
        prover=_prover(),
        folder=output,
        say=lambda line: click.echo(line, err=True),
    )
    page, data = output / "report.html", output / "report.json"
    page.write_text(to_html(found))
    data.write_text(json.dumps(found.as_dict(), indent=1) + "\n")
    for step in found.steps:
        click.echo(f"{step.name:12} {step.verdict:10} {step.detail}")
    click.echo(page)
    click.echo(data)
    sys.exit(1 if found.failed else 0)
