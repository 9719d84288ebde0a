"""Output paths of commands: checked before the work, and written after it."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matloom.errors import UserError, reason


def require_writable(option: str, path: Path | None) -> None:
    """Raise `UserError` if no file can be written at `path`, which `option` names.

    Commands call it before work that takes long.
    """
    if path is None:
        return
    written = path if path.exists() else path.absolute().parent
    if path.is_dir():
        raise UserError(
            f"{option} must be a file, and {path} is a folder",
            hint=f"name a file in it: {path / 'out'}",
        )
    if not written.exists():
        raise UserError(
            f"{option} cannot be written: there is no folder {written}",
            hint=f"mkdir -p {shlex.quote(str(written))}",
        )
    if not os.access(written, os.W_OK):
        raise UserError(
            f"{option} cannot be written: no permission to write {path}", hint="name another folder"
        )


def require_folder(option: str, path: Path) -> None:
    """Create the folder for a command's output, which `option` names.

    Commands call it before work that takes long. Raises `UserError` if the folder cannot be created
    or is not writable.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{option}: the folder {str(path)!r} cannot be made: {reason(error)}",
            hint="name another folder",
        ) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(
            f"{option}: nothing can be written in the folder {str(path)!r}",
            hint="name another folder",
        )


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8; errors name the file."""
    with name_in_errors(path):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


@contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Return a context that adds the file's name to system errors that lack one (full disk)."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise
