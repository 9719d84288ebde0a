"""Real numbers to integers and back, held against TensorFlow Lite's rule written out."""

import copy
import math
import pickle

import numpy as np
import pytest

import matloom
from matloom.data.digits import NETWORK, input_quantisation
from matloom.data.digits import quantise as for_digits
from matloom.errors import UserError, UserTypeError
from matloom.kernels.real import dequantise_array, quantise_array
from matloom.program.records import Quantised, TensorInfo


def info(dtype, scale=None, zero_point=0):
    meaning = None if scale is None else Quantised(scale=scale, zero_point=zero_point)
    return TensorInfo(name="x", shape=(1, 4), dtype=dtype, quantised=meaning)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize(("scale", "zero_point"), [(0.5, 0), (0.25, 3), (1 / 1024, 100), (4.0, 1)])
def test_halves_go_away_from_zero_and_ends_saturate(dtype, scale, zero_point):
    limits = np.iinfo(dtype)
    values = np.array([k * scale / 2 for k in range(-600, 600)] + [1e9, -1e9, 0.0])
    expected = []
    for value in values:
        quotient = value / scale
        away = math.copysign(math.floor(abs(quotient) + 0.5), quotient)
        expected.append(min(max(int(away) + zero_point, limits.min), limits.max))
    made = quantise_array(info(dtype, scale, zero_point), values)
    assert (str(made.dtype), made.tolist()) == (dtype, expected)
    inside = (made > limits.min) & (made < limits.max)
    back = dequantise_array(info(dtype, scale, zero_point), made)
    assert back.dtype == np.float32
    assert np.abs(back - values)[inside].max() <= scale / 2


def test_not_a_number_is_zero_and_infinity_saturates():
    made = quantise_array(info("int8", 0.1, 5), [np.nan, np.inf, -np.inf])
    assert made.tolist() == [5, 127, -128]


def test_without_a_scale_numbers_stay():
    assert quantise_array(info("float32"), [1.5]).tolist() == [1.5]
    assert quantise_array(info("int32"), [7]).dtype == np.int32
    with pytest.raises(UserError, match="'x' of int32 has no scale, so it takes integers"):
        quantise_array(info("int32"), [1.5])
    assert dequantise_array(info("int32"), [7]).tolist() == [7]


@pytest.fixture(scope="module")
def session():
    with matloom.load(NETWORK, "model", "nano", check="none") as session:
        yield session


def test_a_session_takes_real_numbers(session):
    real = np.random.default_rng(0).uniform(-0.2, 1.2, (3, 8, 8, 1)).astype(np.float32)
    integers = session.quantise(real)
    np.testing.assert_array_equal(integers, for_digits(real, *input_quantisation()))
    np.testing.assert_array_equal(session.quantise({"image": real})["image"], integers)
    chances = session.dequantise(session.run(integers))
    assert chances.dtype == np.float32
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=0.05)
    with pytest.raises(UserError, match="an input must be one of image, not 'imag'") as caught:
        session.quantise({"imag": real})
    assert caught.value.hint == "did you mean 'image'?"


def test_floats_are_refused_with_the_way(session):
    with pytest.raises(UserTypeError, match="must be int8, not float32") as caught:
        session.run(np.zeros((1, 8, 8, 1), np.float32))
    scale = np.float32(input_quantisation()[0])
    assert "Session.quantise" in caught.value.hint
    assert str(scale) in caught.value.hint
    assert "-128" in caught.value.hint
    with pytest.raises(UserError, match="must have shape") as caught:
        session.run(np.zeros((8, 8, 1), np.int8))
    assert "numpy.newaxis" in caught.value.hint


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_sessions_stay_where_they_are(session, take):
    with pytest.raises(UserTypeError, match="cannot be pickled or copied") as caught:
        take(session)
    assert "session.program" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "near"),
    [("confg", "config"), ("memory_", "memory"), ("wave", "waves"), ("zzz", None)],
)
def test_unknown_arguments_of_load(name, near):
    with pytest.raises(UserTypeError, match=f"load has no argument '{name}'") as caught:
        matloom.load(NETWORK, "model", **{name: 1})
    assert caught.value.hint == (f"did you mean {near!r}?" if near else "")
