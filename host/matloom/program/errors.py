"""Errors of Program files and of their command buffers."""

from matloom.errors import UserError


class ProgramError(UserError):
    """A Program that cannot be used; the message names the part, the rule and the value."""

    hint = "compile the network again: matloom compile NET -o FILE.mloom"


class VerifyError(ValueError):
    """A command buffer that must not run; the message names the instruction and the rule."""
