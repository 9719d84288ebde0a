"""Names from ai_edge_litert.interpreter, tflite_runtime.interpreter and tf.lite."""

import enum
from typing import Any

from matloom.compat.interpreter import Interpreter
from matloom.compat.signature import SignatureRunner

__all__ = ["Delegate", "Interpreter", "OpResolverType", "SignatureRunner", "load_delegate"]


class OpResolverType(enum.Enum):
    """Choice of LiteRT's kernels, without effect: results equal TensorFlow Lite Micro's."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


class Delegate:
    """Stands for a library that LiteRT would delegate operators to, which is not loaded."""

    def __init__(self, library: str, options: Any = None) -> None:
        self.library = library


def load_delegate(library: str, options: Any = None) -> Delegate:
    """Return a `Delegate` with the library's name; `Interpreter` ignores it with a warning."""
    return Delegate(library, options)
