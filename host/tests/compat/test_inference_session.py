"""ONNX Runtime's calls: arguments, values and errors as its own session gives them.

Expected numbers are ONNX Runtime's.
"""

import numpy as np
import pytest

import matloom
from matloom.compat import onnxruntime as ours
from matloom.compat.session_options import CompatWarning
from matloom.data.digits import NETWORK
from matloom.errors import UserError, UserTypeError

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
theirs = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT

FAST = {"device": "model", "config": "nano", "check": "none"}
IMAGE = np.zeros((1, 8, 8, 1), np.int8)
ONE = np.arange(4, dtype=np.float32)[np.newaxis]


def file(batch):
    """Return a network with two outputs: RELU of x + w, and x + w."""
    tensors = [
        helper.make_tensor_value_info("x", FLOAT, [batch, 4]),
        helper.make_tensor_value_info("sum", FLOAT, None),
        helper.make_tensor_value_info("positive", FLOAT, [batch, 4]),
    ]
    weights = onnx.numpy_helper.from_array(np.array([-1, 2, -3, 4], np.float32), "w")
    nodes = [
        helper.make_node("Add", ["x", "w"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["positive"]),
    ]
    graph = helper.make_graph(nodes, "sums", tensors[:1], tensors[:0:-1], [weights])
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="test",
        model_version=7,
    )
    helper.set_model_props(model, {"names": "cat,dog"})
    return model.SerializeToString()


@pytest.fixture(scope="module")
def digits():
    with matloom.InferenceSession(NETWORK, **FAST) as session:
        yield session


@pytest.fixture(scope="module", params=[1, "batch", None])
def both(request):
    content = file(request.param)
    with matloom.InferenceSession(content, providers=["CPUExecutionProvider"], **FAST) as mine:
        yield mine, theirs.InferenceSession(content, providers=["CPUExecutionProvider"])


def test_arguments_are_onnx_runtime_s(both):
    for side in ("get_inputs", "get_outputs"):
        mine, other = ([(a.name, a.type, a.shape) for a in getattr(s, side)()] for s in both)
        assert mine == other
    mine, other = (session.get_modelmeta() for session in both)
    for name in ("producer_name", "graph_name", "version", "custom_metadata_map", "description"):
        assert getattr(mine, name) == getattr(other, name)


def test_values_are_onnx_runtime_s(both):
    mine, other = both
    for names in (None, [], ["sum"], ["sum", "positive"], ["positive", "positive"]):
        for x in (ONE, (ONE * -2).tolist()):
            for one, two in zip(mine.run(names, {"x": x}), other.run(names, {"x": x}), strict=True):
                np.testing.assert_array_equal(one, two)
                assert one.dtype == two.dtype
    assert mine.report().device == "model"


def test_open_sizes_are_compiled_for_as_they_come():
    content = file("batch")
    with matloom.InferenceSession(content, **FAST) as mine:
        with pytest.raises(UserError, match="leaves sizes of x open"):
            mine.report()
        expected = theirs.InferenceSession(content)
        for count in (1, 3, 1):
            x = np.repeat(ONE, count, axis=0)
            np.testing.assert_array_equal(
                mine.run(None, {"x": x})[0], expected.run(None, {"x": x})[0]
            )
        assert len(mine._sessions) == 2


def test_sizes_are_given_by_options_or_a_keyword():
    options = ours.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 1)
    three = np.repeat(ONE, 3, axis=0)
    expected = theirs.InferenceSession(file("batch")).run(["sum"], {"x": three})[0]
    for session in (
        ours.InferenceSession(file("batch"), options, **FAST),
        ours.InferenceSession(file(None), shapes={"x": (1, 4)}, **FAST),
    ):
        # Compiled once, it runs sample by sample.
        np.testing.assert_array_equal(session.run(["sum"], {"x": three})[0], expected)
        assert session.session.program.inputs[0].shape == (1, 4)
        session.close()


def test_bindings_hold_inputs_and_outputs(both):
    mine, other = both
    for module, session in ((ours, mine), (theirs, other)):
        binding = session.io_binding()
        target = module.OrtValue.ortvalue_from_shape_and_type([1, 4], np.float32)
        binding.bind_cpu_input("x", ONE)
        binding.bind_output("positive")
        binding.bind_ortvalue_output("sum", target)
        session.run_with_iobinding(binding)
        first, second = binding.copy_outputs_to_cpu()
        assert first.tolist() == [[0, 3, 0, 7]]
        assert second.tolist() == target.numpy().tolist() == [[-1, 3, -1, 7]]
        values = binding.get_outputs()
        assert [value.data_type() for value in values] == ["tensor(float)"] * 2
        assert values[0].shape() == [1, 4]
        given = {"x": module.OrtValue.ortvalue_from_numpy(ONE)}
        (made,) = session.run_with_ort_values(["sum"], given)
        assert made.numpy().tolist() == second.tolist()


