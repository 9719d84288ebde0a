"""Errors raised while reading a model file."""

from matloom.errors import UserError
from matloom.ir.node_rules import Problem, RuleKind

__all__ = ["Contradiction", "ModelError", "Unsupported", "error_of"]


class ModelError(UserError):
    """A model file that cannot be read or run; the message names thing, rule and value."""

    hint = "download it again, or convert the network again"


class Unsupported(ModelError):
    """An operator that only a reference interpreter can run; the message is the reason."""


class Contradiction(Unsupported):
    """An operator whose tensors and options contradict each other.

    TensorFlow Lite Micro trusts them, and reads or writes out of bounds. LiteRT checks them, so
    only LiteRT defines what the operator does.
    """


_ERRORS = {
    RuleKind.UNSUPPORTED: Unsupported,
    RuleKind.CONTRADICTION: Contradiction,
    RuleKind.UNDEFINED: ModelError,
}


def error_of(problem: Problem) -> ModelError:
    """Return the error for an operator that breaks a rule."""
    return _ERRORS[problem.breach](str(problem))
