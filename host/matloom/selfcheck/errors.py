"""Errors and messages of the check of a compiled program."""

from matloom.errors import HintedWarning


class CheckError(Exception):
    """A program that does not compute its network: a compiler bug.

    Members
    -------
    tensor:
        Name of the first wrong tensor in the program; empty if the program stopped before making
        one.
    """

    def __init__(self, message: str, tensor: str = "") -> None:
        super().__init__(message)
        self.tensor = tensor


class CompilerWarning(HintedWarning):
    """The compiler made a mistake, detected it, and used a simpler schedule that passes."""
