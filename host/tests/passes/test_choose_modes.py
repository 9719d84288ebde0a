"""A precision selects layers, and gives them modes."""

import dataclasses

import pytest

from matloom import frontend
from matloom.data.digits import NETWORK
from matloom.ir.graph import Op
from matloom.passes.choose_modes import choose_modes
from matloom.verification.random_operators import RandomOperators


@pytest.fixture(scope="module")
def digits():
    return frontend.load(NETWORK)


def names(graph, modes):
    return {graph.tensors[number].name: mode for number, mode in modes.items()}


def test_all_layers(digits):
    layers = names(digits, choose_modes(digits, "i8xi4"))
    assert layers == dict.fromkeys(("stem", "inner", "outer", "wide", "logits"), "i8xi4")
    dense = RandomOperators(0, "float32").make(Op.FULLY_CONNECTED)
    assert list(choose_modes(dense, "fp16").values()) == ["fp16"]


def test_all_but_some(digits):
    table = {"*": "i8xi4", "stem": "i8xi8", "logits": "i8xi8"}
    assert set(names(digits, choose_modes(digits, table))) == {"inner", "outer", "wide"}
    assert names(digits, choose_modes(digits, {"wide": "i8xi4"})) == {"wide": "i8xi4"}
    assert choose_modes(digits, {"wide": "i8xi8"}) == {}


def test_a_name_up_to_its_first_semicolon(digits):
    tensors = {
        number: dataclasses.replace(tensor, name=f"{tensor.name};and more")
        for number, tensor in digits.tensors.items()
    }
    graph = dataclasses.replace(digits, tensors=tensors)
    for name in ("wide", "wide;and more"):
        assert names(graph, choose_modes(graph, {name: "i8xi4"})) == {"wide;and more": "i8xi4"}


@pytest.mark.parametrize(
    ("precision", "sentence"),
    [
        ("i4", "a precision must be one of bf16, fp16, i8xi4, float32, i8xi8, not 'i4'"),
        ("bf16", "that has convolutions or dense layers of float32, not of 'digits'"),
        ("float32", "that has convolutions or dense layers of float32, not of 'digits'"),
        ({"pool": "i8xi4"}, "convolutions and dense layers of float32 or int8, not 'pool'"),
        ({"stem": "bf16"}, "the precision of 'stem' must be one of i8xi4, i8xi8, not bf16"),
    ],
)
def test_refusals(digits, precision, sentence):
    with pytest.raises(ValueError, match=sentence):
        choose_modes(digits, precision)
