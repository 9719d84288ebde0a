"""Makes temporary folders with paths that GNU make, shells and compilers can handle."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matloom.toolchain.process import ToolError

#: A path of characters that have no special meaning for any program.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+-]+")

#: Folders to try if the folder for temporary files is not writable or its path is not plain.
_OTHER_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")  # each workspace is a new folder in one of them


class Workspace:
    """A temporary folder with a plain path, and links in it to folders whose paths are not plain.

    Members
    -------
    path:
        Path of the folder, which is removed with its contents after the block of `workspace`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._links: dict[Path, Path] = {}

    def folder(self, path: Path) -> Path:
        """Return the path of a link in the workspace to `path`, a folder; make it if necessary."""
        path = path.absolute()
        if path not in self._links:
            link = self.path / f"link{len(self._links)}"
            link.symlink_to(path, target_is_directory=True)
            self._links[path] = link
        return self._links[path]

    def file(self, path: Path) -> Path:
        """Return the path of a file through a link to its folder, so that includes are found."""
        return self.folder(path.absolute().parent) / path.name


@contextmanager
def workspace() -> Iterator[Workspace]:
    """Create an empty workspace for the block.

    Raises `ToolError` if no folder for temporary files is writable and has a plain path.
    """
    places = [
        place for place in (tempfile.gettempdir(), *_OTHER_FOLDERS) if _PLAIN_PATH.fullmatch(place)
    ]
    for place in places:
        try:
            scratch = tempfile.TemporaryDirectory(prefix="matloom-", dir=place)
        except OSError:
            continue
        with scratch as path:
            yield Workspace(Path(path))
        return
    raise ToolError(
        "there is no folder for temporary files that can be written and whose path has only "
        "letters of ASCII, digits and _./+-",
        hint="set TMPDIR to one",
    )
