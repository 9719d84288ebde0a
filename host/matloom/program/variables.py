"""Rules for a Program's variables: initial values, producers and locations."""

import math
from itertools import pairwise

import numpy as np

from matloom.arch.isa import Region
from matloom.arch.program_file import ALIGNMENT, CONSTANT_ALIGNMENT
from matloom.program.contents import Contents
from matloom.program.errors import ProgramError
from matloom.program.records import Binding, EngineStep, TensorInfo, VariableInfo


def check_variables(program: Contents) -> None:
    """Check a program's variables, and that only they are bound to region ARENA.

    Raises
    ------
    ProgramError
        A rule is broken.
    """
    names = set()
    infos = {info.key: info for info in program.tensors}
    for variable in program.variables:
        if variable.name in names:
            raise ProgramError(f"variable names must differ, but {variable.name!r} occurs twice")
        names.add(variable.name)
        _check_variable(variable, infos, program)
    _check_places(program)
    _check_bindings(program)


def _size_bytes(info: TensorInfo) -> int:
    """Return the size of a tensor in bytes."""
    return math.prod(info.shape) * np.dtype(info.dtype).itemsize


def _check_variable(
    variable: VariableInfo, infos: dict[str, TensorInfo], program: Contents
) -> None:
    """Check that a variable's tensors match, and that its initial value lies in the host's data."""
    name = f"variable {variable.name!r}"
    for tensor in (variable.before, variable.after):
        if tensor not in infos:
            raise ProgramError(f"{name} must have tensors of the program, not {tensor!r}")
    before, after = infos[variable.before], infos[variable.after]
    if (before.shape, before.dtype) != (after.shape, after.dtype):
        raise ProgramError(
            f"{name} must end as {before.dtype} {before.shape}, not {after.dtype} {after.shape}"
        )
    if variable.initial % CONSTANT_ALIGNMENT:
        raise ProgramError(
            f"{name} must begin at a multiple of {CONSTANT_ALIGNMENT}, not {variable.initial}"
        )
    end = variable.initial + _size_bytes(before)
    if not 0 <= variable.initial < end <= len(program.host_data):
        raise ProgramError(f"{name} must begin within {len(program.host_data)} bytes, not {end}")


def _check_places(program: Contents) -> None:
    """Check that variables in region ARENA do not overlap and that the host does not use them."""
    spans = []
    size = program.region_bytes.get(Region.ARENA, 0)
    crossing = {info.key for info in (*program.inputs, *program.outputs)}
    for step in program.steps:
        if not isinstance(step, EngineStep):
            crossing.update((*step.inputs, *step.outputs))
    for variable in program.variables:
        place = variable.place
        if place is None:
            continue
        name = f"variable {variable.name!r}"
        if place.region is not Region.ARENA or place.name != variable.before:
            raise ProgramError(
                f"{name} must lie in region ARENA as {variable.before!r}, "
                f"not in {place.region.name} as {place.name!r}"
            )
        end = place.offset + math.prod(place.shape) * np.dtype(place.dtype).itemsize
        if place.offset % ALIGNMENT or end > size:
            raise ProgramError(
                f"{name} must begin at a multiple of {ALIGNMENT} and end by {size}, "
                f"not lie at {place.offset} to {end}"
            )
        spans.append((place.offset, end, name))
        for tensor in {variable.before, variable.after} & crossing:
            raise ProgramError(f"{name} must be kept by the host, which uses {tensor!r}")
    for (_start, end, first), (begin, _end, second) in pairwise(sorted(spans)):
        if begin < end:
            raise ProgramError(f"variables must not overlap, unlike {first} and {second}")


def _check_bindings(program: Contents) -> None:
    """Check that engine steps bind variables in region ARENA to the addresses where they are kept.

    No step may read a variable's old value after its new one is written, or read the new value;
    some step must write it.
    """
    old = {item.before: item for item in program.variables if item.place is not None}
    new = {item.after: item for item in program.variables if item.place is not None}
    written: set[str] = set()
    for number, step in enumerate(program.steps):
        if not isinstance(step, EngineStep):
            continue
        for binding in step.inputs:
            _check_binding(f"step {number} (engine)", binding, old.get(binding.name))
            if binding.name in old and old[binding.name].after in written:
                raise ProgramError(
                    f"step {number} (engine) must read {binding.name!r} before it is replaced"
                )
            if binding.name in new:
                raise ProgramError(f"step {number} (engine) must not read {binding.name!r}")
        for binding in step.outputs:
            _check_binding(f"step {number} (engine)", binding, new.get(binding.name))
            written.add(binding.name)
    for name, variable in new.items():
        if name not in written:
            raise ProgramError(f"variable {variable.name!r} must be made by the engine")


def _check_binding(step: str, binding: Binding, variable: VariableInfo | None) -> None:
    """Check that a tensor is bound in region ARENA if, and only if, a variable is kept there."""
    place = None if variable is None else variable.place
    where = (binding.region, binding.offset)
    if place is None and binding.region is Region.ARENA:
        raise ProgramError(f"{step} must bind variables alone in ARENA, not {binding.name!r}")
    if place is not None and where != (place.region, place.offset):
        raise ProgramError(
            f"{step} must bind {binding.name!r} at ARENA {place.offset}, "
            f"not {binding.region.name} {binding.offset}"
        )
