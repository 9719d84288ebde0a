"""Writes the report of a verification as a self-contained HTML page."""

from collections.abc import Iterator

from matloom.coverage.coverage import Coverage
from matloom.pages import Column, Markup, Page, PageSection, badge, code, details, join, table, tag
from matloom.verification.verdicts import (
    FAILED,
    INCOMPLETE,
    NOT_RUN,
    PASSED,
    Step,
    Verification,
)

#: Kind of badge, which determines its colour, by verdict.
_KINDS = {PASSED: "good", FAILED: "bad", INCOMPLETE: "warn", NOT_RUN: "dim"}


def to_html(verification: Verification) -> str:
    """Return the HTML text: verdicts of steps, coverage by group, and why points are missing."""
    started = f"{verification.started:%-d %B %Y, %H:%M} UTC"
    took = f"{verification.seconds / 60:.1f} of {verification.minutes:g} minutes"
    digest = f"{verification.config.digest:08x}"
    versions = ", ".join(f"{each} {version}" for each, version in verification.versions.items())
    verdict = verification.verdict
    return Page(
        title=f"Verification of {verification.name}: {verdict}",
        subtitle=(
            _badge(verdict),
            f" {started}; {took}. Configuration {digest}, seed {verification.seed}.",
        ),
        sections=tuple(_sections(verification)),
        foot=(
            tag("p", f"With {versions}."),
            tag("p", "To repeat it: ", code(verification.command())),
        ),
    ).to_html()


def _sections(verification: Verification) -> Iterator[PageSection]:
    """Yield the sections of the page: steps, coverage, configuration."""
    yield PageSection(name="steps", title="Steps", content=_steps(verification))
    yield PageSection(
        name="coverage", title="Functional coverage", content=_coverage(verification.coverage)
    )
    configuration = details("All fields", verification.config.to_json())
    yield PageSection(name="configuration", title="Configuration", content=configuration)


def _steps(verification: Verification) -> Markup:
    """Return a table of the steps and their verdicts, and what each of them printed."""
    lacking = ", ".join(verification.not_run)
    without = tag("p", tag("b", f"Not run, so not covered: {lacking}.")) if lacking else None
    rows = table(
        ("step", "verdict", Column(title="seconds", numeric=True), "result"),
        [
            (step.name, _badge(step.verdict), f"{step.seconds:g}", step.sentence)
            for step in verification.steps
        ],
    )
    return join(
        without, _time_to_complete(verification), rows, map(_step_lines, verification.steps)
    )


def _badge(verdict: str) -> Markup:
    """Return a verdict as a label in its colour."""
    return badge(verdict, _KINDS[verdict])


def _time_to_complete(verification: Verification) -> Markup | None:
    """Return a paragraph with the time that would complete all steps; None if all are complete."""
    minutes = verification.complete_minutes
    if minutes is None:
        return None
    command = code(verification.command(minutes))
    return tag("p", f"About {minutes} minutes would complete it: ", command)


def _coverage(coverage: Coverage) -> Markup:
    """Return tables of functional coverage: points reached by group, unreached by reason."""
    if not coverage.runs:
        return tag("p", "No program ran on the simulated chip.")
    reached = table(
        ("group", Column(title="reached", numeric=True), Column(title="declared", numeric=True)),
        [
            (group, f"{reached:,}", f"{declared:,}")
            for group, (reached, declared) in coverage.shares().items()
        ],
    )
    unreached_by_reason = table(
        ("reason", Column(title="points", numeric=True)),
        [(why, f"{count:,}") for why, count in coverage.unreached_by_reason().most_common()],
    )
    excluded = "\n".join(f"{what}: {why}" for what, why in coverage.model.excluded.items())
    return join(
        tag("p", f"{coverage.runs:,} runs, {coverage.instructions:,} instructions."),
        reached,
        tag("h3", "Points without a hit, by reason"),
        unreached_by_reason,
        details("Missing", "\n".join(coverage.missing()) or "nothing"),
        details("Not declared, and why", excluded),
    )


def _step_lines(step: Step) -> Markup | None:
    """Return the lines that a step printed, folded; None if there are none."""
    return details(f"Lines of {step.name}", "\n".join(step.lines)) if step.lines else None
