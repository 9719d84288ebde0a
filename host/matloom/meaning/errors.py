"""Errors of the meaning check."""


class MeaningError(Exception):
    """A program does not compute its network: a bug in the compiler, not a user error.

    Members
    -------
    tensor:
        Name of the output of the layer where the difference begins; empty if unknown.
    """

    def __init__(self, message: str, tensor: str = "") -> None:
        super().__init__(message)
        self.tensor = tensor
