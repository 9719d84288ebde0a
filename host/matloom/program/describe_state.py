"""Description of the variables that a Program keeps between calls."""

import math
from collections.abc import Iterator

import numpy as np

from matloom.program.program import Program
from matloom.program.records import Binding, HostStep, VariableInfo


def variable_bytes(program: Program) -> dict[str, int]:
    """Return the size in bytes of each variable, by name."""
    return {name: array.nbytes for name, array in program.initial_state().items()}


def describe_state(program: Program) -> list[str]:
    """Return lines of text on the variables of a program: a summary, then one line per variable.

    The list is empty if there are no variables.
    """
    if not program.variables:
        return []
    sizes = variable_bytes(program)
    count, total = len(sizes), sum(sizes.values())
    lines = [f"state: {total:,} bytes in {count} variable{'s' * (count > 1)}"]
    for variable in program.variables:
        place = f"kept by the host: {_reason_on_host(program, variable)}"
        if variable.place is not None:
            place = f"{variable.place.region.name} {variable.place.offset}, in place"
        lines.append(f"  {variable.name}: {_type_and_size(program, variable)}, {place}")
    return lines


def _type_and_size(program: Program, variable: VariableInfo) -> str:
    """Return dtype, shape and size of a variable as text."""
    (info,) = (each for each in program.tensors if each.key == variable.before)
    shape = "x".join(map(str, info.shape))
    size = math.prod(info.shape) * np.dtype(info.dtype).itemsize
    return f"{info.dtype}[{shape}], {size:,} bytes"


def _reason_on_host(program: Program, variable: VariableInfo) -> str:
    """Return a phrase that says why a variable cannot stay in external memory."""
    keys = {variable.before, variable.after}
    end_keys = {info.key for info in (*program.inputs, *program.outputs)}
    if keys & end_keys:
        return "an input or output of the network is the same tensor"
    for step in program.steps:
        if isinstance(step, HostStep) and keys & {*step.inputs, *step.outputs}:
            return f"{step.operator} on the host uses it"
    for other in program.variables:
        if other is not variable and keys & {other.before, other.after}:
            return f"{other.name} holds the same tensor"
    readers = list(_engine_inputs(program))
    if variable.after in readers or readers.count(variable.before) > 1:
        return "several command buffers use it"
    return "its old bytes would be read after the new ones are written"


def _engine_inputs(program: Program) -> Iterator[str]:
    """Yield the names of the tensors that engine steps read, with repetitions."""
    for step in program.steps:
        for item in step.inputs:
            if isinstance(item, Binding):
                yield item.name
