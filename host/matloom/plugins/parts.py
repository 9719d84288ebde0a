"""Finds which operators of a model each step of the engine computes.

The engine may hold a value of the model with its axes in another order, or uint8 as int8. A plug-in
changes the bytes where they cross the border of a part.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from matloom.program import EngineStep, Program


class WiredOperator(Protocol):
    """An operator as the runtime numbers it; `inputs` and `outputs` are numbers of tensors."""

    @property
    def inputs(self) -> Sequence[int]:
        """Tensors that it reads, including constants; -1 for an absent optional one."""

    @property
    def outputs(self) -> Sequence[int]:
        """Tensors that it makes."""


@dataclass(frozen=True, kw_only=True)
class ModelValue:
    """A tensor of the model, as the program holds it.

    Members
    -------
    number:
        The runtime's.
    axes:
        Its axes in the program's order; None for the same order.
    offset:
        Number to add to its bytes, modulo 256.
    """

    number: int
    axes: tuple[int, ...] | None = None
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class CrossingTensor:
    """A tensor that a part reads or writes: its number in the model, and in the program."""

    model: ModelValue
    program: int


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """Wiring of a model, which decides its parts.

    Members
    -------
    operators:
        In the order of the runtime's numbers.
    constants:
        Numbers of constant tensors.
    outputs:
        Numbers of the model's outputs.
    values:
        The model's tensor, if any, for each tensor of the program by its key.
    """

    operators: Sequence[WiredOperator]
    constants: frozenset[int]
    outputs: frozenset[int]
    values: Mapping[str, ModelValue]


@dataclass(frozen=True, kw_only=True)
class EnginePart:
    """Operators that one step of the engine computes.

    Members
    -------
    step:
        Counted among the program's steps of the engine.
    nodes:
        Numbers of operators, ascending.
    inputs, outputs:
        Tensors that cross its border.
    """

    step: int
    nodes: tuple[int, ...]
    inputs: tuple[CrossingTensor, ...]
    outputs: tuple[CrossingTensor, ...]

    def with_nodes(self, nodes: Sequence[int]) -> "EnginePart":
        """Return the part with other numbers for its operators, in the same order."""
        return replace(self, nodes=tuple(nodes))


#: Maximum number of axes that fit a bundle's word.
_MOST_AXES = 8


class _CutError(Exception):
    """A step that does not correspond to a part of the model; the message is the reason."""


def parts_of(program: Program, model: Wiring) -> Iterator[EnginePart | str]:
    """Yield each engine step's part, or the reason why the runtime keeps it.

    Parts share no operator.

    A part consists of the operators between a step's inputs and outputs. Other operators may only
    read the step's outputs, because nothing else exists after a run.
    """
    taken: set[int] = set()
    steps = [step for step in program.steps if isinstance(step, EngineStep)]
    for number, step in enumerate(steps):
        try:
            part = _part(program, model, number, step)
            if taken & set(part.nodes):
                raise _CutError(
                    f"step {number} computes an operator that another step computes, too"
                )
        except _CutError as reason:
            yield str(reason)
            continue
        taken |= set(part.nodes)
        yield part


def _part(program: Program, model: Wiring, number: int, step: EngineStep) -> EnginePart:
    """Return the part of a step; raise `_CutError` if there is none."""
    places = {info.key: place for place, info in enumerate(program.tensors)}
    ends = []
    for bindings in (step.inputs, step.outputs):
        for binding in bindings:
            if binding.name not in model.values or binding.name not in places:
                raise _CutError(f"step {number} passes {binding.name!r} on, which the model lacks")
            if len(binding.shape) > _MOST_AXES:
                raise _CutError(f"step {number} passes on more than {_MOST_AXES} axes")
        ends.append(
            tuple(
                CrossingTensor(model=model.values[item.name], program=places[item.name])
                for item in bindings
            )
        )
    inputs, outputs = ends
    passed = {each.model.number for each in outputs}
    nodes = _operators_between(
        model, {each.model.number for each in inputs}, sorted(passed), number
    )
    _require_closed(model, nodes, passed, number)
    return EnginePart(step=number, nodes=nodes, inputs=inputs, outputs=outputs)


def _operators_between(
    model: Wiring, inputs: set[int], outputs: Sequence[int], number: int
) -> tuple[int, ...]:
    """Return the operators that compute `outputs` from `inputs`."""
    producers = {tensor: at for at, each in enumerate(model.operators) for tensor in each.outputs}
    found: set[int] = set()
    wanted = list(outputs)
    while wanted:
        tensor = wanted.pop()
        if tensor in inputs or tensor in model.constants or tensor < 0:
            continue
        if tensor not in producers:
            raise _CutError(f"step {number} does not read tensor {tensor}, on which it depends")
        if producers[tensor] not in found:
            found.add(producers[tensor])
            wanted += model.operators[producers[tensor]].inputs
    return tuple(sorted(found))


def _require_closed(model: Wiring, nodes: tuple[int, ...], passed: set[int], number: int) -> None:
    """Raise `_CutError` if another operator reads an intermediate tensor of a part."""
    inside = set(nodes)
    hidden = {tensor for at in nodes for tensor in model.operators[at].outputs} - passed
    others = [each.inputs for at, each in enumerate(model.operators) if at not in inside]
    read = {tensor for inputs in (*others, model.outputs) for tensor in inputs}
    for tensor in sorted(hidden & read):
        raise _CutError(f"step {number} keeps tensor {tensor}, which another operator reads")
