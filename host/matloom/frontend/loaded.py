"""Model files as their runtimes hold them in memory."""

from pathlib import Path

from matloom.errors import UserError
from matloom.frontend.onnx.loaded import LoadedNodes, NamedNode, load_nodes
from matloom.frontend.onnx.recognise import is_onnx
from matloom.frontend.source import read_file
from matloom.frontend.tflite.loaded import LoadedFile, LoadedOperator
from matloom.frontend.tflite.read import is_tflite

__all__ = ["LoadedFile", "LoadedNodes", "LoadedOperator", "NamedNode"]
__all__ += ["load_as_litert", "load_as_onnxruntime"]


def load_as_litert(network: Path) -> LoadedFile:
    """Return a TensorFlow Lite file as LiteRT loads it.

    Raises
    ------
    ModelError
        The file cannot be read.
    UserError
        It is not a TensorFlow Lite file.
    """
    content = read_file(network).content
    if not is_tflite(content):
        raise UserError(
            f"{network} must be a TensorFlow Lite file for LiteRT to load it",
            hint=f"matloom plugin onnxruntime {network} is for ONNX files",
        )
    return LoadedFile(content)


def load_as_onnxruntime(network: Path) -> list[LoadedNodes]:
    """Return the graphs that ONNX Runtime may execute for an ONNX file.

    The first one is optimised, the second is not. The optimised one is missing if ONNX Runtime is
    not installed.

    Raises
    ------
    ModelError
        The file cannot be read.
    UserError
        It is not an ONNX file.
    """
    file = read_file(network)
    if not is_onnx(file.content):
        raise UserError(
            f"{network} must be an ONNX file for ONNX Runtime to load it",
            hint=f"matloom plugin litert {network} is for TensorFlow Lite files",
        )
    return load_nodes(file)
