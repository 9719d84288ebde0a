"""Files that are kept for later, with digests that tell whether they are still whole.

A seal is a file that lies next to what it is of. A full disk, power that fails or a stray copy may
cut, empty, replace or lose any of them; whoever finds a broken seal makes the files again.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

__all__ = ["intact", "seal"]


def seal(path: Path, files: Iterable[Path]) -> None:
    """Write the seal `path` of files, or links, in its folder and below; it appears whole."""
    content = json.dumps(_digests(path, files))
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as stream:
        stream.write(content)
    Path(stream.name).replace(path)


def intact(path: Path, files: Iterable[Path]) -> bool:
    """Return whether `path` is the seal of just these files, and they are as they were then."""
    try:
        return bool(json.loads(path.read_bytes()) == _digests(path, files))
    except (OSError, ValueError):
        return False


def _digests(path: Path, files: Iterable[Path]) -> dict[str, str]:
    """Return what tells each file from any other, by its name from the seal's folder."""
    found = {}
    for file in sorted(files):
        name = file.relative_to(path.parent).as_posix()
        if file.is_symlink():
            found[name] = f"link {os.fsencode(file.readlink()).hex()}"
        else:
            with file.open("rb") as stream:
                found[name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found
