"""The user's cache folder, where builds live, each made by one process at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """The folder for everything that can be made again: `MATLOOM_CACHE`, else the system's place.

    The folder may not exist yet. Raises ValueError when its path holds a space, which GNU make,
    and with it every build, cannot handle.
    """
    chosen = os.environ.get("MATLOOM_CACHE")
    folder = Path(chosen).absolute() if chosen else platformdirs.user_cache_path("matloom")
    if " " in str(folder):
        raise ValueError(
            f"the cache folder must have no space in its path, not {str(folder)!r}; "
            "set MATLOOM_CACHE to another"
        )
    return folder


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the only right to make `path`, after waiting for any process that holds it.

    The right ends with the block or with the process. Creates the folder of `path` where needed
    and leaves a small hidden file next to it: removing a lock file would hand out two rights.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
