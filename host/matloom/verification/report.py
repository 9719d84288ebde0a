"""The report of a verification as a self-contained HTML page."""

from collections.abc import Iterable
from html import escape

from matloom.coverage.coverage import Coverage
from matloom.verification.verdicts import Step, Verification

__all__ = ["to_html"]

_STYLE = """
body { font: 15px/1.45 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 }
td, th { border: 1px solid #bbb; padding: 0.3em 0.7em; text-align: left; vertical-align: top }
td.number { text-align: right }
pre { background: #f3f3f3; padding: 0.7em; overflow: auto; max-height: 30em }
.PASSED { background: #d9f2d9 } .FAILED { background: #f6c9c9 }
.INCOMPLETE { background: #fdf0c4 } .NOT-RUN { background: #e6e6e6 }
"""


def to_html(verification: Verification) -> str:
    """Return the report as HTML: verdicts, coverage by group, and why points are missing."""
    verdict = verification.verdict
    name, digest = escape(verification.name), f"{verification.config.digest:08x}"
    started = f"{verification.started:%-d %B %Y, %H:%M} UTC"
    took = f"{verification.seconds / 60:.1f} of {verification.minutes:g} minutes"
    lacking = ", ".join(verification.not_run)
    without = f"<p><b>Not run, so not covered: {lacking}.</b></p>" if lacking else ""
    versions = ", ".join(
        f"{escape(each)} {version}" for each, version in verification.versions.items()
    )
    parts = [
        f"<h1>Verification of {name}: {verdict}</h1>",
        f"<p>{started}; {took}. Configuration {digest}, seed {verification.seed}.</p>",
        f"<p>With {versions}.</p>",
        without,
        _complete(verification),
        f"<p>To repeat it: <code>{escape(verification.command())}</code></p>",
        _table(("step", "verdict", "seconds", "result"), map(_row, verification.steps)),
        _coverage(verification.coverage),
        *map(_lines, verification.steps),
        _folded("Configuration", verification.config.to_json()),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}: {verdict}'
        f"</title><style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _complete(verification: Verification) -> str:
    """Return a paragraph on what more time would achieve."""
    minutes = verification.complete_minutes
    if minutes is None:
        return ""
    command = escape(verification.command(minutes))
    return f"<p>About {minutes} minutes would complete it: <code>{command}</code></p>"


def _table(headings: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in headings)
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _row(step: Step) -> str:
    return (
        f'<tr class="{step.verdict.replace(" ", "-")}"><td>{escape(step.name)}</td>'
        f'<td>{step.verdict}</td><td class="number">{step.seconds:g}</td>'
        f"<td>{escape(step.sentence)}</td></tr>"
    )


def _coverage(coverage: Coverage) -> str:
    if not coverage.runs:
        return "<h2>Functional coverage</h2><p>No program ran on the simulated chip.</p>"
    rows = (
        f'<tr><td>{group}</td><td class="number">{reached:,}</td>'
        f'<td class="number">{declared:,}</td></tr>'
        for group, (reached, declared) in coverage.shares().items()
    )
    absent = (
        f'<tr><td>{escape(why)}</td><td class="number">{count:,}</td></tr>'
        for why, count in coverage.absent().most_common()
    )
    excluded = "\n".join(f"{what}: {why}" for what, why in coverage.model.excluded.items())
    return (
        f"<h2>Functional coverage</h2><p>{coverage.runs:,} runs, {coverage.instructions:,} "
        f"instructions.</p>{_table(('group', 'reached', 'declared'), rows)}"
        f"<h3>Points without a hit, by reason</h3>{_table(('reason', 'points'), absent)}"
        + _folded("Missing", "\n".join(coverage.missing()) or "nothing")
        + _folded("Not declared, and why", excluded)
    )


def _lines(step: Step) -> str:
    return _folded(f"Lines of {step.name}", "\n".join(step.lines)) if step.lines else ""


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"
