"""The errors that a model file earns."""

from matloom.errors import UserError
from matloom.ir.node_rules import Problem, RuleKind

__all__ = ["Contradiction", "ModelError", "Unsupported", "error_of"]


class ModelError(UserError):
    """A model file that cannot be read or run: one line of thing, rule and value."""


class Unsupported(ModelError):
    """An operator that only a reference interpreter can run; the message is the reason."""


class Contradiction(Unsupported):
    """An operator whose tensors and options do not fit each other.

    TensorFlow Lite Micro trusts them, and reads or writes beyond its tensors. LiteRT checks them,
    so it alone says what the operator does.
    """


_ERRORS = {
    RuleKind.UNSUPPORTED: Unsupported,
    RuleKind.CONTRADICTION: Contradiction,
    RuleKind.UNDEFINED: ModelError,
}


def error_of(problem: Problem) -> ModelError:
    """Return the error of an operator that breaks a rule."""
    return _ERRORS[problem.breach](str(problem))
