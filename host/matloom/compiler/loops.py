"""Compiles the bodies and conditions of loops whose number of iterations an input decides."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from matloom import frontend
from matloom.arch.program_file import CONSTANT_ALIGNMENT, LOOP
from matloom.frontend.loops import LoopParts
from matloom.ir.graph import Array, Graph
from matloom.program import HostConstant, HostStep, Program

#: Operators of a host step that is a loop.
_LOOPS = (("Loop",), ("WHILE",))


def with_loops(
    program: Program, compile_graph: Callable[[Graph], Program]
) -> tuple[Program, dict[int, tuple[Program, ...]]]:
    """Compile the loops of a program for the engine; return the new program and those of its loops.

    The latter are, by index of step, the program of the body and, if the loop has one, that of the
    condition. A loop in whose body the engine would compute no layers stays a step of the
    interpreter. The host decides after each iteration whether another follows. Values that only the
    engine needs stay in external memory between iterations.
    """
    loops: dict[int, tuple[Program, ...]] = {}
    for number, step in enumerate(program.steps):
        if isinstance(step, HostStep) and step.attributes.get("operators") in _LOOPS:
            parts = _read_loop_parts(program, step)
            body = None if parts is None else compile_graph(parts.body_with_state())
            if parts is None or body is None or not body.engine_macs:
                continue
            condition = () if parts.condition is None else (compile_graph(parts.condition),)
            loops[number] = (body, *condition)
            program = _with_loop(program, number, parts, loops[number])
    return program, loops


def _read_loop_parts(program: Program, step: HostStep) -> LoopParts | None:
    """Return the loop in a host step, read from its part of the model file; None if it has none."""
    (file,) = (each for each in program.constants if each.name == step.inputs[-1])
    content = program.host_data[file.offset :][: file.shape[0]]
    return frontend.loop(content, step.attributes["positions"])


def _with_loop(
    program: Program, number: int, parts: LoopParts, inside: Sequence[Program]
) -> Program:
    """Return a program whose interpreter step `number` is replaced by a loop of programs.

    `number` is the index of the step; `inside` has the programs of the body and the condition.
    """
    step, names = program.steps[number], []
    assert isinstance(step, HostStep)
    for value in (*parts.operands, *(np.frombuffer(p.to_bytes(), np.uint8) for p in inside)):
        if isinstance(value, int):
            names.append(step.inputs[step.attributes["inputs"].index(value)])
        else:
            program = _with_constant(program, f"loop {number} operand {len(names)}", value)
            names.append(program.constants[-1].name)
    loop = HostStep(
        operator=LOOP,
        inputs=tuple(names),
        outputs=step.outputs,
        attributes={
            "carried": parts.carried,
            "conditional": parts.condition is not None,
            "results": tuple(map(parts.results.index, step.attributes["outputs"])),
        },
        reason=_host_reason(inside[0]),
    )
    return replace(
        program,
        steps=(*program.steps[:number], loop, *program.steps[number + 1 :]),
        layers=tuple(
            replace(layer, reason=loop.reason)
            if layer.name == step.outputs[0] and (layer.operator,) in _LOOPS
            else layer
            for layer in program.layers
        ),
    )


def _with_constant(program: Program, name: str, data: Array) -> Program:
    """Return a program with one more constant for host steps, at the end of the list."""
    taken = {*(each.name for each in program.constants), *(info.key for info in program.tensors)}
    while name in taken:
        name += "'"
    held = program.host_data + bytes(-len(program.host_data) % CONSTANT_ALIGNMENT)
    constant = HostConstant(name=name, offset=len(held), shape=data.shape, dtype=data.dtype.name)
    return replace(
        program, constants=(*program.constants, constant), host_data=held + data.tobytes()
    )


def _host_reason(body: Program) -> str:
    """Return the sentence that says why the host counts the iterations of a loop."""
    operators = sum(layer.where == "engine" for layer in body.layers)
    return (
        "an input decides how many iterations there are: the host counts, and the engine "
        f"runs {operators} of {len(body.layers)} operators of each in about "
        f"{body.predicted_cycles:,} cycles"
    )
