"""The error that a model file earns."""

__all__ = ["ModelError"]


class ModelError(ValueError):
    """A model file that cannot be read or run: one line of thing, rule and value."""
