"""Rows as channels: LOADs, filters, the choice, and layers that use them, bit by bit."""

import itertools
import random

import numpy as np
import pytest

from matloom.arch.config import PRESETS, load_config
from matloom.arch.isa import Opcode, Region
from matloom.arch.machine import Machine
from matloom.compiler import CompileOptions, compile_network
from matloom.device.model import Engine
from matloom.ir.graph import Op
from matloom.kernels.interpreter import interpret
from matloom.program.verify import verify_program
from matloom.select import row_folds
from matloom.select.build import Convolution, convolution_stage
from matloom.select.layout.base import Transfer
from matloom.select.layout.row_folding import RowFolding
from matloom.select.requantisation import Requantisation
from matloom.select.row_folds import fastest_row_folding, fold_filters
from matloom.select.window import Window
from matloom.verification.random_layers import random_layer
from support.chain import Chain, exact_programs, executes
from support.instructions import instructions

KEYWORDS = Window(
    images=1,
    in_height=49,
    in_width=10,
    depth=1,
    out_height=25,
    out_width=5,
    kernel_height=10,
    kernel_width=4,
    stride_y=2,
    stride_x=2,
    pad_top=4,
    pad_left=1,
)


def tensor_of(rows, image):
    """Return the tensor by definition: uint8 (rows, positions, channels)."""
    result = np.full((rows.rows, rows.source_row_bytes, rows.channels), rows.fill_value, np.uint8)
    for row, channel in itertools.product(range(rows.rows), range(rows.channels)):
        source = rows.first_row + row * rows.row_step + channel
        if 0 <= source < rows.source_rows:
            result[row, :, channel] = image[source]
    return result


def execute(values, source, spad):
    """Execute a LOAD byte by byte; addresses outside are errors."""
    fields = dict.fromkeys(("fill", "fill_value", "spread", "dram_offset"), 0)
    fields |= dict.fromkeys(("dram_row_step", "dram_plane_step", "spad_plane_step"), 0) | values
    loops = (fields["planes"], fields["rows"], fields["row_bytes"])
    for plane, row, byte in itertools.product(*map(range, loops)):
        at = fields["spad_addr"] + plane * fields["spad_plane_step"]
        at += row * fields["spad_row_step"] + (byte << fields["spread"])
        offset = fields["dram_offset"] + plane * fields["dram_plane_step"]
        offset += row * fields["dram_row_step"] + byte
        assert at in spad
        assert fields["fill"] or 0 <= offset < len(source)
        spad[at] = fields["fill_value"] if fields["fill"] else source[offset]


@pytest.mark.parametrize("channels", [2, 4, 8])
def test_loads_bring_exactly_the_bytes_asked_for(channels, seed):
    chance = random.Random(seed + channels)
    for _number in range(40):
        height, width = chance.randint(1, 12), chance.randint(1, 9)
        rows = RowFolding(
            source="image",
            source_rows=height,
            source_row_bytes=width,
            first_row=-chance.randint(0, 5),
            row_step=chance.choice((1, 2, channels)),
            channels=channels,
            rows=chance.randint(1, 12),
            fill_value=chance.randrange(256),
        )
        image = np.frombuffer(chance.randbytes(height * width), np.uint8).reshape(height, width)
        flat = tensor_of(rows, image).reshape(-1)
        start = chance.randrange(rows.size)
        size, count = chance.randint(1, rows.size - start), 1
        if chance.random() < 0.5:
            first, left = chance.randrange(rows.rows), chance.randrange(rows.row_bytes)
            start, size = first * rows.row_bytes + left, chance.randint(1, rows.row_bytes - left)
            count = chance.randint(1, rows.rows - first)
        places = [
            start + run * rows.row_bytes + byte for run in range(count) for byte in range(size)
        ]
        spad = dict.fromkeys(range(100, 100 + size * count))
        transfer = Transfer(
            start=start, size=size, runs=count, step=rows.row_bytes, address=100, pitch=size
        )
        for values in rows.loads(transfer):
            execute(values, image.tobytes(), spad)
        assert list(spad.values()) == flat[places].tolist()


def sums(image, filters, window):
    """Return a convolution as nested sums, with zero padding."""
    result = np.zeros((window.out_height, window.out_width, filters.shape[0]), np.int64)
    taps = itertools.product(range(window.kernel_height), range(window.kernel_width))
    for (i, j), y, x in itertools.product(taps, range(window.out_height), range(window.out_width)):
        row = y * window.stride_y + i * window.dilation_y - window.pad_top
        column = x * window.stride_x + j - window.pad_left
        if 0 <= row < window.in_height and 0 <= column < window.in_width:
            result[y, x] += filters[:, i, j].astype(int) @ image[row, column].astype(int)
    return result


