"""Cache folder for tools in WebAssembly, which fail if theirs is not writable."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["writable_tool_cache"]

#: The variables that name the folder of all caches of a user, and that of Matloom's.
_OF_USER, _OF_MATLOOM = "XDG_CACHE_HOME", "MATLOOM_CACHE"


@contextmanager
def writable_tool_cache() -> Iterator[None]:
    """Give tools that start in the block another cache if the user's cannot be written.

    It is Matloom's, if the environment names that, else a temporary one.
    """
    before = os.environ.get(_OF_USER)
    if _writable(before or "~/.cache"):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="matloom-tools-") as temporary:
        ours = _writable(os.environ.get(_OF_MATLOOM, ""))
        os.environ[_OF_USER] = str(ours or temporary)
        try:
            yield
        finally:
            if before is None:
                del os.environ[_OF_USER]
            else:
                os.environ[_OF_USER] = before


def _writable(name: str) -> Path | None:
    """Return a folder that can be written, creating it if necessary; else None."""
    try:
        folder = Path(name).expanduser().absolute()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        # There is no home, or something else is in the way.
        return None
    return folder if name and os.access(folder, os.W_OK | os.X_OK) else None
