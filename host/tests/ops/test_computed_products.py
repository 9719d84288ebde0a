"""Products of two arrays at run time: equal to TensorFlow Lite Micro, and errors."""

import re
from dataclasses import replace

import numpy as np
import pytest

from matloom import ops
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.graph import Op
from matloom.verification.random_operators import RandomOperators
from support.oracles import micro


@pytest.mark.parametrize("number", range(4))
def test_equal_to_the_reference(number, seed):
    """Only the ratio of the scales counts: with a first scale of 1, ratios are exact in float32."""
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    graph = RandomOperators([seed, number, 3]).make(Op.BATCH_MATMUL)
    left, right, output = (graph.tensors[at] for at in range(3))
    one = replace(left.quantisation, scale=(1.0,))
    graph = replace(graph, tensors={**graph.tensors, 0: replace(left, quantisation=one)})
    generator = np.random.default_rng(seed)
    a, b = (generator.integers(-128, 128, each.shape, np.int8) for each in (left, right))
    attributes = graph.nodes[0].attributes
    for second in (b, np.roll(b, 1)):
        (wanted,) = micro(write_tflite(graph), [a, second], 1)
        found = ops.batch_matmul(
            *(a, second),
            scale=right.scale / output.scale,
            zero_point=output.zero_point,
            input_zero_points=(left.zero_point, right.zero_point),
            adj=(attributes.adj_x, attributes.adj_y),
            config="nano",
        )
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"a": np.ones((2, 3))}, TypeError, "a must be int8, not float64"),
        ({"b": np.ones(3, np.int8)}, ValueError, "b must have 2 axes or more and an element"),
        ({"b": np.ones((4, 3), np.int8)}, ValueError, "the right side must have 3 rows, not 4"),
        ({"scale": 0.0}, ValueError, "scale must be above 0 and at most 2**30, not 0.0"),
        ({"zero_point": 128}, ValueError, "zero_point must be -128 to 127, not 128"),
        ({"input_zero_points": (0, 0.5)}, ValueError, "input_zero_points must be -128 to 127"),
        (
            {"a": np.ones((1, 40000), np.int8), "b": np.ones((40000, 1), np.int8)},
            ValueError,
            "the inner size must be below 33025, not 40000",
        ),
    ],
)
def test_wrong_arguments_are_named(change, error, sentence):
    arguments = {"a": np.ones((2, 3), np.int8), "b": np.ones((3, 2), np.int8), "scale": 0.1}
    with pytest.raises(error, match=re.escape(sentence)):
        ops.batch_matmul(**{**arguments, **change})
