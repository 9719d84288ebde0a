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

#: Environment variable with the folder.
VARIABLE = "MATLOOM_CACHE"

#: Hint if the folder is not writable.
_REMEDY = f"set {VARIABLE} to a folder that can be written"

#: File in each entry with the seal of all its other files and links.
_DIGESTS = "digests.json"


class CacheError(HintedError, OSError):
    """A cache folder that cannot be used: which one, why, and what to do."""


class CacheWarning(HintedWarning):
    """The cache folder is not writable, so a temporary one is used."""


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
    """Return why a temporary folder is used instead of the chosen one; empty if it is not."""
    folder = chosen_folder()
    reason = _why_not_writable(folder)
    return _sentence(folder, reason) if reason else ""


def _why_not_writable(folder: Path) -> str:
    """Return why a folder is not writable; empty if it is."""
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
    """Return a folder private to this user, with the lifetime of temporary files."""
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
        raise CacheError(_sentence(folder, reason), hint=_REMEDY) from error
    what = f"{_sentence(folder, reason)}; {_quote(place)} is used instead"
    warnings.warn(CacheWarning(what, _REMEDY), stacklevel=3)
    return place


def _quote(path: Path) -> str:
    """Return a path for a message: quoted, without unprintable characters."""
    return repr(str(path).encode("utf-8", "backslashreplace").decode())


def _sentence(folder: Path, reason: str) -> str:
    return f"the cache folder {_quote(folder)} cannot be written ({reason})"


@contextmanager
def _explain_os_errors() -> Iterator[None]:
    """Add the folder and a remedy to errors of the file system."""
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
    """Hold the exclusive right to create `path`; wait for any process that holds it.

    The lock ends with the block or with the process. Creates the folder of `path` if necessary, and
    leaves a small hidden lock file next to it: removing it would allow two holders.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / f".{path.name}.lock").open("w") as lock:
        # The file system has no locks: entries still appear complete, but may be made twice.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find(name: str) -> Path | None:
    """Return an entry that exists and is intact, even in a read-only folder."""
    return next((folder / name for folder in _readable() if _whole(folder / name)), None)


def _readable() -> Iterator[Path]:
    """Yield the chosen folder, and the one that replaces it, if any."""
    yield chosen_folder()
    if _why_not_writable(chosen_folder()):
        yield cache_folder()


def entry(name: str, make: Callable[[Path], None]) -> Path:
    """Return an intact folder of the cache: the existing one, or one made now.

    It appears complete or not at all, regardless of interruptions and concurrent callers. Files
    damaged since, by a full disk or a power failure, are detected by their digests and rebuilt.

    Parameters
    ----------
    name:
        Its path in the cache; it should contain a digest of all inputs.
    make:
        Fills an empty folder.

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
        if not _whole(folder):
            _make(folder, make)
    return folder


def _make(folder: Path, make: Callable[[Path], None]) -> None:
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
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _contents(folder: Path) -> list[Path]:
    """Return the files and links in a folder, without its seal."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return [path for path in paths if path != folder / _DIGESTS]


def _whole(folder: Path) -> bool:
    return intact(folder / _DIGESTS, _contents(folder))


def read_note(name: str) -> str:
    """Return a short cached text; empty if there is none."""
    for folder in _readable():
        if intact(_seal_of(folder / name), [folder / name]):
            with suppress(OSError, ValueError):
                return (folder / name).read_text("ascii")
    return ""


def write_note(name: str, text: str) -> None:
    """Cache a short ASCII text, atomically."""
    path = cache_folder() / name
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "ascii")
        seal(_seal_of(path), [path])


def _seal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.digest")
