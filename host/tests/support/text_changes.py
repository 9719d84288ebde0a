"""Changes that a pass makes to a text, for tests that show the purpose of a pass."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

__all__ = ["changes"]

#: Parts of a line that few tests are about: scales, sizes, and attributes that change nothing.
_PLAIN = re.compile(
    r"\{[^}]*\}| (?:stride|dilation)=1x1| activation=NONE| keep_num_dims=False"
    r"|, \d+ bytes of weights"
)


def changes(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """Return removed lines, prefixed with "- ", and added ones, prefixed with "+ ".

    For replaced lines, the removed ones come first.
    """
    one, other = ([_PLAIN.sub("", line).strip() for line in lines] for lines in (before, after))
    found = []
    for kind, first, end, begin, last in SequenceMatcher(None, one, other, False).get_opcodes():
        if kind != "equal":
            found += [f"- {line}" for line in one[first:end]]
            found += [f"+ {line}" for line in other[begin:last]]
    return found
