"""LiteRT's calls: details, values and errors as its own interpreter gives them.

Expected numbers are those of LiteRT with its reference kernels.
"""

import numpy as np
import pytest

import matloom
from matloom.compat import litert
from matloom.compat.session_options import CompatWarning
from matloom.data.digits import NETWORK
from matloom.errors import UserError
from matloom.frontend.errors import ModelError
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation

interpreter = pytest.importorskip(
    "ai_edge_litert.interpreter", reason="ai-edge-litert is not installed"
)
IMAGE = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
STEM = 1  # a constant of digits
INSIDE = 10  # a tensor of digits that an operator makes

FAST = {"device": "model", "config": "nano", "check": "none"}


@pytest.fixture(scope="module")
def theirs():
    made = interpreter.Interpreter(
        str(NETWORK),
        experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    made.allocate_tensors()
    return made


@pytest.fixture(scope="module")
def opened():
    made = matloom.Interpreter(model_path=NETWORK, num_threads=2, **FAST)
    made.allocate_tensors()
    yield made
    made.close()


@pytest.fixture
def ours(opened):
    opened.resize_tensor_input(0, IMAGE.shape)
    opened.allocate_tensors()
    return opened


def assert_same(mine, other):
    """Compare nested details, types included."""
    assert type(mine) is type(other)
    if isinstance(mine, dict):
        # Newer releases add keys.
        for key in mine.keys() & other.keys():
            assert_same(mine[key], other[key])
    elif isinstance(mine, (list, tuple)):
        assert len(mine) == len(other)
        for one, two in zip(mine, other, strict=True):
            assert_same(one, two)
    elif isinstance(mine, np.ndarray):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)
    else:
        assert mine == other


def test_details_are_litert_s(ours, theirs):
    assert_same(ours.get_input_details(), theirs.get_input_details())
    assert_same(ours.get_output_details(), theirs.get_output_details())
    assert_same(ours.get_tensor_details(), theirs.get_tensor_details())
    assert_same(ours.get_signature_list(), theirs.get_signature_list())
    mine, other = ours.get_signature_runner(), theirs.get_signature_runner()
    assert_same(mine.get_input_details(), other.get_input_details())
    assert_same(mine.get_output_details(), other.get_output_details())


def test_values_are_litert_s(ours, theirs):
    (source,), (result,) = ours.get_input_details(), ours.get_output_details()
    for each in (ours, theirs):
        each.set_tensor(source["index"], IMAGE)
        each.invoke()
    expected = theirs.get_tensor(result["index"])
    np.testing.assert_array_equal(ours.get_tensor(result["index"]), expected)
    np.testing.assert_array_equal(ours.tensor(result["index"])(), expected)
    np.testing.assert_array_equal(ours.get_tensor(STEM), theirs.get_tensor(STEM))
    ours.tensor(source["index"])()[...] = 0
    ours.invoke()
    assert not np.array_equal(ours.get_tensor(result["index"]), expected)
    runner = ours.get_signature_runner("serving_default")
    np.testing.assert_array_equal(runner(image=IMAGE)["probabilities"], expected)


def test_allocating_again_keeps_values_as_in_litert(ours, theirs):
    """Neither sets them to zero if no shape has changed."""
    for each in (ours, theirs):
        each.set_tensor(0, IMAGE)
        each.invoke()
        each.resize_tensor_input(0, IMAGE.shape)
        each.allocate_tensors()
    np.testing.assert_array_equal(ours.get_tensor(0), theirs.get_tensor(0))
    (result,) = ours.get_output_details()
    found, expected = (each.get_tensor(result["index"]) for each in (ours, theirs))
    np.testing.assert_array_equal(found, expected)


def test_tensors_inside_are_kept_on_request(theirs):
    kept = matloom.Interpreter(
        model_content=NETWORK.read_bytes(), experimental_preserve_all_tensors=True, **FAST
    )
    kept.allocate_tensors()
    for each in (kept, theirs):
        each.set_tensor(0, IMAGE)
        each.invoke()
    np.testing.assert_array_equal(kept.get_tensor(INSIDE), theirs.get_tensor(INSIDE))
    kept.close()


