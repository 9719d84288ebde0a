"""Files written from graphs read back as the same graphs."""

from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

from matloom import frontend
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import Padding
from matloom.ir.text import to_text

DIGITS = resources.files("matloom.data").joinpath("digits.tflite").read_bytes()


def test_round_trip():
    graph = frontend.load(DIGITS)
    again = frontend.load(write_tflite(graph))
    assert to_text(again) == to_text(graph)
    assert again.tensors.keys() == graph.tensors.keys()
    for number, tensor in graph.tensors.items():
        assert again.tensors[number].quantisation == tensor.quantisation
        if tensor.data is not None:
            np.testing.assert_array_equal(again.tensors[number].data, tensor.data)


def test_other_padding_is_refused():
    graph = frontend.load(DIGITS)
    first = graph.nodes[0]
    padding = Padding(top=2, left=1, right=1)
    first = replace(first, attributes=replace(first.attributes, padding=padding))
    with pytest.raises(ValueError, match=r"padding must be SAME .* or VALID, not Padding\(top=2"):
        write_tflite(replace(graph, nodes=(first, *graph.nodes[1:])))
