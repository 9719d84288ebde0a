"""Cache folder for tools in WebAssembly, which fail if theirs is not writable."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["writable_tool_cache"]

#: Environment variables that name the folder of all caches of a user, and that of Matloom.
_OF_USER, _OF_MATLOOM = "XDG_CACHE_HOME", "MATLOOM_CACHE"


@contextmanager
def writable_tool_cache() -> Iterator[None]:
    """Context in which tools get another cache folder if the user's is not writable.

    The environment variable XDG_CACHE_HOME then names the folder in MATLOOM_CACHE if that is
    writable, or else a temporary one.
    """
    before = os.environ.get(_OF_USER)
    if _writable_folder(before or "~/.cache"):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="matloom-tools-") as temporary:
        ours = _writable_folder(os.environ.get(_OF_MATLOOM, ""))
        os.environ[_OF_USER] = str(ours or temporary)
        try:
            yield
        finally:
            if before is None:
                del os.environ[_OF_USER]
            else:
                os.environ[_OF_USER] = before


def _writable_folder(name: str) -> Path | None:
    """Create a folder if it does not exist; return its path, or None if it is not writable."""
    try:
        folder = Path(name).expanduser().absolute()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        # There is no home, or something else is in the way.
        return None
    return folder if name and os.access(folder, os.W_OK | os.X_OK) else None
