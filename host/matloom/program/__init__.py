"""Program files: their contents, and how to write, read and check them."""

from matloom.arch.program_file import FORMAT_VERSION
from matloom.program.errors import ProgramError
from matloom.program.program import Origin, Program
from matloom.program.records import (
    Binding,
    EngineStep,
    HostConstant,
    HostStep,
    LayerInfo,
    PreprocessInfo,
    Quantised,
    Repeat,
    TensorInfo,
    VariableInfo,
    Verdict,
)

__all__ = [
    "FORMAT_VERSION",
    "Binding",
    "EngineStep",
    "HostConstant",
    "HostStep",
    "LayerInfo",
    "Origin",
    "PreprocessInfo",
    "Program",
    "ProgramError",
    "Quantised",
    "Repeat",
    "TensorInfo",
    "VariableInfo",
    "Verdict",
]
