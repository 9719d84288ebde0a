"""Rules for the programs of a loop: their inputs and outputs must match the loop's operands."""

import math
from collections.abc import Mapping, Sequence

from matloom.program.contents import Contents
from matloom.program.errors import ProgramError
from matloom.program.host_steps import COUNTS
from matloom.program.records import HostConstant, HostStep, TensorInfo

#: Shape and dtype.
_Kind = tuple[tuple[int, ...], str]
#: Shape and dtype of the index of an iteration, and of the condition to continue.
_COUNTERS: list[_Kind] = [((), "int64"), ((), "bool")]


def check_programs(step: HostStep, programs: Sequence[Contents], outside: Contents) -> None:
    """Check that the programs of a loop, its body and perhaps a condition, match its operands.

    `step` is the loop, and `outside` the program that contains it.

    Raises
    ------
    ProgramError
        A rule is broken.
    """
    known = {info.key: _shape_and_type(info) for info in outside.tensors}
    known |= {constant.name: _shape_and_type(constant) for constant in outside.constants}
    body, *conditions = programs
    counts, count = 0 if conditions else COUNTS, step.attributes["carried"]
    for name in step.inputs[:counts]:
        if math.prod(known[name][0]) != 1:
            raise ProgramError(f"a loop must count in one element, not in {known[name]}")
    values = [known[name] for name in step.inputs[counts : len(step.inputs) - len(programs)]]
    carried, kept = values[:count], body.initial_state()
    plain = [kind for at, kind in enumerate(carried) if str(at) not in kept]
    going = _COUNTERS[1:counts]
    _require_kinds("inputs of a body", body.inputs, [*_COUNTERS[:counts], *plain, *values[count:]])
    _require_kinds("outputs of a body", body.outputs[: len(going + plain)], [*going, *plain])
    stacked = list(map(_shape_and_type, body.outputs[len(going + plain) :]))
    named = {str(at): kind for at, kind in enumerate(carried)}
    for name, array in kept.items():
        if named.get(name) != (array.shape, array.dtype.name):
            raise ProgramError(f"a loop must not keep variable {name!r} of {array.dtype}")
    for condition in conditions:
        _require_kinds("inputs of a condition", condition.inputs, carried)
        if [math.prod(info.shape) for info in condition.outputs] != [1]:
            raise ProgramError("a condition must have one output, of one element")
    _check_results(step, known, carried, stacked)


def _check_results(
    step: HostStep,
    kinds_by_name: Mapping[str, _Kind],
    carried: Sequence[_Kind],
    stacked: Sequence[_Kind],
) -> None:
    """Check that each result of a loop has the shape and type of the value that it returns."""
    made = [*carried, *stacked]
    for name, at in zip(step.outputs, step.attributes["results"], strict=True):
        if at >= len(made):
            raise ProgramError(f"a loop must not have the result {at}")
        shape, dtype = kinds_by_name[name]
        # Stacked values have as many rows as there were iterations.
        found = (shape if at < len(carried) else shape[1:], dtype)
        if found != made[at]:
            raise ProgramError(f"result {at} of a loop must be {made[at]}, not {found}")


def _shape_and_type(info: TensorInfo | HostConstant) -> _Kind:
    """Return the shape and the dtype of a tensor or constant."""
    return info.shape, info.dtype


def _require_kinds(subject: str, infos: Sequence[TensorInfo], kinds: Sequence[_Kind]) -> None:
    """Raise `ProgramError` unless tensors have these shapes and types, in this order."""
    found = list(map(_shape_and_type, infos))
    if found != list(kinds):
        raise ProgramError(f"{subject} of a loop must be {list(kinds)}, not {found}")
