"""Window arithmetic compared with a count of the positions that TensorFlow defines."""

import itertools

import pytest

from matloom.ir.attributes import NO_PADDING, Attributes
from matloom.ir.graph import Op
from matloom.ir.operators import OPERATORS
from matloom.ir.shapes import same_padding, window_shape


@pytest.mark.parametrize("dilation", [1, 2])
def test_same_padding_keeps_every_stride(dilation):
    for length, kernel, stride in itertools.product(range(1, 13), range(1, 6), range(1, 5)):
        sizes = ((length, length), (kernel, kernel), (stride, stride), (dilation, dilation))
        padding = same_padding(*sizes)
        outputs = len(range(0, length, stride))
        assert window_shape(*sizes, padding) == (outputs, outputs)
        # An odd element goes after the image.
        assert padding.bottom - padding.top in (0, 1)
        assert (padding.top, padding.bottom) == (padding.left, padding.right)


def test_no_padding_counts_whole_windows():
    for length, kernel, stride in itertools.product(range(1, 13), range(1, 6), range(1, 5)):
        starts = range(0, length - kernel + 1, stride)
        sizes = ((length, 20), (kernel, 1), (stride, 1), (1, 1))
        if starts:
            assert window_shape(*sizes, NO_PADDING) == (
                len(starts),
                20,
            )
        else:
            with pytest.raises(ValueError, match="must fit the padded image"):
                window_shape(*sizes, NO_PADDING)


@pytest.mark.parametrize("op", [Op.SOFTMAX, Op.LOG_SOFTMAX])
def test_softmax_needs_an_axis(op):
    rule = OPERATORS[op].shape
    assert rule([(2, 3)], Attributes()) == (2, 3)
    with pytest.raises(ValueError, match=r"an input must have 1 dimension or more, not \(\)"):
        rule([()], Attributes())
