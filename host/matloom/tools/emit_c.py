"""Emits a Program as C: its file, a buffer for each tensor, and host steps as kernel calls."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from matloom.arch.program_file import LOOP
from matloom.errors import UserError
from matloom.ir.attributes import ONNX_INTERPRETERS, Axis, LstmCell, Reference
from matloom.ir.graph import Graph, Node, Op, Tensor
from matloom.ir.scales import rescale_multiplier, softmax_scale
from matloom.program import HostStep, Program
from matloom.program.node import step_graph, tensors_by_name
from matloom.select.lookup import table_of
from matloom.toolchain.firmware import linked_sources
from matloom.tools.c_names import buffer_names, require_network_name
from matloom.tools.emit_header import declaration, header
from matloom.tools.emit_onnx import emit_onnx
from matloom.tools.emit_preprocessing import preprocessing_declarations, preprocessing_source

__all__ = ["EmitError", "emit_c", "write_c"]

_INTEGERS = ("int8", "uint8", "int16")
_BYTES_A_LINE = 20


class EmitError(UserError):
    """A program has host steps without a kernel in C; the message names the operators."""


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
        raise ValueError(f"a network in C must be written to a file named .c, not {path.name!r}")
    source, header = emit_c(program, require_network_name(path.stem))
    path.write_text(source)
    path.with_suffix(".h").write_text(header)


def emit_c(program: Program, name: str) -> tuple[str, str]:
    """Return source and header of a program whose C names begin with `name`."""
    buffers = buffer_names(program, name)
    calls = _calls(program, buffers)
    made = preprocessing_declarations(program, buffers)
    source = _source(_without_models(program), name, buffers, calls)
    return source, header(program, name, buffers, linked_sources(), made)


def _source(program: Program, name: str, buffers: dict[str, str], calls: list[str]) -> str:
    data, ends = program.to_bytes(), {info.key for info in (*program.inputs, *program.outputs)}
    rows = [data[at : at + _BYTES_A_LINE] for at in range(0, len(data), _BYTES_A_LINE)]
    lines = [f'#include "{name}.h"', "", '#include "matloom_kernels.h"']
    lines += ['#include "matloom_pre.h"', ""] if program.preprocessing else [""]
    lines.append(f"static _Alignas(64) const uint8_t file[{len(data)}] = {{")
    lines += [f"    {','.join(map(str, row))}," for row in rows]
    lines += ["};", "", "/* Tensors, and their buffers by number. */"]
    for info in program.tensors:
        kind = "" if info.key in ends else "static "
        lines.append(f"{kind}_Alignas(16) {declaration(info, buffers[info.key])};")
    lines += [
        f"static void* const tensors[] = {{{', '.join(buffers.values())}}};",
        "static struct matloom_program program;",
        "",
        "static bool host(void* context, const struct matloom_program* of, uint32_t step,",
        "                 void* const* all) {",
        "  (void)context, (void)of, (void)all;",
        "  switch (step) {",
        *calls,
        "    default:",
        "      return false;",
        "  }",
        "}",
        "",
        *preprocessing_source(program, buffers),
        f"enum matloom_result {name}_open(struct matloom_engine* engine,",
        "    const struct matloom_memory* memory) {",
        "  enum matloom_result result = matloom_program_use(&program, file, sizeof file);",
        "  if (result == MATLOOM_OK) result = matloom_attach(engine, &program, memory);",
        "  return result == MATLOOM_OK ? matloom_reset_state(engine, tensors) : result;",
        "}",
        "",
        f"enum matloom_result {name}_run(struct matloom_engine* engine) {{",
        "  return matloom_run(engine, tensors, host, NULL);",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _calls(program: Program, buffers: dict[str, str]) -> list[str]:
    """Return the switch cases of the host steps."""
    tensors = tensors_by_name(program)
    numbers = {constant.name: at for at, constant in enumerate(program.constants)}
    names = {name: f"matloom_program_constant(of, {at}u)" for name, at in numbers.items()}
    names.update(buffers)
    output_keys = {info.key for info in program.outputs} & set(numbers)
    if output_keys:
        raise EmitError(
            f"a network in C must compute its outputs, and {', '.join(output_keys)} is a constant"
        )
    lines, missing = [], []
    for at, step in enumerate(program.steps):
        if isinstance(step, HostStep) and step.operator == LOOP:
            missing.append("a loop whose turns an input decides")
        elif isinstance(step, HostStep) and _in_onnx(step):
            (file,) = (each for each in program.constants if each.name == step.inputs[-1])
            content = program.host_data[file.offset :][: file.shape[0]]
            ends = [[names[key] for key in side] for side in (step.inputs[:-1], step.outputs)]
            calls, without = emit_onnx(content, step.attributes, ends)
            missing += without
            lines += [f"    case {at}: {{", *(f"      {call}" for call in calls)]
            lines += ["      return true;", "    }"]
        elif isinstance(step, HostStep):
            graph = step_graph(step, tensors)
            call = _call(
                graph, graph.nodes[0], [names[key] for key in (*step.outputs, *step.inputs)]
            )
            if call is None:
                missing.append(_described(graph, graph.nodes[0]))
            lines += [f"    case {at}:", f"      {call}", "      return true;"]
    if missing:
        raise EmitError(
            "a network in C must have a kernel for each step of the processor, and there is none "
            f"for {', '.join(dict.fromkeys(missing))}",
            hint="choose an engine that runs them, or quantise the network to int8: matloom "
            "explain says why an operator is left to the processor",
        )
    return lines


def _without_models(program: Program) -> Program:
    """Return a program without the ONNX file at the end of its constants: kernels replace it."""
    files = {
        step.inputs[-1] for step in program.steps if isinstance(step, HostStep) and _in_onnx(step)
    }
    last = max((each for each in program.constants), key=lambda each: each.offset, default=None)
    if last is None or last.name not in files:
        return program
    constants = tuple(
        replace(each, shape=(0,)) if each is last else each for each in program.constants
    )
    return replace(program, constants=constants, host_data=program.host_data[: last.offset])


def _in_onnx(step: HostStep) -> bool:
    """Return whether operators of a step are nodes of an ONNX file."""
    onnx = step.attributes.get("interpreters") == ONNX_INTERPRETERS
    return step.operator == Op.REFERENCE and onnx and bool(step.attributes["positions"])


def _call(graph: Graph, node: Node, places: list[str]) -> str | None:
    """Return the kernel call for a graph with a single node; None if there is no kernel in C.

    `places` are the tensors in C, outputs first.
    """
    emit = _KERNELS.get(node.op)
    arguments = None if emit is None else emit(graph, node)
    if arguments is None:
        return None
    function, rest = arguments
    return f"{function}({', '.join((*places, *rest))});"


def _described(graph: Graph, node: Node) -> str:
    """Return an operator with its input and output types."""
    input_type = graph.tensors[node.inputs[0]].dtype if node.inputs else "nothing"
    return f"{_operator(node)} from {input_type} to {graph.tensors[node.outputs[0]].dtype}"


def _operator(node: Node) -> str:
    """Return the name of an operator; for REFERENCE nodes, the names in the model."""
    opaque = node.op is Op.REFERENCE
    return " and ".join(node.attributes_as(Reference).operators) if opaque else node.op


_Arguments = tuple[str, tuple[str, ...]]


def _dtype(tensor: Tensor) -> str:
    return f"MATLOOM_DTYPE_{tensor.dtype.upper()}"


def _integers(tensor: Tensor) -> str:
    return f"(struct matloom_integers){{{_dtype(tensor)}, {tensor.zero_point}}}"


def _has_one_scale(tensor: Tensor) -> bool:
    return tensor.quantisation is not None and len(tensor.quantisation.scale) == 1


def _elements(tensor: Tensor) -> str:
    return f"{math.prod(tensor.shape)}u"


def _scale(pair: tuple[int, int]) -> str:
    return f"(struct matloom_scale){{{pair[0]}, {pair[1]}}}"


def _softmax(graph: Graph, node: Node) -> _Arguments | None:
    data = graph.tensors[node.inputs[0]]
    if data.dtype != "int8":
        return None
    columns = data.shape[-1]
    rows = math.prod(data.shape) // columns
    multiplier, shift = softmax_scale(graph, node)
    least = max(-math.floor(31 * 2**26 / 2**shift), -(2**31) + 1)
    return "matloom_softmax_int8", (
        f"{rows}u",
        f"{columns}u",
        _scale((multiplier, shift)),
        str(least),
    )


def _copy(graph: Graph, node: Node) -> _Arguments | None:
    return "matloom_copy", (f"{graph.tensors[node.inputs[0]].size_bytes}u",)


def _lookup(graph: Graph, node: Node) -> _Arguments | None:
    """Return a table of the operator's results as a C string, to lie in read-only memory."""
    data, result = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if not {data.dtype, result.dtype} <= {"int8", "uint8"}:
        return None
    table = "".join(f"\\{byte:03o}" for byte in table_of(graph, node).tolist())
    return "matloom_lookup", (f'(const uint8_t*)"{table}"', _elements(data))


