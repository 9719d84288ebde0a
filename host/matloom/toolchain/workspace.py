"""A temporary folder with a path that GNU make, shells and compilers can handle."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matloom.toolchain.process import ToolError

#: Characters without a special meaning for any program.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+-]+")

#: Alternatives if the path of the folder for temporary files has other characters.
_OTHER_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")  # each workspace is a new folder in one of them


class Workspace:
    """An empty folder with a plain name, and links in it to folders with any name.

    Members
    -------
    path:
        The folder, which is removed with its contents.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._links: dict[Path, Path] = {}

    def folder(self, path: Path) -> Path:
        """Return a link to a folder."""
        path = path.absolute()
        if path not in self._links:
            link = self.path / f"link{len(self._links)}"
            link.symlink_to(path, target_is_directory=True)
            self._links[path] = link
        return self._links[path]

    def file(self, path: Path) -> Path:
        """Return a file through a link to its folder, so that its includes are found."""
        return self.folder(path.absolute().parent) / path.name


@contextmanager
def workspace() -> Iterator[Workspace]:
    """Create a workspace for the block.

    Raises ToolError if no temporary folder is writable and has a plain name.
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
