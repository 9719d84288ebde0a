"""Rules for steps that the host runs: operators with a kernel or an interpreter, and loops."""

from collections.abc import Mapping

from matloom.arch.program_file import LOOP
from matloom.ir.graph import Op, Tensor
from matloom.ir.operators import LOWERED
from matloom.program.errors import ProgramError
from matloom.program.node import require_valid, step_graph
from matloom.program.records import HostStep

#: Number of leading inputs of a loop without a condition program: the maximum number of iterations,
#: and whether the first takes place.
COUNTS = 2


def programs_of(step: HostStep) -> tuple[str, ...]:
    """Return the names of the constants that hold a loop's body and, if any, its condition."""
    return step.inputs[-2:] if step.attributes["conditional"] else step.inputs[-1:]


def check_host_step(number: int, step: HostStep, tensors: Mapping[str, Tensor]) -> None:
    """Check host step `number`; the model of a REFERENCE step is left to its interpreter.

    Raises
    ------
    ProgramError
        A rule is broken.
    """
    name = f"step {number}"
    if step.operator == LOOP:
        _check_loop(f"{name} (LOOP)", step, tensors)
        return
    graph = step_graph(step, tensors)
    require_valid(name, graph)
    (node,) = graph.nodes
    if node.op is Op.REFERENCE:
        _check_reference(f"{name} (REFERENCE)", step, tensors)
    sides = (" ".join(tensors[item].dtype for item in side) for side in (step.inputs, step.outputs))
    types = " -> ".join(sides)
    if types in LOWERED:
        raise ProgramError(f"{name} ({step.operator}) must have a kernel, and {types} has none")


def _check_reference(name: str, step: HostStep, tensors: Mapping[str, Tensor]) -> None:
    """Check the model file and the attributes of a step that an interpreter runs."""
    content = tensors[step.inputs[-1]] if step.inputs else None
    if content is None or content.data is None or content.dtype != "uint8":
        raise ProgramError(f"{name} must have a model file of uint8 as its last input")
    input_numbers, output_numbers = step.attributes["inputs"], step.attributes["outputs"]
    if step.attributes["positions"] and (len(input_numbers), len(output_numbers)) != (
        len(step.inputs) - 1,
        len(step.outputs),
    ):
        raise ProgramError(
            f"{name} must name its {len(step.inputs) - 1} inputs and {len(step.outputs)} outputs "
            f"in the model file, not {len(input_numbers)} and {len(output_numbers)}"
        )


def _check_loop(name: str, step: HostStep, tensors: Mapping[str, Tensor]) -> None:
    """Check that a loop has its programs, its initial values, and the places of its outputs."""
    if set(step.attributes) != {"carried", "conditional", "results"}:
        raise ProgramError(f"{name} must have its attributes, not {sorted(step.attributes)}")
    carried, results = step.attributes["carried"], step.attributes["results"]
    programs = programs_of(step)
    least = carried + len(programs) + (0 if step.attributes["conditional"] else COUNTS)
    if len(step.inputs) < least:
        raise ProgramError(f"{name} must have {least} inputs or more, not {len(step.inputs)}")
    for item in programs:
        content = tensors[item]
        if content.data is None or content.dtype != "uint8" or content.data.ndim != 1:
            raise ProgramError(f"{name} must have programs of uint8 at the end of its inputs")
    if len(results) != len(step.outputs):
        raise ProgramError(
            f"{name} must have the places of its {len(step.outputs)} outputs, not {len(results)}"
        )
