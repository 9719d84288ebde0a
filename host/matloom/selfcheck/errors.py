"""Errors and warnings of the check of a compiled program."""

from matloom.errors import HintedWarning


class CheckError(Exception):
    """Error raised if a program does not compute its network, which is a bug of the compiler.

    Members
    -------
    tensor:
        Name of the first wrong tensor, or of its layer; empty if the program stopped with a fault.
    """

    def __init__(self, message: str, tensor: str = "") -> None:
        super().__init__(message)
        self.tensor = tensor


class CompilerWarning(HintedWarning):
    """Warning that a program failed its check, and a simpler schedule that passes was used."""
