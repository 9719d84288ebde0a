"""The errors of Program files and of their command buffers."""

__all__ = ["ProgramError", "VerifyError"]


class ProgramError(ValueError):
    """A Program that cannot be used; the message names thing, rule and value."""


class VerifyError(ValueError):
    """A command buffer that must not run; the message names instructions, memory and rule."""
