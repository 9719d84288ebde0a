"""Finds which operators of a model each step of the engine computes.

The engine may hold a value of the model with its axes in another order, or uint8 as int8. A plug-in
converts the inputs and outputs of a part accordingly.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from matloom.program import EngineStep, Program


class WiredOperator(Protocol):
    """An operator of the model, whose tensors have the runtime's numbers."""

    @property
    def inputs(self) -> Sequence[int]:
        """Numbers of the tensors that it reads, including constants; -1 if one is absent."""

    @property
    def outputs(self) -> Sequence[int]:
        """Numbers of the tensors that it computes."""


@dataclass(frozen=True, kw_only=True)
class ModelValue:
    """A tensor of the model, as the program holds it.

    Members
    -------
    number:
        Number of the tensor in the runtime.
    axes:
        Axes of the model's tensor in the program's order; None if the order is the same.
    offset:
        Number to add to each byte of the model's tensor to get the program's, modulo 256.
    """

    number: int
    axes: tuple[int, ...] | None = None
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class CrossingTensor:
    """Tensor that a part reads from or returns to the runtime.

    `program` is its index in `Program.tensors`.
    """

    model: ModelValue
    program: int


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """Operators of a model and the tensors that connect them.

    Members
    -------
    operators:
        All operators of the model; the runtime's number of an operator is its index here.
    constants:
        Numbers of constant tensors.
    outputs:
        Numbers of the model's outputs.
    values:
        Tensors of the model by the key of the same tensor in the program; a tensor that only the
        program has is missing.
    """

    operators: Sequence[WiredOperator]
    constants: frozenset[int]
    outputs: frozenset[int]
    values: Mapping[str, ModelValue]


@dataclass(frozen=True, kw_only=True)
class EnginePart:
    """Operators of a model that one engine step (command buffer) of the program computes.

    Members
    -------
    step:
        Index of the step among the program's engine steps.
    nodes:
        Numbers of the operators in the runtime, in execution order.
    inputs, outputs:
        Tensors that the part reads from and returns to the runtime.
    """

    step: int
    nodes: tuple[int, ...]
    inputs: tuple[CrossingTensor, ...]
    outputs: tuple[CrossingTensor, ...]

    def with_nodes(self, nodes: Sequence[int]) -> "EnginePart":
        """Return a copy of the part with these numbers for its operators, in the same order."""
        return replace(self, nodes=tuple(nodes))


#: Maximum number of axes of a tensor: a bundle's word has room for the order of so many.
_MOST_AXES = 8


class _CutError(Exception):
    """Raised if a step does not correspond to a part of the model; the message says why."""


def parts_of(program: Program, model: Wiring) -> Iterator[EnginePart | str]:
    """Yield the part of each engine step, or the reason why its operators stay with the runtime.

    A part consists of the operators between a step's inputs and outputs. No operator is in two
    parts. Other operators may only read the step's outputs, because its intermediate tensors do not
    exist after a run.
    """
    taken: set[int] = set()
    steps = [step for step in program.steps if isinstance(step, EngineStep)]
    for number, step in enumerate(steps):
        try:
            part = _part_of_step(program, model, number, step)
            if taken & set(part.nodes):
                raise _CutError(
                    f"step {number} computes an operator that another step computes, too"
                )
        except _CutError as reason:
            yield str(reason)
            continue
        taken |= set(part.nodes)
        yield part


def _part_of_step(program: Program, model: Wiring, number: int, step: EngineStep) -> EnginePart:
    """Return the part that a step computes; raise `_CutError` if it does not match the model.

    `number` is the index of the step among the engine steps.
    """
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
    """Return the indices, ascending, of the operators that compute `outputs` from `inputs`.

    `number` is the index of the engine step, for messages. Raises `_CutError` if the operators also
    depend on a tensor that is neither constant nor in `inputs`.
    """
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
    """Raise `_CutError` if an operator outside of a part reads one of its intermediate tensors.

    `nodes` are the part's operators, and `passed` the tensors that it returns. `number` is the
    index of the engine step, for messages.
    """
    inside = set(nodes)
    hidden = {tensor for at in nodes for tensor in model.operators[at].outputs} - passed
    others = [each.inputs for at, each in enumerate(model.operators) if at not in inside]
    read = {tensor for inputs in (*others, model.outputs) for tensor in inputs}
    for tensor in sorted(hidden & read):
        raise _CutError(f"step {number} keeps tensor {tensor}, which another operator reads")
