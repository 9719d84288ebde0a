"""Seals: digests stored next to cached files, which tell whether the files are intact.

A full disk, a power failure or a stray copy can cut, empty, replace or lose a file. Code that finds
a broken seal makes the files again.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def seal(path: Path, files: Iterable[Path]) -> None:
    """Write the digests of `files` to `path`, atomically.

    The files, which may be symbolic links, must be in the folder of `path` or below it.
    """
    content = json.dumps(_digests(path, files))
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as stream:
        stream.write(content)
    Path(stream.name).replace(path)


def intact(path: Path, files: Iterable[Path]) -> bool:
    """Return whether a file holds the digests of exactly these files, none changed since."""
    try:
        return bool(json.loads(path.read_bytes()) == _digests(path, files))
    except (OSError, ValueError):
        return False


def _digests(path: Path, files: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 digest of each file, or a link's target, by path relative to the seal."""
    found = {}
    for file in sorted(files):
        name = file.relative_to(path.parent).as_posix()
        if file.is_symlink():
            found[name] = f"link {os.fsencode(file.readlink()).hex()}"
        else:
            with file.open("rb") as stream:
                found[name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found
