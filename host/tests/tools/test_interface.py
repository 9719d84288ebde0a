"""Inputs and outputs of a program: their list, and random values."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.data.digits import NETWORK, input_quantisation
from matloom.program.records import Quantised, TensorInfo
from matloom.runtime import compile
from matloom.terminal.tables import as_text
from matloom.tools.interface import array_line, interface_table, random_arrays


@pytest.fixture(scope="module")
def program():
    return compile(NETWORK, "nano", check="none")


def with_inputs(program, *infos):
    return program.__class__(**{**vars(program), "inputs": infos})


def test_each_tensor_has_its_row(program):
    scale, zero_point = input_quantisation()
    title, heading, _rule, given, made = as_text([interface_table(program)]).splitlines()
    assert title == f"digits for configuration nano ({PRESETS['nano'].digest:08x})"
    assert heading.split() == ["type", "shape", "scale", "zero", "point"]
    assert given.split() == ["image", "input", "int8", "1x8x8x1", str(np.float32(scale)), "-128"]
    assert int(given.split()[-1]) == zero_point
    assert made.split()[:4] == ["probabilities", "output", "int8", "1x10"]


def test_scales_are_exact_and_may_be_absent(program):
    half = TensorInfo(name="a", shape=(), dtype="float32")
    tiny = Quantised(scale=float(np.float32(3e-35)), zero_point=7)
    other = TensorInfo(name="b", shape=(2, 3), dtype="int16", quantised=tiny)
    rows = as_text([interface_table(with_inputs(program, half, other))]).splitlines()[3:5]
    assert rows[0].split() == ["a", "input", "float32", "scalar"]
    name, _side, _dtype, shape, scale, zero = rows[1].split()
    assert (name, shape, zero) == ("b", "2x3", "7")
    assert np.float32(scale) == np.float32(3e-35)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "bool", "float32"])
def test_random_arrays_fit_and_repeat(program, dtype):
    several = with_inputs(
        program,
        TensorInfo(name="x", shape=(64, 9), dtype=dtype),
        TensorInfo(name="y", shape=(), dtype=dtype),
    )
    first, again, other = (random_arrays(several, seed) for seed in (3, 3, 4))
    assert {name: (a.shape, str(a.dtype)) for name, a in first.items()} == {
        "x": ((64, 9), dtype),
        "y": ((), dtype),
    }
    np.testing.assert_array_equal(first["x"], again["x"])
    assert (first["x"] != other["x"]).any()
    assert len(np.unique(first["x"])) > 1
    if dtype == "int8":
        assert first["x"].min() < -100
        assert first["x"].max() > 100


def test_arrays_in_a_line():
    assert array_line("y", np.arange(3, dtype=np.int8)[None]) == "y: int8 1x3: 0 1 2"
    assert array_line("y", np.float32(1.5)) == "y: float32 scalar: 1.5"
    line = array_line("y", np.zeros((5, 300), np.int16))
    assert line.endswith(" 0 0 ... (1,500 elements)")
    assert len(line) < 80
