"""Masks that depend on several indices, such as whether both a query and a key are padding."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.index_tables import IndexFunction, compute, move
from matloom.ir.graph import Array

#: Operators on 0 and 1 that are the smaller or the larger of their operands.
_LIMITS = {"And": "Min", "Max": "Max", "Min": "Min", "Mul": "Min", "Or": "Max"}
_OPPOSITE = {"Max": "Min", "Min": "Max"}


@dataclass(frozen=True, kw_only=True, eq=False)
class JointFunction:
    """The minimum or the maximum of several functions, each of one index of an input.

    All functions have the same two values, so any function of the result is again a minimum or a
    maximum of functions.

    Members
    -------
    op:
        "Min" or "Max".
    parts:
        The functions, all of the full shape.
    """

    op: str
    parts: tuple[IndexFunction, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value."""
        return self.parts[0].shape


def combine(
    node: FileNode,
    functions: Mapping[str, IndexFunction | JointFunction],
    constants: Mapping[str, Array],
) -> IndexFunction | JointFunction | None:
    """Return the result of an element-wise operator on functions of indices.

    The result is None if it is neither a function of one index, nor a minimum or a maximum of such
    functions.

    Parameters
    ----------
    functions, constants:
        The operator's inputs, by name.
    """
    single = {name: each for name, each in functions.items() if isinstance(each, IndexFunction)}
    if len(single) == len(functions):
        made = compute(node, single, constants)
        if made is not None:
            return made
    limit = _LIMITS.get(node.op)
    if limit and all(_has_flags(each) for each in (*functions.values(), *constants.values())):
        return _join_functions(node, limit, functions, constants)
    ((name, joint), *others) = functions.items()
    if others or not isinstance(joint, JointFunction):
        return None
    return _apply_to_joint(node, name, joint, constants)


def move_joint(
    node: FileNode, source: JointFunction, constants: Mapping[str, Array]
) -> dict[str, JointFunction]:
    """Return the outputs, by name, of an operator that only moves elements, such as Transpose.

    `constants` are the operator's other inputs, by name.
    """
    moved = [move(node, part, constants) for part in source.parts]
    return {name: replace(source, parts=tuple(each[name] for each in moved)) for name in moved[0]}


def _join_functions(
    node: FileNode,
    limit: str,
    functions: Mapping[str, IndexFunction | JointFunction],
    constants: Mapping[str, Array],
) -> JointFunction | None:
    """Return the `limit` ("Min" or "Max") of functions and constants of 0 and 1; or None.

    `limit` is "Min" or "Max". The result is None if a function has the other limit inside.
    """
    parts = list[IndexFunction]()
    for each in functions.values():
        if isinstance(each, JointFunction) and each.op != limit:
            return None
        parts += each.parts if isinstance(each, JointFunction) else (each,)
    if constants:
        name, *others = functions
        first = None if others else compute(node, {name: parts[0]}, constants)
        if first is None:
            return None
        parts[0] = first
    shape = np.broadcast_shapes(*(each.shape for each in parts))
    return JointFunction(op=limit, parts=tuple(each.broadcast_to(shape) for each in parts))


def _apply_to_joint(
    node: FileNode, name: str, joint: JointFunction, constants: Mapping[str, Array]
) -> JointFunction | None:
    """Return an operator's result on a minimum or maximum, `joint`, in the same form; or None.

    `name` is the input that `joint` is. Returns None if a constant has several elements, or `joint`
    has more than two values.
    """
    numbers = np.unique([number for part in joint.parts for number in np.unique(part.values)])
    if len(numbers) > 2 or any(each.size != 1 for each in constants.values()):
        return None
    first = joint.parts[0]
    both = numbers.astype(first.values.dtype).reshape(-1, *(1 for _axis in first.shape))
    ends = compute(
        node, {name: replace(first, classes=np.arange(len(both)), values=both)}, constants
    )
    parts = [compute(node, {name: part}, constants) for part in joint.parts]
    known = tuple(part for part in parts if part is not None)
    if ends is None or len(known) != len(parts):
        return None
    falls = bool(ends.table[0] > ends.table[-1])
    return JointFunction(op=_OPPOSITE[joint.op] if falls else joint.op, parts=known)


def _has_flags(value: IndexFunction | JointFunction | Array) -> bool:
    """Return whether all numbers of a value are 0 or 1."""
    if isinstance(value, JointFunction):
        return all(map(_has_flags, value.parts))
    numbers = value.values if isinstance(value, IndexFunction) else value
    return bool(((numbers == 0) | (numbers == 1)).all())
