"""Runs a compiled program on the functional model against the operators' definitions."""

from matloom.selfcheck.check import CHECKS, check_mode, check_program
from matloom.selfcheck.errors import CheckError, CompilerWarning
from matloom.selfcheck.reproducer import write_reproducer

__all__ = [
    "CHECKS",
    "CheckError",
    "CompilerWarning",
    "check_mode",
    "check_program",
    "write_reproducer",
]
