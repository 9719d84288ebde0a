"""Shapes of operators that move elements: NumPy's if valid, a message otherwise."""

import re

import numpy as np
import pytest

from matloom.ir import moves
from matloom.ir.attributes import (
    Axis,
    Pad,
    Reduce,
    Resize,
    Slice,
    Split,
    Transpose,
    TransposeConv,
)

IMAGE = np.zeros((2, 3, 4, 5))


def transposed(size, stride=(2, 2)):
    return TransposeConv(stride=stride, size=size)


@pytest.mark.parametrize(
    ("rule", "attributes", "expected"),
    [
        (moves.concatenation_shape, Axis(axis=1), np.concatenate([IMAGE, IMAGE], 1).shape),
        (moves.pack_shape, Axis(axis=4), np.stack([IMAGE, IMAGE], 4).shape),
        (moves.unpacked_shapes, Axis(axis=1), [(2, 4, 5)] * 3),
        (moves.split_shapes, Split(axis=2, sizes=(1, 3)), [(2, 3, 1, 5), (2, 3, 3, 5)]),
        (
            *(moves.pad_shape, Pad(before=(0, 1, 2, 3), after=(1, 0, 0, 1))),
            np.pad(IMAGE, [(0, 1), (1, 0), (2, 0), (3, 1)]).shape,
        ),
        (
            moves.slice_shape,
            Slice(begin=(0, 2, 1, 4), size=(1, 3, 2, 3), step=(1, -1, 2, -2), dropped=(0,)),
            IMAGE[0, 2::-1, 1:4:2, 4::-2].shape,
        ),
        (
            *(moves.transposed_shape, Transpose(permutation=(3, 1, 0, 2))),
            IMAGE.transpose(3, 1, 0, 2).shape,
        ),
        (moves.reduced_shape, Reduce(axes=(1, 3), keep_dims=False), IMAGE.sum((1, 3)).shape),
        (moves.reduced_shape, Reduce(axes=(0, 2), keep_dims=True), (1, 3, 1, 5)),
        (moves.arg_extreme_shape, Axis(axis=3), IMAGE.argmax(3).shape),
        (
            moves.resized_shape,
            Resize(size=(7, 1), align_corners=False, half_pixel_centers=False),
            (2, 7, 1, 5),
        ),
    ],
)
def test_shapes(rule, attributes, expected):
    assert rule([IMAGE.shape, IMAGE.shape], attributes) == expected


def test_transposed_convolution():
    shapes = [(2, 3, 4, 5), (6, 3, 3, 5), (6,)]
    assert moves.transposed_convolution_shape(shapes, transposed((7, 9))) == (2, 7, 9, 6)


@pytest.mark.parametrize(
    ("rule", "shapes", "attributes", "sentence"),
    [
        (
            *(moves.concatenation_shape, [(2, 3), (3, 3)], Axis(axis=1)),
            "the inputs must agree except axis 1, unlike (2, 3), (3, 3)",
        ),
        (moves.concatenation_shape, [(2,)], Axis(axis=1), "the axis must be 0 to 0, not 1"),
        (
            *(moves.pack_shape, [(2, 3), (2, 4)], Axis(axis=0)),
            "the inputs must have one shape, unlike (2, 3), (2, 4)",
        ),
        (
            *(moves.split_shapes, [(2, 3)], Split(axis=1, sizes=(1, 1))),
            "the parts must add up to 3, not (1, 1)",
        ),
        (
            *(moves.pad_shape, [(2, 3)], Pad(before=(0,), after=(0, 0))),
            "padding must be given for 2 axes, not 1",
        ),
        (
            *(moves.slice_shape, [(2, 3)], Slice(begin=(0, 0), size=(1, 1), step=(1,))),
            "step must be given for 2 axes, not 1",
        ),
        (
            *(moves.slice_shape, [(3,)], Slice(begin=(2,), size=(2,), step=(-3,))),
            "a slice must lie within 0 to 2, not 2 to -1",
        ),
        (
            *(moves.slice_shape, [(3,)], Slice(begin=(0,), size=(2,), step=(1,), dropped=(0,))),
            "dropped axes must have 1 element, not (2,)",
        ),
        (
            *(moves.slice_shape, [(3,)], Slice(begin=(0,), size=(1,), step=(0,))),
            "steps must be other than 0, not (0,)",
        ),
        (
            *(moves.slice_shape, [(3,)], Slice(begin=(0,), size=(1,), step=(1,), dropped=(1,))),
            "dropped axes must be of 1, not (1,)",
        ),
        (
            moves.resized_shape,
            [(1, 2, 2, 1)],
            Resize(size=(0, 4), align_corners=False, half_pixel_centers=False),
            "the size must be at least 1, not (0, 4)",
        ),
        (
            *(moves.transposed_convolution_shape, [(1, 3, 3, 2), (4, 3, 3, 1)]),
            *(transposed((7, 7)), "the weights must have 2 input channels, not 1"),
        ),
        (
            *(moves.transposed_convolution_shape, [(1, 3, 3, 2), (4, 3, 3, 2)]),
            *(transposed((0, 7)), "the size must be at least 1, not (0, 7)"),
        ),
    ],
)
def test_contradictions(rule, shapes, attributes, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        rule(shapes, attributes)
