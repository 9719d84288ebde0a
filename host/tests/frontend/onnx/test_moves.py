"""Operators that move bytes between quantised ONNX layers stay with them, in every bit."""

import numpy as np
import pytest

import matloom
from support.quantised_onnx import QuantisedFile, expected, inputs

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

SHAPE = (1, 4, 8, 6)
#: The ends of a network, which ONNX Runtime runs.
ENDS = {"QuantizeLinear", "DequantizeLinear", "Transpose"}
#: By name: the operator, its constant inputs, its attributes, and the channels that it makes of 8.
MOVES = {
    "part of the channels": ("Slice", [[2], [7], [1]], {}, 5),
    "every second row": ("Slice", [[0], [2**40], [2], [2]], {}, 8),
    "columns from the end": ("Slice", [[-1], [-(2**40)], [3], [-1]], {}, 8),
    "rows and columns around": ("Pad", [[0, 0, 1, 2, 0, 0, 0, 1]], {}, 8),
    "reflected rows and columns": ("Pad", [[0, 0, 2, 3, 0, 0, 1, 2]], {"mode": "reflect"}, 8),
    "reflected channels": ("Pad", [[0, 2, 0, 0, 0, 1, 0, 0]], {"mode": "reflect"}, 11),
    "copied edges": ("Pad", [[0, 0, 2, 0, 0, 0, 1, 3]], {"mode": "edge"}, 8),
    "places in any order": ("Gather", [[2, 5, 0, 1, -1]], {"axis": 2}, 8),
    "channels of places": ("Gather", [[6, 4, 2, 3]], {"axis": 1}, 4),
    "channels around": ("Pad", [[0, 3, 0, 0, 0, 1, 0, 0]], {}, 12),
    "twice and three times": ("Resize", [[], np.float32([1, 1, 2, 3])], {}, 8),
    "floors": (
        *("Resize", [[], [], [1, 8, 16, 6]]),
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        8,
    ),
    "blocks of depth": ("DepthToSpace", [], {"blocksize": 2}, 2),
    "pixel shuffle": ("DepthToSpace", [], {"blocksize": 2, "mode": "CRD"}, 2),
    "blocks of space": ("SpaceToDepth", [], {"blocksize": 2}, 32),
    "maxima of rows": ("ReduceMax", [], {"axes": [2], "keepdims": 1}, 8),
    "maxima of rows and columns": ("ReduceMax", [], {"axes": [-1, 2]}, 8),
    "maxima of channels and columns": ("ReduceMax", [], {"axes": [1, 3]}, 1),
}


def network_of(op, given, options, channels, dtype):
    """Return a move between two convolutions; an empty list stands for an absent input."""
    network = QuantisedFile(list(SHAPE), dtype)
    network.weighted("QLinearConv", (8, 4, 1, 1), 0.0113411, (0.4127391, -3))
    arrays = [np.asarray(each) for each in given]
    network.move(op, *(network.constant(each) if each.size else "" for each in arrays), **options)
    network.weighted("QLinearConv", (3, channels, 1, 1), 0.0091137, (0.8391173, 9))
    return network


def check(content, shape=SHAPE):
    """Compare a file with ONNX Runtime, which must run its ends only."""
    with matloom.load(content, device="model", config="nano", exact=True) as session:
        program = session.program
        found = [layer.operator for layer in program.layers if layer.where == "host"]
        assert {name for name in found if not name.isupper()} <= ENDS
        assert len([name for name in found if name == "Transpose"]) <= 2
        assert program.engine_macs == program.macs
        for x in inputs(shape, 3):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("name", MOVES)
def test_one_output(name, dtype):
    check(network_of(*MOVES[name], dtype).content())


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("value", [0, 5, 125])
def test_padding_with_any_byte(value, dtype):
    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    network = network_of("Pad", [pads, dtype(value)], {}, 8, dtype)
    check(network.content())


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("sizes", [(4, 4), (2, 5, 1)])
def test_split(sizes, dtype):
    network = QuantisedFile(list(SHAPE), dtype)
    network.weighted("QLinearConv", (8, 4, 1, 1), 0.0113411, (0.4127391, -3))
    quantised = network.quantised
    parts = network.add("Split", [network.last, network.constant(np.array(sizes))], axis=1)
    network.nodes[-1].output.extend(f"{parts} {at}" for at in range(1, len(sizes)))
    network.last = parts
    network.weighted("QLinearConv", (6, sizes[0], 1, 1), 0.0113411, (0.4127391, -3))
    network.join(f"{parts} 1", quantised, (0.9131713, -11), 1)
    network.weighted("QLinearConv", (3, 6 + sizes[1], 1, 1), 0.0091137, (0.8391173, 9))
    check(network.content())


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("made", [(0.2917313, -128), (0.4127391, -3)], ids=["other", "same"])
@pytest.mark.parametrize("name", MOVES)
def test_moves_of_floats(name, made, dtype):
    """ONNX Runtime's tools quantise a Reshape before a ReLU that they drop to another scale."""
    op, given, options, channels = MOVES[name]
    network = QuantisedFile(list(SHAPE), dtype)
    network.weighted("QLinearConv", (8, 4, 1, 1), 0.0113411, (0.4127391, -3))
    network.last = network.add("DequantizeLinear", [network.last, *network.quantised])
    arrays = [np.asarray(each) for each in given]
    network.move(op, *(network.constant(each) if each.size else "" for each in arrays), **options)
    network.quantised = network.quantisation(*made)
    network.last = network.add("QuantizeLinear", [network.last, *network.quantised])
    network.weighted("QLinearConv", (3, channels, 1, 1), 0.0091137, (0.8391173, 9))
    check(network.content())


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("options", [{"strides": [2]}, {"pads": [1, 1]}], ids=str)
def test_maxima_of_lines(options, dtype):
    """A pool of one dimension stays between convolutions of one dimension."""
    network = QuantisedFile([1, 4, 12], dtype)
    network.weighted("QLinearConv", (8, 4, 3), 0.0113411, (0.4127391, -3))
    network.move("MaxPool", kernel_shape=[3], **options)
    network.weighted("QLinearConv", (3, 8, 1), 0.0091137, (0.8391173, 9))
    check(network.content(), (1, 4, 12))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_sum_is_in_the_order_of_most_operands(dtype):
    """The input is there in both orders, and the other operand channels last."""
    network = QuantisedFile(list(SHAPE), dtype)
    given = network.last, network.quantised
    network.weighted("QLinearConv", (4, 4, 1, 1), 0.0113411, (0.4127391, -3))
    network.sum(*given, (0.9131713, -11))
    network.weighted("QLinearConv", (3, 4, 1, 1), 0.0091137, (0.8391173, 9))
    program = matloom.compile(network.content(), "nano")
    assert "TRANSPOSE" not in {layer.operator for layer in program.layers}


@pytest.mark.parametrize("places", [3, [[1, 0], [2, 2]]])
def test_a_gather_may_change_the_number_of_axes(places):
    network = QuantisedFile(list(SHAPE), np.uint8)
    network.weighted("QLinearConv", (8, 4, 1, 1), 0.0113411, (0.4127391, -3))
    network.move("Gather", network.constant(np.array(places)), axis=2)
    check(network.content())


def test_places_too_far_apart_stay_on_the_host():
    """The engine would need a copy for each of eleven parts."""
    network = network_of("Gather", [[0] * 11], {"axis": 2}, 8, np.uint8)
    program = matloom.compile(network.content(), "nano")
    assert [layer.where for layer in program.layers if layer.operator == "GATHER"] == ["host"]
    check(network.content())