def _quantize(graph: Graph, node: Node) -> _Arguments | None:
    data, result = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if result.dtype not in _INTEGERS or not _has_one_scale(result):
        return None
    if data.dtype == "float32":
        return "matloom_quantize", (
            _dtype(result),
            _elements(data),
            f"(float){result.scale.hex()}",
            str(result.zero_point),
        )
    if data.dtype not in _INTEGERS or not _has_one_scale(data):
        return None
    return "matloom_requantize", (
        _integers(result),
        _integers(data),
        _elements(data),
        _scale(rescale_multiplier(data, result)),
    )


def _dequantize(graph: Graph, node: Node) -> _Arguments | None:
    data = graph.tensors[node.inputs[0]]
    if data.dtype not in _INTEGERS or not _has_one_scale(data):
        return None
    scale = data.scale.hex()
    return "matloom_dequantize", (_dtype(data), _elements(data), scale, str(data.zero_point))


def _pick(graph: Graph, node: Node) -> _Arguments | None:
    data, axis = graph.tensors[node.inputs[0]], node.attributes_as(Axis).axis
    largest = "true" if node.op is Op.ARG_MAX else "false"
    outer, inner = math.prod(data.shape[:axis]), math.prod(data.shape[axis + 1 :])
    return "matloom_pick", (
        _dtype(data),
        largest,
        f"{outer}u",
        f"{data.shape[axis]}u",
        f"{inner}u",
    )


