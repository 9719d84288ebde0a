"""Checks of the sizes that callers give to the inputs of networks."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from matloom.errors import UserTypeError
from matloom.frontend.errors import ShapeError

Shapes = Mapping[str, Sequence[int]]
Dims = Mapping[str, int]


def check_sizes(
    shapes: Shapes | None, dims: Dims | None
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Return input shapes by name, and sizes of named dimensions, checked and made int.

    An argument of None gives an empty dictionary.

    Raises
    ------
    UserTypeError
        An argument is not a mapping.
    ShapeError
        A size is not a whole number.
    """
    return (
        {
            name: _check_shape(name, shape)
            for name, shape in _check_items("shapes", shapes, "input")
        },
        {name: _check_size(name, size) for name, size in _check_items("dims", dims, "dimension")},
    )


#: A valid value of each argument, for hints.
_EXAMPLES = {"shapes": "{'image': (1, 96, 96, 3)}", "dims": "{'batch': 1}"}


def _check_items(argument: str, value: Any, subject: str) -> list[tuple[Any, Any]]:
    """Return the (name, value) pairs of a mapping; `argument` is the option for the message."""
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise UserTypeError(
            f"{argument} must be a mapping by the name of the {subject}, not {value!r}",
            hint=f"write {argument}={_EXAMPLES[argument]}",
        )
    return list(value.items())


def _check_shape(name: str, shape: Any) -> tuple[int, ...]:
    """Return an input's shape as integers, or raise an error that names the input."""
    try:
        return tuple(operator.index(size) for size in shape)
    except TypeError:
        raise ShapeError(
            f"the shape of input {name!r} must be of whole numbers, not {shape!r}"
        ) from None


def _check_size(name: str, size: Any) -> int:
    """Return a dimension's size as an integer, or raise an error that names the dimension."""
    try:
        return operator.index(size)
    except TypeError:
        raise ShapeError(
            f"the size of dimension {name!r} must be a whole number, not {size!r}"
        ) from None
