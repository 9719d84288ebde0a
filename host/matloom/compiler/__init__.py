"""Compiles a model file into a Program; `pipeline` lists all phases."""

from matloom.compiler.checked_programs import compile_network
from matloom.compiler.pipeline import PHASES, compile_unchecked, run_phases
from matloom.compiler.values import Compiled, Job
from matloom.schedule import CompileError, CompileOptions
from matloom.selfcheck import CheckError, CompilerWarning

__all__ = [
    "PHASES",
    "CheckError",
    "CompileError",
    "CompileOptions",
    "Compiled",
    "CompilerWarning",
    "Job",
    "compile_network",
    "compile_unchecked",
    "run_phases",
]
