"""LOADs interleave the planes of input images; layers after them equal the interpreter."""

import itertools
import random

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.arch.isa import Opcode
from matloom.ir.attributes import Activation, Conv2D, Padding, Transpose
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.select.layout.base import Transfer
from matloom.select.layout.image_planes import ImagePlanes
from support.chain import exact_programs, executes
from support.instructions import instructions

SCALE = Quantisation(scale=(0.05,), zero_point=(-9,))


def layout_of(planes, rows, width):
    return ImagePlanes(
        source="image",
        source_rows=planes * rows,
        source_row_bytes=width,
        first_row=0,
        row_step=1,
        channels=1 << (planes - 1).bit_length(),
        rows=rows,
        fill_value=0,
    )


def written(fields, source):
    """Return the bytes that a LOAD writes, by address."""
    found = {}
    loops = (range(fields[name]) for name in ("planes", "rows", "row_bytes"))
    for plane, row, byte in itertools.product(*loops):
        at = fields["spad_addr"] + plane * fields["spad_plane_step"]
        offset = fields["dram_offset"] + plane * fields["dram_plane_step"]
        offset += row * fields["dram_row_step"] + byte
        found[at + row * fields["spad_row_step"] + (byte << fields["spread"])] = source[offset]
    return found


@pytest.mark.parametrize("planes", [2, 3, 4, 5])
def test_loads_bring_the_bytes_of_all_planes(planes, seed):
    chance = random.Random(seed + planes)
    for _number in range(40):
        rows, width = chance.randint(1, 9), chance.randint(1, 9)
        layout = layout_of(planes, rows, width)
        image = np.frombuffer(chance.randbytes(planes * rows * width), np.uint8)
        wide = np.full((rows, width, layout.channels), -1)
        wide[..., :planes] = image.reshape(planes, rows, width).transpose(1, 2, 0)
        start = chance.randrange(layout.size)
        size, count = chance.randint(1, layout.size - start), 1
        if chance.random() < 0.5:
            first, left = chance.randrange(rows), chance.randrange(layout.row_bytes)
            start, size = (
                first * layout.row_bytes + left,
                chance.randint(1, layout.row_bytes - left),
            )
            count = chance.randint(1, rows - first)
        transfer = Transfer(
            start=start, size=size, runs=count, step=layout.row_bytes, address=100, pitch=size
        )
        found = {}
        for fields in layout.loads(transfer):
            found |= written(fields, image)
        expected = {
            100 + run * size + byte: int(value)
            for run, byte in itertools.product(range(count), range(size))
            if (value := wide.reshape(-1)[start + run * layout.row_bytes + byte]) >= 0
        }
        assert found == expected


def network(planes, kernel=3, stride=2, *, again=False):
    """Return a convolution of an image of planes, and its transposed input if asked for."""
    builder, generator = GraphBuilder(), np.random.default_rng(planes)
    x = builder.input("x", (1, planes, 20, 18), "int8", SCALE)
    turned = builder.add(Op.TRANSPOSE, [x], Transpose(permutation=(0, 2, 3, 1)), quantisation=SCALE)
    weights = builder.constant(
        generator.integers(-128, 128, (24, kernel, kernel, planes)).astype(np.int8),
        Quantisation(scale=(0.01,), zero_point=(0,)),
    )
    side = kernel // 2
    attributes = Conv2D(
        stride=(stride, stride),
        dilation=(1, 1),
        padding=Padding(top=side, bottom=side, left=side, right=side),
        activation=Activation.RELU,
    )
    result = builder.add(Op.CONV_2D, [turned, weights], attributes, quantisation=SCALE)
    return builder.graph(*((result, turned) if again else (result,)))


def spreads(program):
    """Return whether LOADs interleave planes in a program; EXEC then copies nothing."""
    found = any(each.spread for each in instructions(program, Opcode.LOAD))
    assert not (found and any(each.weights_fixed for each in executes(program)))
    return found


@pytest.mark.parametrize("config", ["reference", "small", "nano", "medium"])
@pytest.mark.parametrize(
    ("planes", "kernel", "stride"), [(3, 3, 2), (3, 3, 1), (2, 3, 1), (4, 1, 1)]
)
@pytest.mark.fast_cases(7)
def test_layers_equal_the_interpreter(config, planes, kernel, stride):
    graph = network(planes, kernel, stride)
    for program in exact_programs(graph, load_config(config), (None, 1, 2, 3)):
        assert spreads(program)


@pytest.mark.parametrize(
    ("config", "case"),
    [
        ("reference+element_stride=0", {}),
        ("reference", {"again": True}),
        ("reference", {"planes": 12, "kernel": 1}),
        ("small", {"kernel": 7}),
    ],
    ids=str,
)
def test_others_are_transposed(config, case):
    """No stride of elements, another reader, too many planes, or a layer of more steps."""
    graph = network(**{"planes": 3, **case})
    (program,) = exact_programs(graph, load_config(config), (None,))
    assert not spreads(program)
