"""Layers that use some channels read the bytes of these alone."""

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.ir.attributes import Activation, Conv2D, Padding
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.select.used_channels import shortest_reads
from support.chain import exact_programs, executes


def matrix_of(places, channels, depth):
    """Return weights (1, 1, depth, channels) of 1 at the places of each output channel."""
    matrix = np.zeros((1, 1, depth, channels), np.int8)
    for channel in range(channels):
        matrix[0, 0, places(channel), channel] = 1
    return matrix


@pytest.mark.parametrize(
    ("places", "channels", "depth", "expected"),
    [
        (lambda _channel: list(range(0, 96, 2)), 16, 96, None),
        (lambda _channel: [3, 90], 16, 96, (3, 0, 2, 72, 1)),
        (lambda _channel: [5, 17, 20], 16, 96, (5, 0, 1, 0, 1)),
        (lambda _channel: [0, 40, 80], 16, 96, (0, 0, 3, 33, 1)),
        (lambda channel: [2 * channel], 48, 96, (0, 32, 1, 0, 2)),
        (lambda channel: [channel, 48 + channel], 48, 96, (0, 16, 2, 48, 1)),
        (lambda channel: [95 - channel], 48, 96, (48, 0, 1, 0, 3)),
        (lambda channel: [channel], 8, 8, None),
        (lambda channel: [channel] if channel < 16 else [], 32, 96, None),
    ],
)
def test_shortest_reads(places, channels, depth, expected):
    """First byte, distance of blocks, runs, distance of runs, vectors; none if none is saved."""
    reads = shortest_reads(matrix_of(places, channels, depth), 16, 16)
    if expected is None:
        assert reads is None
        return
    found = (reads.first, reads.block_step, reads.runs, reads.run_step, reads.vectors)
    assert found == expected


def products(reads, matrix, position, rows, block):
    """Return sums of a position's bytes as EXEC reads and multiplies them, vector by vector."""
    gathered = reads.gather(matrix, rows, block)
    found = np.zeros(matrix.shape[3], np.int64)
    for number, at in enumerate(range(0, matrix.shape[3], block)):
        for run in range(reads.runs):
            first = reads.first + number * reads.block_step + run * reads.run_step
            size = reads.vectors * rows
            # What lies around a position must not matter.
            around = np.full(3 * len(position) + 4 * size, 99, np.int64)
            around[len(position) + size : 2 * len(position) + size] = position
            vector = around[len(position) + size + first :][:size]
            found[at : at + block] += vector @ gathered[0, run, :, at : at + block].astype(int)
    return found


@pytest.mark.parametrize(("rows", "block"), [(16, 16), (8, 8), (4, 4), (16, 32)])
def test_gathered_weights_give_equal_sums(rows, block, seed):
    generator, saved = np.random.default_rng(seed), 0
    for _number in range(60):
        depth, channels = int(generator.integers(rows + 1, 90)), int(generator.integers(1, 70))
        matrix = generator.integers(-128, 128, (1, 1, depth, channels)).astype(np.int8)
        kept = generator.choice(depth, int(generator.integers(1, rows + 1)), replace=False)
        matrix[:, :, np.setdiff1d(np.arange(depth), kept)] = 0
        reads = shortest_reads(matrix, rows, block)
        if reads is None:
            continue
        assert reads.steps < -(-depth // rows)
        saved += 1
        position = generator.integers(-128, 128, depth)
        expected = position @ matrix[0, 0].astype(int)
        assert products(reads, matrix, position, rows, block).tolist() == expected.tolist()
    assert saved > 10


def layer_of(places, channels, depth, *, kernel_rows=1, stride=1):
    """Return a convolution whose output channels use the channels at `places`."""
    builder, generator = GraphBuilder(), np.random.default_rng(depth)
    scale = Quantisation(scale=(0.05,), zero_point=(-9,))
    x = builder.input("x", (1, 9, 7, depth), "int8", scale)
    filters = generator.integers(-128, 128, (channels, kernel_rows, 1, depth)).astype(np.int8)
    for channel in range(channels):
        filters[channel, :, :, np.setdiff1d(np.arange(depth), places(channel))] = 0
    weights = builder.constant(filters, Quantisation(scale=(0.01,), zero_point=(0,)))
    attributes = Conv2D(
        stride=(stride, stride),
        dilation=(1, 1),
        padding=Padding(top=0, bottom=0, left=0, right=0),
        activation=Activation.NONE,
    )
    return builder.graph(builder.add(Op.CONV_2D, [x, weights], attributes, quantisation=scale))


def vectors(program):
    """Return the vectors that a program streams through the array."""
    return sum(
        each.width
        * each.height
        * each.kernel_rows
        * each.kernel_cols
        * each.blocks
        * each.oc_blocks
        for each in executes(program)
    )


@pytest.mark.parametrize("config", ["reference", "nano", "small", "reference+i8xi4"])
@pytest.mark.parametrize(
    ("places", "channels"),
    [
        (lambda channel: [2 * channel], 24),
        (lambda channel: [47 - channel], 20),
        (lambda channel: [channel, 24 + channel], 24),
        (lambda _channel: [3, 5, 40], 40),
        (lambda _channel: [30], 7),
    ],
)
@pytest.mark.fast_cases(6)
def test_layers_equal_the_interpreter(config, places, channels):
    engine = load_config(config)
    for shape in ({}, {"kernel_rows": 3}, {"stride": 2}):
        graph = layer_of(places, channels, 48, **shape)
        plain = layer_of(lambda _channel: np.arange(48), channels, 48, **shape)
        (program, *_others), (other,) = (
            list(exact_programs(each, engine, seeds))
            for each, seeds in ((graph, (None, 1, 2)), (plain, (None,)))
        )
        assert vectors(program) < vectors(other)


@pytest.mark.parametrize("seed", range(40))
def test_elements_of_two_bytes_stay_whole(seed):
    """Their low and high bytes have rows of the array of their own."""
    generator = np.random.default_rng(seed)
    depth, channels = int(generator.integers(9, 45)), int(generator.integers(1, 40))
    matrix = np.ones((1, 1, depth, channels), np.int8)
    kept = generator.choice(depth, int(generator.integers(1, 9)), replace=False)
    matrix[:, :, np.setdiff1d(np.arange(depth), kept)] = 0
    reads = shortest_reads(np.repeat(matrix, 2, axis=2), 16, 16, element=2)
    if reads is not None:
        assert (reads.first % 2, reads.block_step % 2, reads.run_step % 2) == (0, 0, 0)
