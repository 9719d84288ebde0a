"""The error of the compiler: a network that cannot be made into a program."""

from matloom.errors import UserError

__all__ = ["CompileError", "PhaseError"]


class CompileError(UserError):
    """A network that the engine cannot run; the message names thing, rule and value."""


class PhaseError(AssertionError):
    """Defect of the compiler, found by MATLOOM_VERIFY=1: the result of a phase breaks a rule."""
