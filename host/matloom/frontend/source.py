"""Finds the file of a network that is named, and says what it is where it is none of ours."""

from pathlib import Path

from matloom.arch.program_file import MAGIC
from matloom.errors import did_you_mean
from matloom.frontend.errors import ModelError
from matloom.frontend.formats import folder_kind, kind_of

__all__ = ["is_program", "network_path", "packaged_networks", "read_network"]

_PACKAGED = Path(__file__).parents[1] / "data"
_PROGRAM_SUFFIX = ".mloom"


def packaged_networks() -> dict[str, Path]:
    """Return the networks that come along, by name."""
    return {path.stem: path for path in sorted(_PACKAGED.glob("*.tflite"))}


def network_path(source: str | Path) -> Path:
    """Return the path of a file, or of a network that comes along where no such file is there."""
    path = Path(source)
    return path if path.exists() else packaged_networks().get(str(source), path)


def is_program(source: str | Path | bytes) -> bool:
    """Return whether a network is a compiled program: by its content, else by its name."""
    if isinstance(source, bytes):
        return source.startswith(MAGIC)
    path = network_path(source)
    try:
        with path.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC or path.suffix == _PROGRAM_SUFFIX
    except OSError:
        return path.suffix == _PROGRAM_SUFFIX


def read_network(source: str | Path | bytes, identifier: bytes) -> tuple[str, bytes]:
    """Return the name and the bytes of a TensorFlow Lite file, given its path or its bytes.

    Raises
    ------
    ModelError
        It cannot be read, or is no TensorFlow Lite file: the message says what it is, the hint
        what to do.
    """
    if isinstance(source, bytes):
        name, shown, content = "model", "these bytes", source
    else:
        path = network_path(source)
        name, shown, content = path.stem, str(source), _content(path, str(source))
    if len(content) >= 8 and content[4:8] == identifier:
        return name, content
    if content.startswith(MAGIC):
        raise ModelError(
            f"{shown}: a compiled Matloom program, where a network is wanted",
            hint="give the .tflite file that it was compiled from",
        )
    kind = kind_of(content, shown)
    verb = "are" if isinstance(source, bytes) else "is"
    raise ModelError(f"{shown} {verb} {kind.what}, not a TensorFlow Lite file", hint=kind.hint)


def _content(path: Path, shown: str) -> bytes:
    """Return what a file holds."""
    try:
        return path.read_bytes()
    except IsADirectoryError:
        kind = folder_kind({item.name for item in path.iterdir()})
        message = f"{shown} is {kind.what}, not a TensorFlow Lite file"
        raise ModelError(message, hint=kind.hint) from None
    except FileNotFoundError:
        raise ModelError(f"cannot read {shown}: no such file", hint=_near(path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot read {shown}: {reason[:1].lower()}{reason[1:]}"
        raise ModelError(message) from None


def _near(path: Path) -> str:
    """Return the hint for a file that is not there: the nearest name, or what may be given."""
    try:
        names = [item.name for item in path.parent.iterdir()]
    except OSError:
        return f"there is no folder {path.parent}, either"
    near = did_you_mean(
        path.name, names + (list(packaged_networks()) if path.parent == Path() else [])
    )
    return near or "give the path of a .tflite or .mloom file, or digits, which comes along"
