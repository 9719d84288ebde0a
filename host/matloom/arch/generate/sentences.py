"""Breaks Markdown after each sentence, so that changes of a page are easy to review."""

import re

#: Starts of lines that are left unchanged: headings, tables, comments, code, images.
_FIXED_STARTS = ("#", "|", "<", "    ", "!")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"- |\d+\. ")
#: Space after the end of a sentence, but not after an initial.
_BREAK = re.compile(r"(?<![ (][A-Z]\.)(?<=[.!?]) (?=[A-Z`])")


def one_sentence_per_line(text: str) -> str:
    """Return Markdown with a line for each sentence; tables, headings and code are unchanged."""
    pieces = _FENCED.split(text)
    pieces[::2] = ["\n\n".join(map(_paragraph, piece.split("\n\n"))) for piece in pieces[::2]]
    return "".join(pieces)


def _paragraph(text: str) -> str:
    """Return Markdown without code blocks, with lines joined, then broken after each sentence."""
    blocks: list[str] = []
    for line in text.split("\n"):
        begins = (
            not blocks or line.startswith(_FIXED_STARTS) or blocks[-1].startswith(_FIXED_STARTS)
        )
        if begins or not line or not blocks[-1] or _ITEM.match(line):
            blocks.append(line)
        else:
            blocks[-1] += f" {line.strip()}"
    return "\n".join(
        each if each.startswith(_FIXED_STARTS) else _sentences(each) for each in blocks
    )


def _sentences(block: str) -> str:
    """Return a paragraph or a list item with one line per sentence, indented if it is an item."""
    item = _ITEM.match(block)
    return _BREAK.sub("\n" + " " * (item.end() if item else 0), block)