@pytest.mark.parametrize("channels", [2, 4, 8])
def test_rearranged_filters_give_equal_results(channels, seed):
    numbers = np.random.default_rng(seed)
    image = numbers.integers(0, 256, (49, 10), np.uint8)
    filters = numbers.integers(-128, 128, (3, 10, 4, 1)).astype(np.int8)
    rows = RowFolding(
        source="image",
        source_rows=49,
        source_row_bytes=10,
        first_row=-4,
        row_step=2,
        channels=channels,
        rows=25 + (-(-10 // channels) - 1) * channels // 2,
        fill_value=0,
    )
    window, thick = fold_filters(KEYWORDS, filters, rows)
    found = sums(tensor_of(rows, image), thick, window)
    assert (found == sums(image[..., None], filters, KEYWORDS)).all()


def choose(config, window):
    """Return the number of channels in the fastest stage of 64 filters."""
    engine = load_config(config)

    def make(window, filters, tensor):
        return convolution_stage(
            Convolution(
                name="conv",
                nodes=(0,),
                tensors=(tensor, "out"),
                window=window,
                filters=filters,
                bias=np.zeros(64, np.int32),
                input_zero=-3,
                scale=Requantisation(multiplier=2**30, shift=-5, zero=0, low=-128, high=127),
                config=engine,
                mode="i8xi4" if "i8xi4" in engine.mac_modes else "i8xi8",
            )
        )

    shape = (64, window.kernel_height, window.kernel_width, window.depth)
    stage = fastest_row_folding(
        make,
        window=window,
        filters=np.ones(shape, np.int8),
        tensor="image",
        zero=-3,
        machine=Machine(config=engine),
    )
    assert (stage.inputs[0] == "image") == (stage.input_layout.source is None)
    return getattr(stage.input_layout, "channels", 1)


def test_number_of_folded_rows():
    """Eight channels would fill an array of 32 rows, but their LOADs would take longer."""
    configs = ("nano", "small", "reference", "reference+i8xi4", "large")
    assert [choose(config, KEYWORDS) for config in configs] == [1, 2, 4, 4, 4]


#: A kernel whose two output rows read four rows of the image.
SMALL = Window(
    images=1,
    in_height=21,
    in_width=33,
    depth=1,
    out_height=19,
    out_width=31,
    kernel_height=3,
    kernel_width=3,
)


def test_rows_of_outputs_share_folded_rows():
    """Each vector has the nine taps of both rows, so a position takes one step instead of two."""
    graph = Chain((1, 21, 33, 1)).convolve(16, 3).graph()
    (program,) = exact_programs(graph, load_config("reference"), (None,))
    streamed = [each.width * each.height * each.oc_blocks for each in executes(program)]
    assert choose("reference", SMALL) == 4
    assert sum(streamed) == 21 * 33
    assert {each.kernel_rows * each.blocks for each in executes(program)} == {1}


@pytest.mark.parametrize("kernel", [(3, 3), (2, 2), (2, 3)])
@pytest.mark.parametrize("config", ["small", "reference", "reference+pooling=0"])
def test_groups_of_any_kernel_are_exact(config, kernel, monkeypatch):
    monkeypatch.setenv("MATLOOM_VERIFY", "1")
    height, width = kernel
    for channels in (7, 20):
        chain = Chain((1, 19, 18, 1)).convolve(channels, height, width=width)
        exact_programs(chain.pool().graph(), load_config(config), (None, 1))


@pytest.mark.parametrize(
    "change",
    [
        {"depth": 2},
        {"images": 2},
        {"dilation_y": 2},
        {"stride_y": 3},
        {"kernel_height": 1},
        {"in_height": 4000, "out_height": 4000, "in_width": 100},
    ],
    ids=lambda change: next(iter(change)),
)
def test_limits_of_interleaving(change):
    assert choose("reference", type(KEYWORDS)(**{**vars(KEYWORDS), **change})) == 1


def run(program, data):
    """Run a program of one layer on the functional model."""
    (step,) = program.steps
    regions = {region: np.zeros(size, np.uint8) for region, size in program.region_bytes.items()}
    regions[Region.PROGRAM] = np.frombuffer(program.image, np.uint8)
    regions[Region.INPUT][: data.size] = data.reshape(-1).view(np.uint8)
    Engine(program.config, regions).run(program.commands(step))
    (made,) = step.outputs
    return regions[Region.OUTPUT][: np.prod(made.shape)].view(np.int8).reshape(made.shape)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("config", ["nano", "reference"])
def test_layers_equal_the_interpreter(config, seed, monkeypatch):
    """Try every choice, with whole tensors and tiles, and verify."""
    chance, tried = random.Random(seed), 0
    monkeypatch.setattr(row_folds, "_MAX_SHARE", 1 << 30)
    monkeypatch.setattr(
        row_folds,
        "_estimated_cycles",
        lambda stage, _config: chance.random() + (stage.input_layout.source is None),
    )
    for number in itertools.count(seed):
        graph, inputs = random_layer(number, PRESETS[config])
        (node,) = graph.nodes
        if node.op not in (Op.CONV_2D, Op.DEPTHWISE_CONV_2D):
            continue
        if graph.tensors[graph.inputs[0]].shape[3] > 1:
            continue
        options = CompileOptions(tiling_seed=number if number % 4 else None)
        program = compile_network(graph, PRESETS[config], options)
        if not any(each.spread for each in instructions(program, Opcode.LOAD)):
            continue
        verify_program(program)
        expected = interpret(graph, inputs)[graph.outputs[0]]
        assert np.array_equal(run(program, inputs[graph.inputs[0]]), expected), number
        tried += 1
        if tried == 12:
            return
