"""TRANSPOSE_CONV whose few channels leave columns idle: phases of a row are made together."""

import pytest

from matloom.arch.config import load_config
from matloom.ir.attributes import Activation, Padding, TransposeConv
from matloom.ir.graph import Op
from matloom.verification.random_operators import RandomOperators
from support.chain import exact_programs, executes


def enlarged(channels, *, size=(7, 6), depth=20, taps=(5, 5), stride=(2, 2), output=None, images=1):
    """Return a network of one TRANSPOSE_CONV with 'same' padding."""
    instances = RandomOperators(channels)
    output = output or (size[0] * stride[0], size[1] * stride[1])
    spare = [
        max(0, (length - 1) * step + kernel - wanted)
        for length, step, kernel, wanted in zip(size, stride, taps, output, strict=True)
    ]
    data = instances._tensor("t0", (images, *size, depth))
    weights = instances._weights((channels, *taps, depth), 0)
    bias = instances._bias(channels)
    given = [data, weights, *bias]
    attributes = TransposeConv(
        stride=stride,
        padding=Padding(
            top=spare[0] // 2,
            bottom=spare[0] - spare[0] // 2,
            left=spare[1] // 2,
            right=spare[1] - spare[1] // 2,
        ),
        size=output,
        activation=Activation.NONE,
    )
    return instances.network(Op.TRANSPOSE_CONV, given, attributes)


@pytest.mark.parametrize("config", ["nano", "small", "reference"])
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"taps": (3, 3), "images": 2},
        {"taps": (2, 2)},
        {"taps": (3, 2), "size": (14, 11), "depth": 1},
        {"taps": (1, 1)},
        {"taps": (4, 3), "stride": (3, 2)},
        {"stride": (1, 3), "taps": (3, 7)},
        {"stride": (2, 2), "output": (13, 11)},
        {"stride": (4, 4), "taps": (4, 4), "depth": 3},
    ],
    ids=str,
)
def test_phases_are_exact(shape, config):
    for channels in (1, 3, 8):
        exact_programs(enlarged(channels, **shape), load_config(config), (None, 1))


def test_phases_of_a_row_share_the_columns():
    """Five kernel rows stream 14 steps for seven positions, instead of 25 taps for each."""
    graph = enlarged(1, size=(14, 14), depth=64)
    (program,) = exact_programs(graph, load_config("reference"), (None,))
    streamed = sum(
        each.width * each.height * each.kernel_rows * each.kernel_cols * each.blocks
        for each in executes(program)
    )
    assert streamed == 5 * 14 * 14 // 7 * (7 + 2) * 64 // 16
    assert program.macs == 14 * 14 * 25 * 64


def test_many_channels_keep_their_phases():
    (program,) = exact_programs(enlarged(16), load_config("reference"), (None,))
    assert sum(each.width * each.height for each in executes(program)) == 14 * 12
