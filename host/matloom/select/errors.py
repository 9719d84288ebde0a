"""The error of the compiler: a network that cannot be made into a program."""

from matloom.errors import UserError

__all__ = ["CompileError", "PhaseError"]


class CompileError(UserError):
    """A network that the engine cannot run; the message names thing, rule and value."""


class PhaseError(AssertionError):
    """What a phase of the compiler made breaks a rule: a defect, found by MATLOOM_VERIFY=1."""
