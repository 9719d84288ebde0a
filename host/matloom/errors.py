"""Errors that tell the user what to do, and the hints that many of them share."""

import difflib
import re
from collections.abc import Iterable
from importlib import metadata

from matloom.printable import printable, printable_lines


class HintedError(Exception):
    """Error with a remedy in `hint`: an imperative sentence without a full stop, or empty.

    A subclass may define `hint` as a default for all of its errors.
    The hint is also added as a note (PEP 678), so that Python's tracebacks show it.
    """

    hint: str = ""

    def __init__(self, *arguments: object, hint: str = "") -> None:
        super().__init__(*(printable_lines(a) if isinstance(a, str) else a for a in arguments))
        self.hint = printable(hint) or self.hint
        if self.hint:
            self.add_note(f"hint: {self.hint}")


class HintedWarning(UserWarning):
    """Warning with an optional remedy in `hint`, which is also part of its text."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.what, self.hint = message, hint

    def __str__(self) -> str:
        return f"{self.what}; {self.hint}" if self.hint else self.what


class UserError(HintedError, ValueError):
    """Error caused by an invalid value from the user, such as an argument, option or file."""


class UserTypeError(HintedError, TypeError):
    """Error caused by an argument of the wrong type."""


class MissingPackageError(HintedError, ModuleNotFoundError):
    """Error raised when a Python package is missing; the hint is the command that installs it.

    Parameters
    ----------
    package:
        Name of the package in the package index.
    purpose:
        Feature that needs the package, which begins the message: "comparing with TensorFlow Lite
        Micro".
    """

    def __init__(self, package: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}, which is not installed",
            hint=f"run: {install_command(package)}",
        )
        self.package, self.purpose = package, purpose

    def __reduce__(self) -> tuple[type["MissingPackageError"], tuple[str, str]]:
        """Return the class and the arguments from which `pickle` rebuilds the error."""
        return MissingPackageError, (self.package, self.purpose)


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Return a hint with the name in `known` closest to `given`; empty if none is close."""
    names = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(str(given).casefold(), names, n=1)
    return f"did you mean {names[near[0]]!r}?" if near else ""


def unknown_name_error(
    kind: type[HintedError],
    thing: str,
    given: object,
    known: Iterable[str],
    also: str = "",
    *,
    hint: str = "",
) -> HintedError:
    """Return an error of class `kind` for unknown name `given`; the hint is the closest of `known`.

    `kind` is the class of the error, `thing` says what the name is for, and `given` is the name.
    `also` names other accepted values than those in `known`: ``" or a JSON file"``. `hint` is used
    if no known name is close.
    """
    names = list(known)
    message = f"{thing} must be one of {', '.join(names)}{also}, not {given!r}"
    return kind(message, hint=did_you_mean(given, names) or hint)


def reason(error: Exception) -> str:
    """Return the message of an error with its first letter in lower case, to follow a colon.

    For an error of the operating system, it is only the reason, without error code and path.
    """
    text = getattr(error, "strerror", None) or str(error)
    return f"{text[:1].lower()}{text[1:]}"


def install_command(*packages: str) -> str:
    """Return the shell command that installs packages in versions that Matloom supports."""
    wanted = " ".join(f"'{_requirement(package)}'" for package in packages)
    return f"python -m pip install {wanted}"


def _requirement(package: str) -> str:
    """Return a package's name with its version bounds, if Matloom's metadata lists the package."""
    try:
        listed = metadata.requires("matloom") or []
    except metadata.PackageNotFoundError:
        # Run from sources that are not installed.
        return package
    for line in listed:
        requirement = line.partition(";")[0].strip()
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        if re.sub(r"[-_.]+", "-", name).lower() == re.sub(r"[-_.]+", "-", package).lower():
            return requirement
    return package
