"""Errors of the check of a compiled program, and their sentences."""

from matloom.errors import HintedWarning

__all__ = ["CheckError", "CompilerWarning"]


class CheckError(Exception):
    """A program that does not do what its network means: a defect of the compiler.

    Members
    -------
    tensor:
        The name of the first tensor that is wrong, as the program names it; empty where the
        program stopped before one was made.
    """

    def __init__(self, message: str, tensor: str = "") -> None:
        super().__init__(message)
        self.tensor = tensor


class CompilerWarning(HintedWarning):
    """The compiler made a mistake, found it, and took a plainer schedule that passes."""
