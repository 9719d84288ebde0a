"""Errors of the check of meaning."""

__all__ = ["MeaningError"]


class MeaningError(Exception):
    """A program does not compute its network: an error of the compiler, not of its user.

    Members
    -------
    tensor:
        The name of the result of the layer where that begins; empty where it is not known.
    """

    def __init__(self, message: str, tensor: str = "") -> None:
        super().__init__(message)
        self.tensor = tensor
