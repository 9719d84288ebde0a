"""Errors raised while reading a model file."""

import textwrap

from matloom.errors import HintedError, MissingPackageError, UserError
from matloom.ir.node_rules import Problem, RuleKind


class ModelError(UserError):
    """A model file that cannot be read or run; the message names thing, rule and value."""

    hint = "download it again, or convert the network again"


class ShapeError(ModelError):
    """A shape that a model's input cannot have; the file itself is fine."""

    hint = "matloom explain NET lists the inputs and their shapes"


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


def unreadable_file(about: str, error: Exception) -> HintedError:
    """Return the error for a file that cannot be read, as one line of bounded length.

    Damaged offsets make parsers raise arbitrary exceptions; only the text of a ValueError describes
    the file. A missing package is not the file's fault.

    Parameters
    ----------
    about:
        Beginning of the sentence: the name of the file, with or without a colon.
    error:
        The exception that was raised.
    """
    if isinstance(error, MissingPackageError):
        return error
    name = about.removesuffix(":")
    if isinstance(error, ModelError):
        sentence = f"{about} {error}"
    elif str(error).startswith(f"{name}: "):
        sentence = str(error)
    else:
        detail = f": {error}" if isinstance(error, ValueError) else ""
        sentence = f"{name} is truncated or malformed{detail}"
    # A file may contain anything, and messages quote it.
    line = textwrap.shorten(sentence, 300, placeholder=" ...")
    return ModelError(line, hint=getattr(error, "hint", ""))
