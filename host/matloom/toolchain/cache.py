"""The user's cache folder, where builds live."""

import os
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
