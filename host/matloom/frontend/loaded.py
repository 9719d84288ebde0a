"""Model files as their own runtimes have them in memory."""

from pathlib import Path

from matloom.errors import UserError
from matloom.frontend.source import read_file
from matloom.frontend.tflite.loaded import LoadedFile, LoadedOperator
from matloom.frontend.tflite.read import is_tflite

__all__ = ["LoadedFile", "LoadedOperator", "loaded_by_litert"]


def loaded_by_litert(network: Path) -> LoadedFile:
    """Return a TensorFlow Lite file as LiteRT loads it.

    Raises
    ------
    ModelError
        The file cannot be read.
    UserError
        It is none of TensorFlow Lite.
    """
    content = read_file(network).content
    if not is_tflite(content):
        raise UserError(f"{network} must be a TensorFlow Lite file for LiteRT to load it")
    return LoadedFile(content)
