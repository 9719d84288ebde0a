"""Emits a Program as C: program file, a buffer for each tensor, and kernel calls for host steps."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from matloom.arch.program_file import CONSTANT_ALIGNMENT, LOOP
from matloom.errors import UserError
from matloom.ir.attributes import ONNX_INTERPRETERS
from matloom.ir.graph import Op
from matloom.program import HostStep, Program
from matloom.program.host_steps import programs_of
from matloom.program.node import step_graph, tensors_by_name
from matloom.toolchain.firmware import linked_sources
from matloom.tools.c_names import buffer_names, require_network_name
from matloom.tools.emit_header import declaration, header
from matloom.tools.emit_kernels import describe_operator, kernel_call
from matloom.tools.emit_loop import CProgram, emit_loop
from matloom.tools.emit_onnx import emit_onnx
from matloom.tools.emit_preprocessing import preprocessing_declarations, preprocessing_source
from matloom.tools.emit_tflite import emit_tflite
from matloom.tools.emit_values import constant_array

_BYTES_PER_LINE = 20


class EmitError(UserError):
    """Raised for a program that cannot run in C.

    A host step has no kernel, or an output is a constant; the message names operators or outputs.
    """

    hint = "docs/firmware.md lists the operators that have one"


def write_c(program: Program, path: Path) -> None:
    """Write a program to `path`, a ``.c`` file, and its header next to it.

    Raises
    ------
    EmitError
        A host step has no kernel in C.
    ValueError
        The file name is not a valid C identifier.
    """
    if path.suffix != ".c":
        raise UserError(
            f"a network in C must be written to a file named .c, not {path.name!r}",
            hint="write -o NAME.c",
        )
    source, header = emit_c(program, require_network_name(path.stem))
    path.write_text(source)
    path.with_suffix(".h").write_text(header)


def emit_c(program: Program, name: str) -> tuple[str, str]:
    """Return the C source and header of a program, whose C names begin with `name`.

    Raises
    ------
    EmitError
        A host step has no kernel in C, or an output is a constant.
    """
    buffers = buffer_names(program, name)
    part = _c_program(program, "", buffers, itertools.count())
    declarations = preprocessing_declarations(program, buffers)
    loop_programs = [each.program for each in part.loop_programs()]
    source = _c_source(part, name)
    return source, header(program, name, buffers, linked_sources(), declarations, loop_programs)


def _c_program(
    program: Program, name: str, buffers: dict[str, str], numbers: "itertools.count[int]"
) -> CProgram:
    """Return a program and the programs of its loops, named ``inner_<n>`` with n from `numbers`."""
    loops = {}
    for step, programs in program.loops.items():
        names = [f"inner_{next(numbers)}" for _ in programs]
        loops[step] = tuple(
            _c_program(each, own, buffer_names(each, own), numbers)
            for each, own in zip(programs, names, strict=True)
        )
    return CProgram(program=program, name=name, buffers=buffers, loops=loops)


def _c_source(part: CProgram, name: str) -> str:
    """Return the C source of a network: tables, host steps, functions to open and run it."""
    program, loop_programs = part.program, part.loop_programs()
    steps = [_c_host_steps(each) for each in (*loop_programs, part)]
    missing = [operator for each in steps for operator in each.missing]
    if missing:
        raise EmitError(
            "a network in C must have a kernel for each step of the processor, and there is none "
            f"for {', '.join(dict.fromkeys(missing))}",
            hint="choose an engine that runs them, or quantise the network to int8: matloom "
            "explain says why an operator is left to the processor",
        )
    lines = [f'#include "{name}.h"', "", '#include "matloom_kernels.h"']
    lines += ['#include "matloom_pre.h"', ""] if program.preprocessing else [""]
    for each, calls in zip((*loop_programs, part), steps, strict=True):
        lines += _definitions(each, calls)
    attach = "matloom_attach(engine, &program, memory)"
    copy: list[str] = []
    if loop_programs:
        attach = "matloom_attach(engine, &program, &rest)"
        copy = ["  struct matloom_memory rest = *memory;"]
    opens = [f"matloom_inner_open(engine, &{each.name}, &rest)" for each in loop_programs]
    lines += [
        *preprocessing_source(program, dict(part.buffers)),
        f"enum matloom_result {name}_open(struct matloom_engine* engine,",
        "    const struct matloom_memory* memory) {",
        *copy,
        "  enum matloom_result result = matloom_program_use(&program, file, sizeof file);",
        *(f"  if (result == MATLOOM_OK) result = {each};" for each in opens),
        f"  if (result == MATLOOM_OK) result = {attach};",
        "  return result == MATLOOM_OK ? matloom_reset_state(engine, tensors) : result;",
        "}",
        "",
        f"enum matloom_result {name}_run(struct matloom_engine* engine) {{",
        "  return matloom_run(engine, tensors, host, engine);",
        "}",
    ]
    return "\n".join(lines) + "\n"


class _HostSteps(NamedTuple):
    """C code of a program's host steps, the operators that the processor runs.

    `calls` are the lines of cases of a switch, `loops` the lines that define loops, and `missing`
    the operators without a kernel.
    """

    calls: list[str]
    loops: list[str]
    missing: list[str]


def _definitions(part: CProgram, steps: _HostSteps) -> list[str]:
    """Return the C lines that define a program's file, buffers and host steps."""
    program, end = part.program, f"_{part.name}" if part.name else ""
    data = _without_files(program).to_bytes()
    rows = [data[at : at + _BYTES_PER_LINE] for at in range(0, len(data), _BYTES_PER_LINE)]
    lines = [f"static _Alignas(64) const uint8_t file{end}[{len(data)}] = {{"]
    lines += [f"    {','.join(map(str, row))}," for row in rows]
    lines += ["};", "", "/* Tensors, and their buffers by number. */"]
    public = {info.key for info in (*program.inputs, *program.outputs)} if not part.name else {}
    for info in program.tensors:
        kind = "" if info.key in public else "static "
        lines.append(f"{kind}_Alignas(16) {declaration(info, part.buffers[info.key])};")
    lines += [
        f"static void* const tensors{end}[] = {{{', '.join(part.buffers.values())}}};",
        *([] if part.name else ["static struct matloom_program program;"]),
        "",
        *steps.loops,
        f"static bool host{end}(void* context, const struct matloom_program* of, uint32_t step,",
        f"                 {' ' * len(end)}void* const* all) {{",
        "  (void)context, (void)of, (void)all;",
        "  switch (step) {",
        *steps.calls,
        "    default:",
        "      return false;",
        "  }",
        "}",
        "",
    ]
    if part.name:
        values = f"file{end}, sizeof file{end}, tensors{end}, host{end}"
        fields = "{0}, {0}"
        lines += [f"static struct matloom_inner {part.name} = {{{values}, {fields}}};", ""]
    return lines


def _c_host_steps(part: CProgram) -> _HostSteps:
    """Return the host steps of a program in C, and the operators that have no kernel."""
    program, tensors = part.program, tensors_by_name(part.program)
    numbers = {constant.name: at for at, constant in enumerate(program.constants)}
    places = {name: f"matloom_program_constant(of, {at}u)" for name, at in numbers.items()}
    output_keys = {info.key for info in program.outputs} & set(numbers)
    if output_keys:
        raise EmitError(
            f"a network in C must compute its outputs, and {', '.join(output_keys)} is a constant",
            hint="remove the constant from the outputs of the network",
        )
    names, made = {**places, **part.buffers}, _HostSteps([], [], [])
    for at, step in enumerate(program.steps):
        if not isinstance(step, HostStep):
            continue
        if step.operator == LOOP:
            name = f"loop{'_' * bool(part.name)}{part.name}_{at}"
            made.loops.extend(_loop_lines(part, name, step, part.loops[at]))
            calls = [f"return matloom_loop(context, &{name});"]
        elif _in_file(step):
            calls, without = _from_file(program, step, names)
            made.missing.extend(without)
            calls.append("return true;")
        else:
            graph = step_graph(step, tensors)
            ends = [names[key] for key in (*step.outputs, *step.inputs)]
            call = kernel_call(graph, graph.nodes[0], ends)
            if call is None:
                made.missing.append(describe_operator(graph, graph.nodes[0]))
            calls = [f"{call}", "return true;"]
        made.calls.extend([f"    case {at}: {{", *(f"      {each}" for each in calls), "    }"])
    return made


def _loop_lines(part: CProgram, name: str, step: HostStep, parts: Sequence[CProgram]) -> list[str]:
    """Return the C lines that define a loop, and arrays for its constant operands."""
    tensors, lines = tensors_by_name(part.program), []
    operands: list[str] = []
    for key in step.inputs[: -len(parts)]:
        data = tensors[key].data
        operands.append(part.buffers[key] if data is None else f"{name}_{len(operands)}")
        if data is not None:
            lines.append(constant_array(operands[-1], data))
    infos = {info.key: info for info in part.program.tensors}
    ends = part.places(infos[key] for key in step.outputs)
    return [*lines, *emit_loop(name, step, parts, operands, ends)]


def _from_file(
    program: Program, step: HostStep, names: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Return the C lines of a step that runs operators of a model file, and those without kernel.

    `names` has the C name of each tensor's buffer, by key. Missing operators have no kernel in C.
    """
    (file,) = (each for each in program.constants if each.name == step.inputs[-1])
    content = program.host_data[file.offset :][: file.shape[0]]
    onnx = step.attributes["interpreters"] == ONNX_INTERPRETERS
    ends = [[names[key] for key in side] for side in (step.inputs[:-1], step.outputs)]
    return (emit_onnx if onnx else emit_tflite)(content, step.attributes, ends)


def _without_files(program: Program) -> Program:
    """Return a copy of a program without the model files and the loops' programs in its constants.

    The generated C replaces these.
    """
    names: set[str] = set()
    for step in program.steps:
        if isinstance(step, HostStep) and step.operator == LOOP:
            names.update(programs_of(step))
        elif isinstance(step, HostStep) and _in_file(step):
            names.add(step.inputs[-1])
    dropped = {each.offset: each.shape[0] for each in program.constants if each.name in names}

    def new_offset(offset: int) -> int:
        """Return the new offset of a constant, after the removal of dropped data in front of it."""
        lengths = (size + -size % CONSTANT_ALIGNMENT for at, size in dropped.items() if at < offset)
        return offset - sum(lengths)

    data = bytearray(program.host_data)
    for at, size in sorted(dropped.items(), reverse=True):
        del data[at : at + size + -size % CONSTANT_ALIGNMENT]
    constants = tuple(
        replace(
            each, offset=new_offset(each.offset), shape=(0,) if each.name in names else each.shape
        )
        for each in program.constants
    )
    variables = tuple(replace(each, initial=new_offset(each.initial)) for each in program.variables)
    return replace(
        program, constants=constants, variables=variables, host_data=bytes(data), origin=None
    )


def _in_file(step: HostStep) -> bool:
    """Return whether a step runs only some operators of the model file that it carries."""
    return step.operator == Op.REFERENCE and bool(step.attributes["positions"])
