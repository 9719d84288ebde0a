"""Average pooling with small strides slides a window of ones, like a depthwise convolution."""

import pytest

from matloom.arch.config import PRESETS, load_config
from matloom.ir.attributes import Padding, Pool2D
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from support.chain import exact_programs, executes

CONFIG = PRESETS["reference"]


def executed(size, window, stride, pads=(0, 0, 0, 0), config=CONFIG):
    """Return the EXECs of an average pooling; check its results against the interpreter."""
    builder = GraphBuilder()
    image = builder.input("image", (1, *size), "int8", Quantisation(scale=(0.1,), zero_point=(5,)))
    top, bottom, left, right = pads
    attributes = Pool2D(
        window=window,
        stride=stride,
        padding=Padding(top=top, bottom=bottom, left=left, right=right),
    )
    graph = builder.graph(builder.add(Op.AVERAGE_POOL_2D, [image], attributes))
    return executes(exact_programs(graph, config, (None, 1, 2))[0])


@pytest.mark.parametrize(
    ("size", "window", "pads"),
    [
        ((12, 14, 40), (3, 3), (1, 1, 1, 1)),
        ((12, 14, 40), (3, 3), (0, 0, 0, 0)),
        ((9, 17, 16), (5, 4), (2, 2, 1, 2)),
        ((20, 20, 3), (3, 3), (1, 1, 1, 1)),
    ],
)
def test_averages_slide(size, window, pads):
    assert all(each.window for each in executed(size, window, (1, 1), pads))


def test_vectors_of_averages():
    """The inner part streams two extra lines and positions; the border is separate."""
    found = executed((28, 28, 16), (3, 3), (1, 1), (1, 1, 1, 1))
    inner = [each for each in found if each.out_width == 26]
    assert sum(each.out_height for each in inner) == 28
    assert {(each.height - each.out_height, each.width - each.out_width) for each in inner} <= {
        (2, 2),
        (1, 2),
    }
    assert sum(each.width * each.height for each in found) < 9 * 28 * 28 / 3


def test_windows_that_share_nothing_are_summed_tap_by_tap():
    found = executed((16, 16, 16), (2, 2), (2, 2))
    assert not any(each.window for each in found)


def test_one_vector_has_several_taps_of_few_channels():
    found = executed((12, 12, 8), (2, 2), (2, 2))
    assert {(each.kernel_rows, each.kernel_cols) for each in found} == {(2, 1)}
    found = executed((8, 12, 4), (2, 6), (2, 6))
    assert {(each.kernel_rows, each.kernel_cols) for each in found} == {(2, 2)}


@pytest.mark.parametrize("channels", [4, 6, 8])
def test_taps_of_more_channels_than_columns_are_separate(channels):
    config = load_config("nano+rows=32+columns=4")
    found = executed((6, 9, channels), (2, 3), (2, 3), config=config)
    assert {each.kernel_cols for each in found} == {1 if channels == 4 else 3}


@pytest.mark.parametrize(("channels", "part"), [(28, 14), (196, 14), (32, 16), (34, 0)])
def test_parts_of_a_position_share_a_step(channels, part):
    """Loading a weight tile takes four cycles; two parts of 17 channels would not divide them."""
    config = load_config("reference+windows=0")
    found = executed((5, 4, channels), (5, 4), (5, 4), config=config)
    widths = {(each.width, each.x_step if each.width > 1 else 0) for each in found}
    assert widths == {(channels // part if part else 1, part)}