@pytest.mark.parametrize(
    ("shape", "dtype"), [([1, 5], np.float32), ([4], np.float32), ([1, 4], np.float64)]
)
def test_an_output_does_not_fit_another_shape_or_type(both, shape, dtype):
    for module, session in zip((ours, theirs), both, strict=True):
        binding = session.io_binding()
        binding.bind_cpu_input("x", ONE)
        target = module.OrtValue.ortvalue_from_shape_and_type(shape, dtype)
        binding.bind_ortvalue_output("sum", target)
        with pytest.raises((UserError, RuntimeError)):
            session.run_with_iobinding(binding)


def test_memory_of_other_devices_is_refused():
    binding = ours.InferenceSession(file("batch"), **FAST).io_binding()
    with pytest.raises(UserError, match="must be 'cpu', not 'cuda'"):
        binding.bind_output("sum", "cuda")
    with pytest.raises(UserError, match="cannot be bound to an address"):
        binding.bind_input("x", "cpu", 0, np.float32, [1, 4], 4096)


@pytest.mark.parametrize(
    ("names", "feeds", "error", "sentence"),
    [
        (None, {}, ValueError, r"Required inputs \(\['image'\]\) are missing from input feed"),
        (None, {"image": IMAGE, "x": IMAGE}, ValueError, "an input must be one of image, not 'x'"),
        (["y"], {"image": IMAGE}, ValueError, "an output must be one of probabilities, not 'y'"),
        (None, {"image": IMAGE / 1}, UserTypeError, "must be int8, not float64"),
        (None, {"image": IMAGE[0]}, ValueError, r"must have shape \(1, 8, 8, 1\)"),
    ],
)
def test_a_wrong_call_is_refused(digits, names, feeds, error, sentence):
    with pytest.raises(error, match=sentence):
        digits.run(names, feeds)


def test_a_closed_session_does_not_run():
    session = matloom.InferenceSession(NETWORK, **FAST)
    session.close()
    with pytest.raises(matloom.DeviceClosedError):
        session.run(None, {"image": IMAGE})


@pytest.mark.parametrize("options", [ours.SessionOptions(), theirs.SessionOptions()])
def test_arguments_without_effect_are_reported(options, tmp_path):
    names = ["CUDAExecutionProvider", ("TensorrtExecutionProvider", {}), "CPUExecutionProvider"]
    sentence = "CUDAExecutionProvider, TensorrtExecutionProvider is ignored"
    with pytest.warns(CompatWarning, match=sentence) as told:
        session = matloom.InferenceSession(file("batch"), options, providers=names, **FAST)
    assert told[0].filename == __file__
    assert session.get_providers() == ours.get_available_providers()
    options.enable_profiling = True
    with pytest.warns(CompatWarning, match="enable_profiling is ignored"):
        matloom.InferenceSession(file("batch"), options, **FAST)
    options.enable_profiling = False
    module = theirs if isinstance(options, theirs.SessionOptions) else ours
    options.graph_optimization_level = module.GraphOptimizationLevel.ORT_DISABLE_ALL
    with pytest.warns(CompatWarning, match="graph_optimization_level ORT_DISABLE_ALL is ignored"):
        matloom.InferenceSession(file("batch"), options, **FAST)


def test_the_environment_chooses_where_a_script_does_not(monkeypatch):
    monkeypatch.setenv("MATLOOM_DEVICE", "fast")
    monkeypatch.setenv("MATLOOM_CONFIG", "nano")
    with matloom.InferenceSession(NETWORK, check="none") as session:
        assert (session.session.device, session.session.program.config.rows) == ("fast", 4)
    with matloom.InferenceSession(NETWORK, device="model", check="none") as session:
        assert session.session.device == "model"


def test_networks_of_tensorflow_lite_run_too(digits):
    (source,), (result,) = digits.get_inputs(), digits.get_outputs()
    assert (source.name, source.type, source.shape) == ("image", "tensor(int8)", [1, 8, 8, 1])
    (found,) = digits.run([result.name], {source.name: IMAGE})
    np.testing.assert_array_equal(found, digits.session.run(IMAGE))
