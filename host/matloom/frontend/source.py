"""Finds the file of a network, and explains files that no reader can read."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matloom.arch.program_file import MAGIC
from matloom.errors import UserTypeError, did_you_mean, reason
from matloom.frontend.errors import ModelError
from matloom.frontend.formats import folder_kind, kind_of

_PACKAGED = Path(__file__).parents[1] / "data"
_PROGRAM_SUFFIX = ".mloom"


def packaged_networks() -> dict[str, Path]:
    """Return the paths of the networks that come with Matloom, by name."""
    return {path.stem: path for path in sorted(_PACKAGED.glob("*.tflite"))}


def network_path(source: str | Path) -> Path:
    """Return the path of a network.

    If `source` does not exist as a file but names a packaged network, the result is the path of
    that network. Otherwise it is `source`, whether it exists or not.
    """
    path = Path(source)
    try:
        found = path.exists()
    except OSError:
        # The name is too long, or a folder on the path cannot be entered.
        found = True
    return path if found else packaged_networks().get(str(source), path)


def is_program(source: str | Path | bytes) -> bool:
    """Return whether a file is a compiled program, by its content or its suffix."""
    if isinstance(source, bytes):
        return source.startswith(MAGIC)
    path = network_path(source)
    try:
        if not path.is_file():
            # Opening a pipe would block.
            return path.suffix == _PROGRAM_SUFFIX
        with path.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC or path.suffix == _PROGRAM_SUFFIX
    except OSError:
        return path.suffix == _PROGRAM_SUFFIX


def bytes_of(source: Any) -> Any:
    """Return the bytes of a bytearray or memoryview; any other source of a network unchanged."""
    return bytes(source) if isinstance(source, bytearray | memoryview) else source


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelFile:
    """A model file in memory.

    Members
    -------
    name:
        Name of the network: the file name without its suffix.
    display_name:
        Name of the file in messages.
    folder:
        Folder that contains the file, in which external data are looked up; None for bytes.
    """

    name: str
    display_name: str
    content: bytes
    folder: Path | None


def read_file(source: str | Path | bytes) -> ModelFile:
    """Read a model file from its path, its bytes or the name of a packaged network.

    Raises
    ------
    ModelError
        The file cannot be read, or is a folder. The message says what it is, the hint what to do.
    UserTypeError
        `source` is neither a path nor bytes.
    """
    if not isinstance(source, str | bytes | os.PathLike):
        raise UserTypeError(
            f"a network must be a path, bytes, a graph or a program, not {type(source).__name__}",
            hint="give the bytes of a stream: stream.read()"
            if hasattr(source, "read")
            else "give the path of a .tflite or .onnx file, or digits",
        )
    if isinstance(source, bytes):
        return ModelFile(name="model", display_name="these bytes", content=source, folder=None)
    path = network_path(source)
    content = _content(path, str(source))
    # A name that is not UTF-8 cannot be stored in a program file.
    name = os.fsencode(path.stem).decode(errors="replace")
    return ModelFile(name=name, display_name=str(source), content=content, folder=path.parent)


def foreign_file(file: ModelFile) -> ModelError:
    """Return the error for a file that no reader can read, with a hint that suits its kind."""
    if file.content.startswith(MAGIC):
        return ModelError(
            f"{file.display_name}: a compiled Matloom program, not a network",
            hint="give the .tflite file that it was compiled from",
        )
    kind = kind_of(file.content, file.display_name)
    verb = "are" if file.folder is None else "is"
    message = f"{file.display_name} {verb} {kind.name}, not a TensorFlow Lite or ONNX file"
    return ModelError(message, hint=kind.hint)


def _content(path: Path, display_name: str) -> bytes:
    """Return the content of a file; raise `ModelError` with a hint if it cannot be read."""
    if _is_special(path):
        raise ModelError(
            f"{display_name} is a device or a pipe, not a file", hint="save it to a file first"
        )
    try:
        return path.read_bytes()
    except IsADirectoryError:
        kind = folder_kind({item.name for item in path.iterdir()})
        message = f"{display_name} is {kind.name}, not a TensorFlow Lite or ONNX file"
        raise ModelError(message, hint=kind.hint) from None
    except FileNotFoundError:
        raise ModelError(
            f"cannot read {display_name}: no such file", hint=_missing_file_hint(path)
        ) from None
    except (OSError, ValueError) as error:
        message = f"cannot read {display_name}: {reason(error)}"
        raise ModelError(message, hint="check the path, and that you may read the file") from None


def _is_special(path: Path) -> bool:
    """Return whether a path leads to a device, a pipe or the like: neither a file nor a folder."""
    try:
        return path.exists() and not (path.is_file() or path.is_dir())
    except OSError:
        # The name is too long, or a folder on the path cannot be entered.
        return False


def _missing_file_hint(path: Path) -> str:
    """Return the hint for a missing file: the closest existing name, or the kinds accepted."""
    try:
        names = [item.name for item in path.parent.iterdir() if item.exists()]
    except OSError:
        return f"there is no folder {path.parent}, either"
    near = did_you_mean(
        path.name, names + (list(packaged_networks()) if path.parent == Path() else [])
    )
    return near or (
        "give the path of a .tflite, .onnx or .mloom file, or digits, which comes with Matloom"
    )
