"""Emits the C header of a network: buffers, quantisation, and two functions."""

import math
import re
from collections.abc import Sequence

import numpy as np

from matloom.arch.isa import Region
from matloom.errors import UserError
from matloom.program import Program
from matloom.program.records import TensorInfo
from matloom.tools.emit_values import C_TYPES

#: Alignment in bytes of the regions of memory that the driver allocates.
_ALIGNMENT = 64

_ABOUT = """\
/* Network {network}, for the engine's configuration {digest:#010x}.
 * Written by matloom from the model file: do not edit.
 *
 * Link: {name}.c, and of the driver
 *   {sources}
 * with its headers' folder on the include path. Without a C library, also link support/memory.c.
 */"""

_NUMBERS = """\
/* Numbers of quantised tensors: real = X_SCALE * (number - X_ZERO_POINT), X being {X} and so on.
 * matloom_kernels.h converts real numbers, of type float, for int8, uint8 and int16:
 *   matloom_quantize(x, reals, X_DTYPE, X_ELEMENTS, X_SCALE, X_ZERO_POINT);
 *   matloom_dequantize(reals, x, X_DTYPE, X_ELEMENTS, X_SCALE, X_ZERO_POINT);
 */"""

_FUNCTIONS = """\
/* Attaches the network to an engine that was probed, with memory that both reach, at a multiple of
 * 64: {NAME}_MEMORY_BYTES at least. Variables get their first values. */
enum matloom_result {name}_open(struct matloom_engine* engine,
                                const struct matloom_memory* memory);

/* Runs the network once: inputs and outputs as above. */
enum matloom_result {name}_run(struct matloom_engine* engine);
"""


def declaration(info: TensorInfo, buffer: str) -> str:
    """Return the declaration of a tensor's buffer, with at least one element, as C requires.

    Raises
    ------
    ValueError
        `C_TYPES` has no type for the elements.
    """
    if info.dtype not in C_TYPES:
        raise UserError(
            f"tensors of a network in C must be of {', '.join(C_TYPES)}, not {info.dtype}: "
            f"{info.name!r}",
            hint="convert the tensor with a QUANTIZE or CAST in the network",
        )
    return f"{C_TYPES[info.dtype]} {buffer}[{max(1, math.prod(info.shape))}]"


def header(
    program: Program,
    name: str,
    buffers: dict[str, str],
    sources: tuple[str, ...],
    preprocessing: list[str],
    loop_programs: Sequence[Program],
) -> str:
    """Return the C header of a network, in which all names begin with `name`.

    Parameters
    ----------
    buffers
        Names of the tensors' buffers, by key.
    sources
        Driver files that a firmware must link.
    preprocessing
        Declarations of the functions that turn raw data into inputs.
    loop_programs
        Programs of loops, whose memory is included.
    """
    guard, listed = f"{name.upper()}_H", "\n *   ".join(_wrapped_lines(sources))
    about = _ABOUT.format(
        network=comment(program.name), digest=program.config.digest, name=name, sources=listed
    )
    parts = [about, f'#ifndef {guard}\n#define {guard}\n\n#include "matloom_kernels.h"']
    parts.append('#ifdef __cplusplus\nextern "C" {\n#endif')
    parts.append(
        f"/* Bytes of memory, for processor and engine, that {name}_open takes. */\n"
        f"#define {name.upper()}_MEMORY_BYTES {sum(map(_memory_bytes, (program, *loop_programs)))}u"
    )
    parts.append(_conversion_comment(program, buffers))
    roles: dict[str, list[str]] = {}
    for kind, infos in (("input", program.inputs), ("output", program.outputs)):
        for place, info in enumerate(infos):
            roles.setdefault(buffers[info.key], []).append(f"{kind} {place}")
    ends = {buffers[info.key]: info for info in (*program.inputs, *program.outputs)}
    parts += [
        _tensor_declaration(" and ".join(roles[name]), info, name) for name, info in ends.items()
    ]
    parts += preprocessing
    parts.append(_FUNCTIONS.format(name=name, NAME=name.upper()))
    return "\n\n".join(filter(None, parts)) + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"


def comment(text: str) -> str:
    """Return a text of printable ASCII that is safe inside a C comment."""
    return re.sub(r"[^ -~]|(?<=\*)/|(?<=/)\*|(?<=\?)\?|\\", "?", text)


def _wrapped_lines(words: tuple[str, ...], width: int = 90) -> list[str]:
    """Return words joined to lines of limited width, each after a space."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _memory_bytes(program: Program) -> int:
    """Return the size of the external memory that a program needs, in bytes.

    It is what `matloom_program_memory` returns in C for a program that is copied to memory.
    """
    sizes = (program.region_bytes.get(region, 0) for region in Region)
    return sum(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)


def _tensor_declaration(role: str, info: TensorInfo, buffer: str) -> str:
    """Return the declaration of a tensor's buffer, with a comment and the tensor's macros."""
    shape = " x ".join(map(str, info.shape)) or "one number"
    declared, elements = declaration(info, buffer), math.prod(info.shape)
    macros: dict[str, object] = {
        "NAME": _c_string(info.name),
        "DTYPE": f"MATLOOM_DTYPE_{info.dtype.upper()}",
        "AXES": len(info.shape),
        "SHAPE": f"{{{', '.join(map(str, info.shape)) or '1'}}}",
        "ELEMENTS": f"{elements}u",
        "BYTES": f"{elements * np.dtype(info.dtype).itemsize}u",
    }
    if info.quantised is not None:
        macros["SCALE"] = _c_float(info.quantised.scale)
        macros["ZERO_POINT"] = f"({info.quantised.zero_point})"
    lines = [f"/* {role.capitalize()}, {comment(info.name)}: {info.dtype}, {shape}. */"]
    lines.append(f"extern {declared};")
    lines += [f"#define {buffer.upper()}_{key} {value}" for key, value in macros.items()]
    return "\n".join(lines)


def _c_string(text: str) -> str:
    """Return a text as a C string literal in UTF-8, with escapes where necessary."""
    plain = set(range(0x20, 0x7F)) - set(b'"\\\\?')
    return (
        '"'
        + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode(errors="replace"))
        + '"'
    )


def _c_float(value: float) -> str:
    """Return a scale as a C float constant; nine digits represent a float32 exactly."""
    text = f"{value:.9g}"
    return f"{text}f" if re.search(r"[.e]", text) else f"{text}.0f"


def _conversion_comment(program: Program, buffers: dict[str, str]) -> str:
    """Return a C comment on converting real numbers; empty if no input or output is quantised."""
    for info in (*program.inputs, *program.outputs):
        if info.quantised:
            return _NUMBERS.format(X=buffers[info.key].upper())
    return ""
