"""Arguments of LiteRT's interpreter."""

import os

from matloom.errors import UserError


def is_litert_option(name: str) -> bool:
    """Return whether a keyword is one of LiteRT's that have no effect here."""
    return name.startswith("experimental_")


def source_of(path: str | os.PathLike[str] | None, content: bytes | None) -> str | bytes:
    """Return the network, from the only one of both arguments that is given."""
    if path is not None and content is None:
        return os.fspath(path)
    if content is not None and path is None:
        return bytes(content)
    raise UserError(
        "an interpreter must have a model_path or a model_content, one of them",
        hint="pass Interpreter(model_path=...), or model_content with the bytes of a file",
    )
