"""Finds figures (numbers with a unit) in hand-written pages, outside of code and tables."""

import re
from collections.abc import Iterator
from pathlib import Path

from matloom.arch.generate.files import FILES

ROOT = Path(__file__).resolve().parent.parent

#: Pages that people write. Decisions are dated, and keep the figures of their day.
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "bitstreams/*.md", "examples/*.md", "firmware/**/*.md")
    for page in ROOT.glob(pattern)
    if page.relative_to(ROOT).as_posix() not in FILES
)

#: What is counted or measured. No bits: those of a format are its definition. Bytes are measured
#: where they are many.
_UNITS = (
    *(r"[kMG]?Hz", "[kM]?baud", "cycles?", "[munp]?s", "min", "minutes?", "hours?", "seconds?"),
    *("tables?", "LUTs?", "LUT[46]", "CCU2C", "COMB", "flip-flops?", "FF", "DSPs?", "block RAMs?"),
    *("multipliers?", "carry cells", "wires", "%", "per cent", "[KMG]i?B", "MACs"),
    *(
        "tests?",
        "mutants?",
        "proofs?",
        "claims?",
        "networks?",
        "operators?",
        "kernels?",
        "branches",
    ),
    *("streams?", "frames?", "samples?", "images?", "rounds?", "seeds?", "programs?", "warnings?"),
    r"of \d[\d,.]*",
)
_FIGURES = (
    re.compile(rf"(?<![\w.,/-])[+-]?\d[\d,.]* ?(?:{'|'.join(_UNITS)})(?!\w)"),
    # Thousands, whatever they count.
    re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])"),
    # A cell of a table that is a number, but in its first column, whose rows may be numbered.
    re.compile(r"(?<=[^\n]\| )[+-]?\d[\d,.]+(?: %)?(?= \|)"),
)


def without_generated_blocks(text: str) -> str:
    """Return a page with the contents of its generated blocks blanked out."""
    return re.sub(r"<!-- ([\w ]+): begin -->.*?<!-- \1: end -->", _blank, text, flags=re.DOTALL)


def prose(text: str) -> str:
    """Return a page with generated blocks, code and URLs blanked out; line numbers stay the same.

    Code blocks of type ``text`` and ``console`` remain, because they show figures that programs
    print.
    """
    lines, language = [], None
    for line in without_generated_blocks(text).splitlines():
        fence = re.match(r" *```(\w*)", line)
        if fence:
            language = fence[1] if language is None else None
        code = language not in (None, "text", "console") or re.match(r" {4}\S", line)
        lines.append("" if fence or code else line)
    return re.sub(r"`[^`\n]*`|\]\([^)]*\)", _blank, "\n".join(lines))


def _blank(found: re.Match[str]) -> str:
    """Return the text of a match as spaces, with its line breaks."""
    return re.sub(r"[^\n]", " ", found[0])


def figures(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and the text of each figure in a page's prose."""
    for number, line in enumerate(prose(text).splitlines(), 1):
        for pattern in _FIGURES:
            for found in pattern.finditer(line):
                yield number, found[0]
