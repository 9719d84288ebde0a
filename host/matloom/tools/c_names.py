"""C identifiers for a network, the buffers of its tensors, and macros about them."""

import re
from pathlib import Path

from matloom.errors import UserError
from matloom.program import Program

#: Names of the C library's headers, which a header of the network would hide.
_LIBRARY_HEADERS = frozenset(
    (
        *("assert", "complex", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits"),
        *("locale", "math", "setjmp", "signal", "stdalign", "stdarg", "stdatomic", "stdbool"),
        *("stddef", "stdint", "stdio", "stdlib", "stdnoreturn", "string", "tgmath", "threads"),
        *("time", "uchar", "unistd", "wchar", "wctype"),
    )
)
#: Suffixes of the network's name that functions, a macro and types use.
_RESERVED_SUFFIXES = ("open", "run", "memory", "t")


def network_name(path: Path) -> str:
    """Return a C name for the network of a file: its stem, with `_` for invalid characters."""
    word = re.sub(r"[^A-Za-z0-9]+", "_", path.stem).strip("_") or "network"
    if not word[0].isalpha() or _broken_rule(word):
        word = f"net_{word}"
    return word


def require_network_name(name: str) -> str:
    """Return a name if it is valid in C; otherwise raise `UserError`."""
    problem = _broken_rule(name)
    if problem:
        raise UserError(
            f"the name of a network in C must {problem}, not {name!r}",
            hint=f"{network_name(Path(name))} is valid in C",
        )
    return name


def _broken_rule(name: str) -> str:
    """Return the rule of C names that a name breaks, or an empty text."""
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        return "be a letter, then letters, digits and _"
    if name.lower() in _LIBRARY_HEADERS:
        return "not be that of a header of the C library"
    if name.lower().startswith("matloom"):
        return "not begin with matloom, as the driver's names do"
    return ""


def buffer_names(program: Program, name: str) -> dict[str, str]:
    """Return the name of each tensor's buffer, by key: `name`, `_` and the tensor's name.

    The tensor's name is in lower case; characters outside a-z, 0-9 become `_`, and a number is
    appended to duplicates. Names are unique regardless of case, so macros made from them are too.
    """
    found: dict[str, str] = {}
    taken = set(_RESERVED_SUFFIXES)
    for number, info in enumerate(program.tensors):
        word = re.sub(r"[^a-z0-9]+", "_", info.name.lower()).strip("_") or f"tensor_{number}"
        plain, again = word, number
        while word in taken:
            word, again = f"{plain}_{again}", again + 1
        taken.add(word)
        found[info.key] = f"{name}_{word}"
    return found
