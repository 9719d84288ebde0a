"""Finds which operators of a model each step of the engine computes.

The engine may hold a value of the model with its axes in another order, or uint8 as int8. A plug-in
changes the bytes where they cross the border of a part.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from matloom.program import EngineStep, Program

__all__ = ["CrossingTensor", "EnginePart", "ModelValue", "WiredOperator", "Wiring", "parts_of"]


class WiredOperator(Protocol):
    """An operator as the runtime numbers it; `inputs` and `outputs` are numbers of tensors."""

    @property
    def inputs(self) -> Sequence[int]:
        """Tensors that it reads, constants too; -1 where an optional one is absent."""

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
        Its axes in the order in which the program has them; None for the same order.
    offset:
        What to add to its bytes, modulo 256.
    """

    number: int
    axes: tuple[int, ...] | None = None
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class CrossingTensor:
    """A tensor that crosses a part's border: the model's, and its number in the program."""

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
        The model's tensor for each of the program's by its key, where there is one.
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


#: Axes that a bundle's word has place for.
_MOST_AXES = 8


class _CutError(Exception):
    """A step that is no whole part of the model, and why."""


def parts_of(program: Program, model: Wiring) -> Iterator[EnginePart | str]:
    """Yield for each step of the engine its part, or why it has none: the runtime keeps that.

    Parts share no operator.

    A part is what lies between a step's outputs and its inputs. All that other operators read of
    it must be among the step's outputs, as nothing else is there after a run.
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
    """Return the part of a step; raise `_CutError` where it is none."""
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
    nodes = _between(model, {each.model.number for each in inputs}, sorted(passed), number)
    _require_closed(model, nodes, passed, number)
    return EnginePart(step=number, nodes=nodes, inputs=inputs, outputs=outputs)


def _between(model: Wiring, given: set[int], made: Sequence[int], number: int) -> tuple[int, ...]:
    """Return the operators between tensors that are given and those that are made."""
    makers = {tensor: at for at, each in enumerate(model.operators) for tensor in each.outputs}
    found: set[int] = set()
    wanted = list(made)
    while wanted:
        tensor = wanted.pop()
        if tensor in given or tensor in model.constants or tensor < 0:
            continue
        if tensor not in makers:
            raise _CutError(f"step {number} does not read tensor {tensor}, on which it depends")
        if makers[tensor] not in found:
            found.add(makers[tensor])
            wanted += model.operators[makers[tensor]].inputs
    return tuple(sorted(found))


def _require_closed(model: Wiring, nodes: tuple[int, ...], passed: set[int], number: int) -> None:
    """Raise `_CutError` where something else reads what a part makes and does not pass on."""
    inside = set(nodes)
    hidden = {tensor for at in nodes for tensor in model.operators[at].outputs} - passed
    others = [each.inputs for at, each in enumerate(model.operators) if at not in inside]
    read = {tensor for inputs in (*others, model.outputs) for tensor in inputs}
    for tensor in sorted(hidden & read):
        raise _CutError(f"step {number} keeps tensor {tensor}, which another operator reads")
