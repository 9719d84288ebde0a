"""Makes text from files safe to print: removes control characters before they reach a terminal."""

import unicodedata

#: Unicode categories that move the cursor, reorder a line, or are invisible: control and format
#: characters, lone surrogates, separators of lines and paragraphs.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: str) -> str:
    r"""Return a text on one line, with control characters escaped as in Python: ``\x1b``, ``\n``.

    Names in model files may hold anything. Printed raw, an escape sequence colours or clears the
    terminal, a line break forges a line of output, and bidirectional marks reorder one.
    """
    if text.isprintable():
        return text
    return "".join(_escape(each) for each in text)


def printable_lines(text: str) -> str:
    """Return a text with control characters escaped as in `printable`, but with its line breaks."""
    return "\n".join(map(printable, text.split("\n")))


def _escape(character: str) -> str:
    """Return a character, or its escape sequence if it is a control character."""
    if unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode("ascii")
