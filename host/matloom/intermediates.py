"""Looks up intermediate tensors of a network by name, and computes them with the kernels."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np

from matloom.errors import UserError, did_you_mean
from matloom.ir.graph import Array, Graph, Op, short_name
from matloom.ir.names import unique_names
from matloom.kernels.definition import Definition
from matloom.kernels.reference import to_declared_shape
from matloom.program import Program

#: Names of tensors, or "all" for the results of all operators.
Names = Sequence[str] | Literal["all"]


def tensor_numbers(program: Program, names: Names) -> dict[str, int]:
    """Return the tensor numbers of the named tensors in the graph, by name.

    A program that was read from a file has no graph; the numbers are then indices of its outputs.

    Parameters
    ----------
    names:
        Names from the model file, in full or up to the first semicolon if that is unambiguous.
        If several tensors share a name, all but one have their number after a colon. ``"all"``
        stands for the results of all operators, in the file's order.

    Raises
    ------
    UserError
        No tensor, or more than one, has this name, or it is a constant; or the program was read
        from a file and the name is not one of its outputs.
    """
    _require_names(names)
    if program.origin is None:
        return _output_positions(program, names)
    graph = program.origin.source
    by_name = _numbers_by_name(graph)
    if names == "all":
        names_of = {number: name for name, number in by_name.items()}
        return {names_of[at]: at for node in graph.nodes for at in node.outputs if at in names_of}
    return {name: _tensor_number(graph, by_name, name) for name in names}


def _require_names(names: object) -> None:
    """Raise `UserError` unless `names` is "all" or a collection of names."""
    if isinstance(names, str):
        valid, given = names == "all", repr(names)
    else:
        kinds = {type(name) for name in names} if isinstance(names, Collection) else set()
        wrong = sorted(kind.__name__ for kind in kinds if not issubclass(kind, str))
        valid = isinstance(names, Collection) and not wrong
        given = f"of type {type(names).__name__}" + (f" of {wrong[0]}" if wrong else "")
    if not valid:
        raise UserError(
            f"outputs must be a list of names or 'all', not {given}",
            hint="pass outputs=['NAME', ...]; matloom explain NET lists the names",
        )


def _output_positions(program: Program, names: Names) -> dict[str, int]:
    """Return the indices of the named outputs, by name; raise `UserError` for any other name."""
    places = {info.name: at for at, info in enumerate(program.outputs)}
    for name in places if names == "all" else names:
        if name not in places:
            raise UserError(
                f"tensor {name!r} must be an output of the program {program.name!r} "
                f"({', '.join(places)}): it was read from a file, which has no others",
                hint="load the network instead, the .tflite file",
            )
    return {name: places[name] for name in (places if names == "all" else names)}


def _numbers_by_name(graph: Graph) -> dict[str, int]:
    """Return the tensor numbers of inputs and of results of operators, by unique name.

    If an output shares its name with another tensor, the name means the output.
    """
    produced = {number for node in graph.nodes for number in node.outputs}
    unique = unique_names(graph)
    found = {unique[at]: at for at in graph.tensors if at in produced or at in graph.inputs}
    # Outputs keep their names from the file, which are unique among outputs.
    for number in graph.outputs:
        if graph.tensors[number].data is None:
            found.pop(unique[number], None)
            found[graph.tensors[number].name] = number
    order = {number: at for at, number in enumerate(graph.tensors)}
    return dict(sorted(found.items(), key=lambda item: order[item[1]]))


def _tensor_number(graph: Graph, by_name: Mapping[str, int], name: str) -> int:
    """Return the number of the tensor of a full or unique short name, or raise `UserError`."""
    if name in by_name:
        return by_name[name]
    matches = [number for full, number in by_name.items() if short_name(full) == name]
    if len(matches) == 1:
        return matches[0]
    if len(matches) > 1:
        raise UserError(
            f"{name!r} is the beginning of the names of {len(matches)} tensors",
            hint=f"give a full name, such as {graph.tensors[matches[0]].name!r}",
        )
    if name in {tensor.name for tensor in graph.tensors.values()}:
        raise UserError(
            f"no operator makes tensor {name!r}: it is a constant or a variable",
            hint="outputs='all' returns every tensor that an operator makes",
        )
    near = did_you_mean(name, [*by_name, *map(short_name, by_name)])
    inside = any(node.op is Op.REFERENCE for node in graph.nodes)
    known = "tensors inside operators that an interpreter runs together have no names here"
    raise UserError(
        f"{graph.name} has no tensor {name!r}",
        hint=near or (known if inside else "see the names of operators with: matloom explain NET"),
    )


def kernels_are_exact(program: Program) -> bool:
    """Return whether the kernels compute intermediate tensors exactly as the program does.

    They do not if the program was compiled with a `precision`: where a tensor is rounded then
    depends on the operators that read it. Returns False for a program that was read from a file.
    """
    return program.origin is not None and program.origin.graph is program.origin.source


def compute_tensors(
    program: Program, numbers: Mapping[str, int], values: Mapping[str, Array]
) -> dict[str, Array]:
    """Compute tensors of a call with the operators' kernels, and return them by name.

    Parameters
    ----------
    numbers:
        Tensor number in the graph of each wanted tensor, by the name to return it under.
    values:
        Tensors of the call by their names in the program: inputs, initial variables, and everything
        passed between its steps. Operators of a stateful interpreter therefore do not run again.
    """
    origin = program.origin
    assert origin is not None
    definition = Definition(origin.graph, program.config.float_rows)
    definition.reset(
        {origin.numbers[name]: array for name, array in values.items() if name in origin.numbers}
    )
    tensors = origin.graph.tensors
    return {
        name: to_declared_shape(definition.value(number), tensors[number].shape)
        for name, number in numbers.items()
    }


def pick_tensors(
    wanted: Mapping[str, int],
    program: Program,
    inputs: Mapping[str, Array],
    results: Mapping[str, Array],
) -> dict[str, Array]:
    """Return tensors, by name, from the inputs and outputs of a run.

    `wanted` maps names to tensor numbers, which must all be inputs or outputs of the network;
    `inputs` and `results` map the program's names to arrays.
    """
    assert program.origin is not None
    graph = program.origin.source
    found = {}
    for numbers, infos, arrays in (
        (graph.inputs, program.inputs, inputs),
        (graph.outputs, program.outputs, results),
    ):
        for number, info in zip(numbers, infos, strict=True):
            found[number] = np.asarray(arrays[info.name])
    return {name: found[number] for name, number in wanted.items()}
