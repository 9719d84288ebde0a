"""What the check of meaning raises."""

__all__ = ["MeaningError"]


class MeaningError(Exception):
    """A program does not compute its network: an error of the compiler, not of its user."""
