"""Writes bundles: one file with a program, and the part of the model that each step computes.

The file is little-endian words: a header, a record for each part, for ONNX the names of values, and
the Program file at a multiple of 64 bytes. `firmware/plugins/bundle.c` reads it.

========== ================================================================================
Header     magic ``MLBUNDLE`` (two words), CRC-32 of all that follows it, version, bytes of the
           file, runtime, operators of the model, parts, offset and bytes of the program
Record     step, checksum, counts of operators, inputs and outputs; then the operators' numbers in
           the model; then for each input and output its number in the model and in the program,
           the model's axis for each of the program's axes (four bits each, from the lowest), and
           the number to add to a byte of the model to get the program's
Names      ONNX only: the names of values, each followed by a zero byte. The number of a value is
           the offset of its name in the file; that of an operator is that of its first output
========== ================================================================================

The plug-in computes the checksum of a part, too, from what the runtime has in memory: operators,
wiring, parameters, types, shapes, quantisation and constants.
"""

import struct
import zlib
from collections.abc import Sequence
from enum import IntEnum

from matloom.plugins.parts import EnginePart
from matloom.program import Program

_MAGIC, _VERSION, _ALIGNMENT, _HEADER = b"MLBUNDLE", 2, 64, 40


class Runtime(IntEnum):
    """Runtime that a bundle is made for, which numbers the model's operators and values."""

    LITERT = 1
    ONNXRUNTIME = 2


def bundle(
    program: Program,
    runtime: Runtime,
    operators: int,
    parts: Sequence[tuple[EnginePart, int]],
    names: Sequence[str] = (),
) -> bytes:
    """Return the bytes of a bundle.

    Parameters
    ----------
    operators:
        Number of operators in the model.
    parts:
        Pairs of a part and its checksum.
    names:
        Names of the model's values, by their number in the parts; empty if the runtime identifies
        values by number.

    Raises
    ------
    ProgramError
        The program contradicts itself.
    """
    size = sum(len(_encode_part(part, checksum, None)) for part, checksum in parts)
    texts, places = b"", list[int]()
    for name in names:
        places.append(_HEADER + size + len(texts))
        texts += name.encode() + b"\0"
    records = b"".join(_encode_part(part, checksum, places or None) for part, checksum in parts)
    compiled = program.to_bytes()
    # A zero byte ends the last name.
    start = -(-(_HEADER + size + len(texts) + 1) // _ALIGNMENT) * _ALIGNMENT
    total = start + len(compiled)
    header = _pack_words(_VERSION, total, runtime, operators, len(parts), start, len(compiled))
    covered = header + (records + texts).ljust(start - _HEADER, b"\0") + compiled
    return _MAGIC + _pack_words(zlib.crc32(covered)) + covered


def _pack_words(*values: int) -> bytes:
    """Return integers as little-endian words of 32 bits."""
    return struct.pack(f"<{len(values)}I", *values)


def _encode_part(part: EnginePart, checksum: int, name_offsets: Sequence[int] | None) -> bytes:
    """Return the bytes of a part's record: its step, checksum, nodes, inputs and outputs.

    `name_offsets` has the offset of each value's name in the file, by the value's number. None
    means that values are identified by their numbers.
    """

    def number(value: int) -> int:
        """Return a value's number, or the offset of its name if the runtime goes by names."""
        return value if name_offsets is None else name_offsets[value]

    counts = (len(part.nodes), len(part.inputs), len(part.outputs))
    crossing = [
        (number(each.model.number), each.program, _encode_axes(each.model.axes), each.model.offset)
        for each in (*part.inputs, *part.outputs)
    ]
    nodes = map(number, part.nodes)
    return _pack_words(
        part.step, checksum, *counts, *nodes, *(each for words in crossing for each in words)
    )


def _encode_axes(order: Sequence[int] | None) -> int:
    """Return the word that encodes an axis order, with four bits for each axis.

    Axes beyond the end of `order` keep their places, and so do all axes for None.
    """
    named = tuple(order or ())
    return sum(axis << 4 * at for at, axis in enumerate([*named, *range(len(named), 8)]))
