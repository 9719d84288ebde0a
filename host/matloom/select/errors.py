"""Errors of the compiler: networks that it cannot turn into programs, and its own defects."""

from matloom.errors import UserError


class CompileError(UserError):
    """A network that the engine cannot run; the message names thing, rule and value."""

    hint = "take an engine that has room for it (docs/configuration.md), or change the network"


class PhaseError(AssertionError):
    """A compiler bug found by MATLOOM_VERIFY=1: the result of a phase breaks a rule."""
