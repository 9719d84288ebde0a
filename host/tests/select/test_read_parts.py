"""Slices that only element-wise stages read need no copy; all other slices keep theirs."""

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import Opcode
from matloom.ir.attributes import Arithmetic, Attributes, Slice
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from support.chain import exact_programs
from support.instructions import instructions

REFERENCE = PRESETS["reference"]
SCALE = Quantisation(scale=(0.05,), zero_point=(3,))


def halves(shape, axis, join, *, leaves=False):
    """Return a network that joins both halves of a sum by `join(builder, halves)`."""
    builder = GraphBuilder()
    image = builder.input("image", shape, "int8", SCALE)
    total = builder.add(Op.ADD, [image, image], Arithmetic(), quantisation=SCALE)
    size = tuple(length // (2 if at == axis else 1) for at, length in enumerate(shape))
    parts = []
    for half in range(2):
        begin = tuple(half * size[at] if at == axis else 0 for at in range(len(shape)))
        attributes = Slice(begin=begin, size=size, step=(1,) * len(shape))
        parts.append(builder.add(Op.SLICE, [total], attributes, quantisation=SCALE))
    made = join(builder, parts)
    return builder.graph(made, *(parts[1:] if leaves else ()))


def added(builder, parts):
    """Multiply one part, limited by RELU6, by the other: each stage reads one part."""
    limited = builder.add(Op.RELU6, parts[:1], Attributes(), quantisation=SCALE)
    return builder.add(Op.MUL, [limited, parts[1]], Arithmetic(), quantisation=SCALE)


def both(builder, parts):
    return builder.add(Op.ADD, parts, Arithmetic(), quantisation=SCALE)


def copies(program):
    """Return the number of EXECs, all of which copy."""
    return len(instructions(program, Opcode.EXEC))


@pytest.mark.parametrize("shape", [(1, 2, 9, 7), (2, 35), (1, 1, 1, 160)], ids=str)
def test_parts_are_read_where_they_lie(shape):
    axis = next(at for at, length in enumerate(shape) if length > 1)
    for program in exact_programs(halves(shape, axis, added), REFERENCE, (None, 1, 2, 3)):
        assert copies(program) == 0


@pytest.mark.parametrize(
    ("shape", "axis", "join", "leaves"),
    [
        ((1, 2, 9, 7), 1, both, False),
        ((1, 4, 3, 8), 3, added, False),
        ((1, 2, 9, 7), 1, added, True),
    ],
    ids=["two parts of one tensor in a stage", "not contiguous", "a part that leaves"],
)
def test_other_parts_are_copied(shape, axis, join, leaves):
    graph = halves(shape, axis, join, leaves=leaves)
    for program in exact_programs(graph, REFERENCE, (None, 1)):
        assert copies(program) > 0