def _lstm_cell(graph: Graph, node: Node) -> _Arguments | None:
    attributes = node.attributes_as(LstmCell)
    sums, state = (graph.tensors[node.inputs[at]].shape for at in (0, 2))
    batch, cells = state
    between = [sums[2] * sums[3], sums[3]]
    step, row = between if attributes.axis == 1 else between[::-1]
    zero = graph.tensors[node.outputs[0]].zero_point
    members = f"{batch}u, {cells}u, {attributes.time * step}u, {row}u, {zero}"
    return "matloom_lstm_cell", (f"(struct matloom_lstm){{{members}}}",)


_KERNELS: dict[Op, Callable[[Graph, Node], _Arguments | None]] = {
    Op.SOFTMAX: _softmax,
    Op.RESHAPE: _copy,
    Op.SQUEEZE: _copy,
    Op.EXPAND_DIMS: _copy,
    Op.QUANTIZE: _quantize,
    Op.DEQUANTIZE: _dequantize,
    Op.ARG_MAX: _pick,
    Op.ARG_MIN: _pick,
    Op.LSTM_CELL: _lstm_cell,
    **dict.fromkeys((Op.HARD_SWISH, Op.LEAKY_RELU, Op.LOGISTIC, Op.LOOKUP, Op.TANH), _lookup),
}
