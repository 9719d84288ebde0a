"""The errors that a model file earns."""

from matloom.errors import UserError

__all__ = ["ModelError", "Unsupported"]


class ModelError(UserError):
    """A model file that cannot be read or run: one line of thing, rule and value."""


class Unsupported(ModelError):
    """A sound operator that only a reference interpreter can run; the message is the reason."""
