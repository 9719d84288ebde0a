"""The NET argument of commands, and the options for its input sizes."""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from matloom.errors import UserError


class NetworkFile(click.Path):
    """A file, or the name of a network that comes with Matloom."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path of the file that the argument names."""
        from matloom.frontend.source import network_path

        return network_path(str(super().convert(value, param, ctx)))


#: Hint for names and shapes of inputs.
_INPUTS = "matloom explain NET lists the inputs, their names and shapes"

_ARGUMENT = click.argument("network", metavar="NET", type=NetworkFile())
_SHAPE = click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=N,...",
    help="Set the shape of an input, such as x=1,96,96,3 if the file leaves height and width open.",
)


_DIM = click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=N",
    help="Set the size of a named dimension of an ONNX file: batch=1.",
)


_EXACT = click.option(
    "--exact",
    is_flag=True,
    help="Leave layers of an ONNX file to ONNX Runtime if their results can differ.",
)


def network_argument(command: Callable[..., Any]) -> Any:
    """Add the NET argument and its size options to a command, which receives a file's path."""

    @functools.wraps(command)
    def wrapper(
        *, network: Path, shapes: tuple[str, ...], dims: tuple[str, ...], exact: bool, **values: Any
    ) -> Any:
        """Call the command with the network file, or with a copy that the size options changed."""
        changed = _reshape(network, shapes, dims, exact) if shapes or dims or exact else network
        return command(network=changed, **values)

    return _ARGUMENT(_SHAPE(_DIM(_EXACT(wrapper))))


NETWORK = network_argument


def is_program(network: Path) -> bool:
    """Return whether a file is a compiled program."""
    from matloom.frontend import source

    return source.is_program(network)


def _reshape(network: Path, shapes: tuple[str, ...], dims: tuple[str, ...], exact: bool) -> Path:
    """Return the path of a copy of a model file, changed as --shape, --dim and --exact ask.

    The copy is removed at the end of the command.
    """
    from matloom import frontend

    if is_program(network):
        option = "--shape" if shapes else "--dim" if dims else "--exact"
        raise UserError(
            f"{option} must go with a network, not the program {str(network)!r}",
            hint="give the model file that it was compiled from",
        )
    content = frontend.reshape(
        network, dict(map(_shape, shapes)), dict(map(_dim, dims)), exact=exact
    )
    folder = click.get_current_context().with_resource(tempfile.TemporaryDirectory())
    made = Path(folder) / network.name
    made.write_bytes(content)
    return made


def _shape(text: str) -> tuple[str, list[int]]:
    """Parse an input's name and shape from NAME=N,N,..."""
    name, _, sizes = text.rpartition("=")
    try:
        numbers = [int(size) for size in sizes.split(",")]
    except ValueError:
        numbers = []
    if not name or not numbers:
        raise UserError(f"--shape must be NAME=N,N,... (x=1,96,96,3), not {text!r}", hint=_INPUTS)
    return name, numbers


def _dim(text: str) -> tuple[str, int]:
    """Parse a dimension's name and size from NAME=N."""
    name, _, size = text.rpartition("=")
    if not name or not size.isdecimal():
        raise UserError(f"--dim must be NAME=N (batch=1), not {text!r}", hint=_INPUTS)
    return name, int(size)
