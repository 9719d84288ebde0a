"""Errors raised while reading a model file."""

import textwrap

from matloom.errors import HintedError, MissingPackageError, UserError
from matloom.ir.node_rules import Problem, RuleKind


class ModelError(UserError):
    """Error for a model file that cannot be read or run.

    The message names the part at fault, the rule that it breaks, and the value found.
    """

    hint = "download it again, or convert the network again"


class ShapeError(ModelError):
    """Error for a shape that an input of a model cannot have; the file itself is valid."""

    hint = "matloom explain NET lists the inputs and their shapes"


class Unsupported(ModelError):
    """Error for an operator that only a reference interpreter can run; the message says why."""


class MisreadInMicro(Unsupported):
    """Error for an operator that TensorFlow Lite Micro misreads, and only LiteRT can run."""


class Contradiction(MisreadInMicro):
    """Error for an operator whose tensors and options contradict each other.

    TensorFlow Lite Micro trusts them, and reads or writes out of bounds. LiteRT checks them, so
    only LiteRT defines what the operator does, and what shapes its outputs have.
    """


_ERRORS = {
    RuleKind.UNSUPPORTED: Unsupported,
    RuleKind.CONTRADICTION: Contradiction,
    RuleKind.UNDEFINED: ModelError,
}


def error_of(problem: Problem) -> ModelError:
    """Return the error for an operator that breaks a rule; `problem` names both."""
    return _ERRORS[problem.kind](str(problem))


def unreadable_file(about: str, error: Exception) -> HintedError:
    """Return a `ModelError` that says, in one line of bounded length, why a file cannot be read.

    The message quotes the text of `error` if it is a ModelError or ValueError, or begins with the
    file's name. Other exceptions are what parsers happen to raise on damaged files, so the message
    only says that the file is truncated or malformed. A `MissingPackageError` is returned
    unchanged, because the file may be intact.

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
