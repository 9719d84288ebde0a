"""Checks of the arguments of `Interpreter`."""

import os

from matloom.errors import UserError


def is_litert_option(name: str) -> bool:
    """Return whether a keyword belongs to LiteRT's interpreter and has no effect here."""
    return name.startswith("experimental_")


def source_of(path: str | os.PathLike[str] | None, content: bytes | None) -> str | bytes:
    """Return the path or the content, whichever is given; raise `UserError` if not exactly one."""
    if path is not None and content is None:
        return os.fspath(path)
    if content is not None and path is None:
        return bytes(content)
    raise UserError(
        "an interpreter must have either a model_path or a model_content",
        hint="pass Interpreter(model_path=...), or model_content with the bytes of a file",
    )
