"""Names from ai_edge_litert.interpreter, tflite_runtime.interpreter and tf.lite."""

import enum
from typing import Any

from matloom.compat.interpreter import Interpreter
from matloom.compat.signature import SignatureRunner

__all__ = ["Delegate", "Interpreter", "OpResolverType", "SignatureRunner", "load_delegate"]


class OpResolverType(enum.Enum):
    """Kernels that LiteRT may choose; Matloom's results equal TensorFlow Lite Micro's."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


class Delegate:
    """A library that LiteRT would delegate operators to; only its name is kept."""

    def __init__(self, library: str, options: Any = None) -> None:
        self.library = library


def load_delegate(library: str, options: Any = None) -> Delegate:
    """Return a delegate's name; `Interpreter` warns that it is ignored."""
    return Delegate(library, options)
