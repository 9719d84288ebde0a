"""Checks a compiled program on the functional model against the operators' definitions."""

from matloom.selfcheck.check import CHECKS, check_mode, check_program, samples_tiles
from matloom.selfcheck.errors import CheckError, CompilerWarning
from matloom.selfcheck.reproducer import write_reproducer
from matloom.selfcheck.tiles import Tiles

__all__ = [
    "CHECKS",
    "CheckError",
    "CompilerWarning",
    "Tiles",
    "check_mode",
    "check_program",
    "samples_tiles",
    "write_reproducer",
]
