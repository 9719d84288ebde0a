"""The error of Program files."""

__all__ = ["ProgramError"]


class ProgramError(ValueError):
    """A Program that cannot be used; the message names thing, rule and value."""
