"""Prints errors on the command line: what happened, then what to do."""

import errno
import warnings
from typing import TextIO

import click

from matloom.cli.group import SECTIONS
from matloom.cli.say import say_text
from matloom.errors import HintedError, HintedWarning, did_you_mean, reason

#: Hints for errors of the operating system.
_RIGHTS = "choose another place, or get permission to use this one"
_REMEDIES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _RIGHTS),
    errno.ENOSPC: "free some space, or choose another place",
    errno.EISDIR: "give a file, not a folder",
    errno.ENAMETOOLONG: "choose a shorter path",
}

_show_as_python_does = warnings.showwarning


def error_message(error: BaseException) -> str:
    """Return an error as `error: what happened` and, if there is a remedy, `hint: what to do`."""
    what, hint = _error_and_hint(error)
    return _message_lines("error", what or type(error).__name__, hint)


def _message_lines(kind: str, message: str, hint: str) -> str:
    """Return a message after `kind` (error or warning) and, on a second line, the hint if any."""
    lines = [f"{kind}: {' '.join(message.split())}"]
    if hint:
        lines.append(f"hint: {' '.join(hint.split())}")
    return "\n".join(lines)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning like an error; replaces `warnings.showwarning`.

    Warnings of libraries keep Python's form, with the location.
    """
    if isinstance(message, HintedWarning):
        say_text(_message_lines("warning", message.what, message.hint), err=True)
    else:
        _show_as_python_does(message, category, filename, lineno, file, line)


def _error_and_hint(error: BaseException) -> tuple[str, str]:
    """Return two texts for an error: what happened, and what to do (empty if unknown)."""
    if isinstance(error, HintedError):
        return str(error), error.hint
    if isinstance(error, click.ClickException):
        return _click_message(error)
    if isinstance(error, OSError) and error.strerror:
        place = " a file" if error.filename is None else f" {error.filename}"
        hint = _REMEDIES.get(error.errno or 0, "check the path and its permissions")
        return f"cannot use{place}: {reason(error)}", hint
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"the Python module {error.name} is not installed", "run: matloom doctor"
    return str(error), ""


def _click_message(error: click.ClickException) -> tuple[str, str]:
    """Return the message of a click error, reworded to match Matloom's terms."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = "matloom" if context is None else context.command_path
    hint = f"run: {path} --help"
    if isinstance(error, click.NoSuchCommand):
        commands = [name for names in SECTIONS.values() for name in names]
        near = did_you_mean(error.command_name, commands)
        return f"matloom has no command {error.command_name!r}", near or hint
    if isinstance(error, click.NoSuchOption):
        options = [] if context is None else context.command.get_params(context)
        near = did_you_mean(error.option_name, [name for item in options for name in item.opts])
        return f"{path} has no option {error.option_name!r}", near or hint
    what = error.format_message().rstrip(".")
    return what[:1].lower() + what[1:], hint
