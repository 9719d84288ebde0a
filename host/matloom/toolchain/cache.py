"""The user's cache of files that can be rebuilt: locked while written, verified when used."""

import errno
import fcntl
import functools
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from matloom.errors import HintedError, HintedWarning
from matloom.sealed import intact, seal
from matloom.toolchain.process import ToolError

#: Name of the environment variable that sets the cache folder.
VARIABLE = "MATLOOM_CACHE"

#: Hint if the folder is not writable.
_REMEDY = f"set {VARIABLE} to a folder that can be written"

#: Name of the file in each entry that holds the digests of its other files and links.
_DIGESTS = "digests.json"


class CacheError(HintedError, OSError):
    """Error raised if the cache folder cannot be used; the hint says what to do."""


class CacheWarning(HintedWarning):
    """Warning that the cache folder is not writable, so that a temporary one is used."""


def chosen_folder() -> Path:
    """Return the folder in `MATLOOM_CACHE`, else the system's default; it may not exist."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).absolute() if chosen else platformdirs.user_cache_path("matloom")


def cache_folder() -> Path:
    """Return the cache folder, which exists and is writable.

    If the chosen folder is not writable, as in a read-only home, a temporary folder is used
    instead, and a `CacheWarning` says so once. The path may contain any character.
    """
    folder = chosen_folder()
    reason = _why_not_writable(folder)
    return _substitute(folder, reason) if reason else folder


def substitution_reason() -> str:
    """Return why a temporary folder replaces the chosen one; an empty string if none does."""
    folder = chosen_folder()
    reason = _why_not_writable(folder)
    return _not_writable_text(folder, reason) if reason else ""


def _why_not_writable(folder: Path) -> str:
    """Create a folder if necessary; return why it is not writable, or an empty string."""
    if not folder.is_absolute():
        return "there is no home folder"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        return os.strerror(errno.ENOTDIR)
    except OSError as error:
        return error.strerror or str(error)
    return "" if os.access(folder, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)


@functools.cache
def _substitute(folder: Path, reason: str) -> Path:
    """Return a folder for temporary files that only this user can access, and warn about it."""
    place = Path(tempfile.gettempdir()) / f"matloom-cache-{os.getuid()}"
    try:
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        found = place.lstat()
        if not place.is_dir() or place.is_symlink() or found.st_uid != os.getuid():
            place = Path(tempfile.mkdtemp(prefix="matloom-cache-"))
        elif found.st_mode & 0o77:
            place.chmod(0o700)
    except OSError as error:
        raise CacheError(_not_writable_text(folder, reason), hint=_REMEDY) from error
    what = f"{_not_writable_text(folder, reason)}; {_quote(place)} is used instead"
    warnings.warn(CacheWarning(what, _REMEDY), stacklevel=3)
    return place


def _quote(path: Path) -> str:
    """Return a path for a message: quoted, without unprintable characters."""
    return repr(str(path).encode("utf-8", "backslashreplace").decode())


def _not_writable_text(folder: Path, reason: str) -> str:
    """Return the sentence that the cache folder cannot be written, with the reason."""
    return f"the cache folder {_quote(folder)} cannot be written ({reason})"


@contextmanager
def _explain_os_errors() -> Iterator[None]:
    """Raise errors of the file system within the block as `CacheError`, with folder and remedy."""
    try:
        yield
    except (ToolError, CacheError):
        raise
    except OSError as error:
        folder = _quote(cache_folder())
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CacheError(
                f"the disk of the cache folder {folder} is full",
                hint=f"free some space, or set {VARIABLE} to a folder on another disk",
            ) from error
        raise CacheError(
            f"the cache folder {folder} cannot be used: {error.strerror or error}",
            hint=f"remove it, or set {VARIABLE} to another",
        ) from error


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock for creating `path` within the block; wait for other processes that hold it.

    The lock ends with the block or with the process. If the file system has no locks, the block
    runs without one. Creates the folder of `path` if necessary, and leaves a small hidden lock file
    next to it, because two processes could hold the lock if it were removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / f".{path.name}.lock").open("w") as lock:
        # The file system has no locks: entries still appear complete, but may be made twice.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find(name: str) -> Path | None:
    """Return the path of an entry of the cache if it exists and is intact, or else None.

    The cache may be read-only.
    """
    return next(
        (folder / name for folder in _readable_folders() if _is_intact(folder / name)), None
    )


def _readable_folders() -> Iterator[Path]:
    """Yield the chosen folder, and the temporary one that replaces it if it is not writable."""
    yield chosen_folder()
    if _why_not_writable(chosen_folder()):
        yield cache_folder()


def entry(name: str, make: Callable[[Path], None]) -> Path:
    """Return the path of an intact entry, a folder in the cache; make it if necessary.

    The entry appears complete or not at all, regardless of interruptions and concurrent callers. If
    its digests show that files were damaged, by a full disk or a power failure, it is made again.

    Parameters
    ----------
    name:
        Path of the entry in the cache; it should contain a digest of all inputs.
    make:
        Called with an empty folder, which it must fill.

    Raises
    ------
    CacheError
        The cache cannot be used, or its disk is full.
    """
    existing = find(name)
    if existing is not None:
        return existing
    folder = cache_folder() / name
    with _explain_os_errors(), exclusive(folder):
        if not _is_intact(folder):
            _make_entry(folder, make)
    return folder


def _make_entry(folder: Path, make: Callable[[Path], None]) -> None:
    """Call `make` with a new folder, seal its files, and move it to its place in the cache."""
    prefix = f".{folder.name}.making-"
    # Leftovers of killed processes: nobody else can be making this entry now.
    for left in (*folder.parent.glob(f"{prefix}*"), folder):
        _remove(left)
    with tempfile.TemporaryDirectory(
        prefix=prefix, dir=folder.parent, ignore_cleanup_errors=True
    ) as scratch:
        new_folder = Path(scratch) / "made"
        new_folder.mkdir()
        make(new_folder)
        seal(new_folder / _DIGESTS, _contents(new_folder))
        new_folder.rename(folder)


def _remove(path: Path) -> None:
    """Remove a folder with its contents, a file or a link, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _contents(folder: Path) -> list[Path]:
    """Return the files and links in a folder and below it, without the file of digests."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return [path for path in paths if path != folder / _DIGESTS]


def _is_intact(folder: Path) -> bool:
    """Return whether an entry is sealed, and its files are unchanged."""
    return intact(folder / _DIGESTS, _contents(folder))


def read_note(name: str) -> str:
    """Return a short text from the cache; an empty string if there is none, or it is damaged."""
    for folder in _readable_folders():
        if intact(_seal_of(folder / name), [folder / name]):
            with suppress(OSError, ValueError):
                return (folder / name).read_text("ascii")
    return ""


def write_note(name: str, text: str) -> None:
    """Store a short ASCII text in the cache, with a digest; ignore errors of the file system."""
    path = cache_folder() / name
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "ascii")
        seal(_seal_of(path), [path])


def _seal_of(path: Path) -> Path:
    """Return the path of the file that has the digest of a note."""
    return path.with_name(f"{path.name}.digest")