def test_another_shape_is_compiled_for():
    builder = GraphBuilder()
    scale = Quantisation(scale=(0.1,), zero_point=(3,))
    x = builder.input("x", (1, 4, 4, 2), "int8", scale)
    content = write_tflite(builder.graph(builder.add(Op.RELU, [x])))
    resized = matloom.Interpreter(model_content=content, **FAST)
    resized.allocate_tensors()
    data = np.arange(-48, 48).reshape(3, 4, 4, 2).astype(np.int8)
    resized.resize_tensor_input(0, data.shape)
    with pytest.raises(RuntimeError, match=r"call allocate_tensors\(\)"):
        resized.invoke()
    resized.allocate_tensors()
    (result,) = resized.get_output_details()
    assert result["shape"].tolist() == [3, 4, 4, 2]
    resized.set_tensor(0, data)
    resized.invoke()
    np.testing.assert_array_equal(resized.get_tensor(result["index"]), np.maximum(data, 3))
    with pytest.raises(UserError, match=r"must have shape \(1, 4, 4, 2\), not \(1, 9, 9, 2\)"):
        resized.resize_tensor_input(0, [1, 9, 9, 2], strict=True)
    resized.close()


def test_a_shape_that_a_network_cannot_have_is_refused(ours):
    # Its RESHAPE has a fixed batch, which LiteRT refuses, too.
    ours.resize_tensor_input(0, [2, 8, 8, 1])
    with pytest.raises(ModelError, match="do not fit the network"):
        ours.allocate_tensors()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda it: it.set_tensor(0, np.zeros((1, 8, 8, 1))),
            "type float64 but expected type int8",
        ),
        (lambda it: it.set_tensor(0, IMAGE[0]), r"shape \(8, 8, 1\) but expected \(1, 8, 8, 1\)"),
        (lambda it: it.set_tensor(20, IMAGE), r"must be an input, 0 \(image\), not 20"),
        (
            lambda it: it.set_tensor(99, IMAGE),
            "Invalid tensor index 99 exceeds max tensor index 21",
        ),
        (lambda it: it.get_tensor(-1), "Invalid tensor index -1 exceeds"),
        (lambda it: it.get_tensor(INSIDE), "is not kept: it is neither input nor output"),
        (lambda it: it.get_signature_runner("x"), "must be one of serving_default, not 'x'"),
        (lambda it: it.get_signature_runner()(picture=IMAGE), r"must be named \['image'\]"),
    ],
)
def test_a_wrong_call_is_a_value_error_as_in_litert(ours, call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(ours)


def test_calls_before_allocation_are_refused():
    unready = matloom.Interpreter(NETWORK, **FAST)
    with pytest.raises(RuntimeError, match="not ready"):
        unready.invoke()
    with pytest.raises(ValueError, match="Tensor data is null"):
        unready.get_tensor(0)
    with pytest.raises(UserError, match="nothing is compiled yet"):
        unready.report()


def test_other_files_are_refused_immediately():
    with pytest.raises(UserError, match="either a model_path or a model_content"):
        matloom.Interpreter()
    with pytest.raises(ModelError, match="no such file"):
        matloom.Interpreter("missing.tflite")
    with pytest.raises(ModelError, match="truncated or malformed"):
        matloom.Interpreter(model_content=NETWORK.read_bytes()[:40])


def test_delegates_are_ignored_with_a_note():
    delegate = litert.load_delegate("libedgetpu.so.1")
    with pytest.warns(CompatWarning, match="experimental_delegates are ignored"):
        matloom.Interpreter(NETWORK, experimental_delegates=[delegate], **FAST)


def test_a_compiled_program_counts_its_tensors():
    program = matloom.compile(NETWORK, "nano", check="none").to_bytes()
    network = matloom.Interpreter(model_content=program, device="model")
    network.allocate_tensors()
    assert [each["index"] for each in network.get_output_details()] == [1]
    network.set_tensor(0, IMAGE)
    network.invoke()
    assert network.get_tensor(1).shape == (1, 10)
    network.close()
