"""A temporary folder whose path GNU make, shells and compilers can spell."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matloom.toolchain.process import ToolError

__all__ = ["Workspace", "workspace"]

#: What no program takes for anything else than a letter.
_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")

#: Tried where the folder for temporary files has other characters.
_OTHERS = ("/tmp", "/var/tmp", "/dev/shm")  # each workspace is a new folder in one of them


class Workspace:
    """An empty folder of plain letters, and links in it to folders that may have any.

    Members
    -------
    path:
        The folder, which is removed with all that is in it.
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
        """Return a file by a link to its folder: what it includes next to it is found there."""
        return self.folder(path.absolute().parent) / path.name


@contextmanager
def workspace() -> Iterator[Workspace]:
    """Make a workspace for the block.

    Raises ToolError where no folder for temporary files can be written and spelt.
    """
    places = [place for place in (tempfile.gettempdir(), *_OTHERS) if _PLAIN.fullmatch(place)]
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
        "letters of ASCII, digits and _./+-: set TMPDIR to one"
    )
