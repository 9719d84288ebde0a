"""Figures in hand-written pages: digits with a unit, outside of what is generated or is code."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: Pages that people write. Decisions are dated, and keep the figures of their day.
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "*/README.md", "bench/**/*.md", "firmware/*.md")
    for page in ROOT.glob(pattern)
)

_UNITS = (
    r"[kMG]?Hz|Mbaud|baud|cycles?|[mun]?s|us|min|minutes?|hours?|seconds?|days?|tables?|LUTs?|LUT[46]|"
    r"flip-flops?|FF|block RAMs?|multipliers?|carry cells|wires|%|percent|bytes|[KMG]i?B|GB|bits|"
    r"tests?|mutants?|proofs?|claims?|networks?|operators?|programs?|kernels?|seeds?|frames?|streams?|"
    r"branches|files|commits?|runs?|layers?|images?|samples?|rounds?|times|MACs|lines|warnings?|of \d[\d,]*"
)
_FIGURE = re.compile(rf"(?<![\w.+-])[+-]?\d[\d,.]*(?: ?(?:{_UNITS}))(?![\w])")


def prose(text: str) -> str:
    """Return a page with its generated blocks, code and addresses blanked, line by line."""
    blank = lambda found: re.sub(r"[^\n]", " ", found[0])  # noqa
    text = re.sub(r"<!-- ([\w ]+): begin -->.*?<!-- \1: end -->", blank, text, flags=re.S)
    text = re.sub(r"^( *)```.*?^\1```", blank, text, flags=re.S | re.M)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", blank, text)
    return re.sub(r"^(?: {4,}|\t).*$", blank, text, flags=re.M)


def figures(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(prose(text).splitlines(), 1):
        for found in _FIGURE.finditer(line):
            yield number, found[0]

if __name__ == "__main__":
    for page in PAGES:
        n = list(figures(page.read_text()))
        print(page.relative_to(ROOT), len(n), page.read_text().startswith("<!-- Generated") or "enerated" in page.read_text()[:200])
