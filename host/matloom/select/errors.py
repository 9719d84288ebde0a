"""The error of the compiler: a network that cannot be made into a program."""

__all__ = ["CompileError"]


class CompileError(ValueError):
    """A network that the engine cannot run; the message names thing, rule and value."""
