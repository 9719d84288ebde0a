"""Programs of torch.export: read without torch, and equal to the module's results.

Most tests build programs from plain objects with the attributes of torch.export's.
"""

import operator
from types import SimpleNamespace

import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.frontend.errors import ModelError
from matloom.frontend.torch.exported import onnx_of_exported

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

X = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)


class Tensor:
    """The part of a torch tensor's interface that the reader uses."""

    def __init__(self, data):
        self.data, self.shape = data, data.shape
        self.dtype = f"torch.{data.dtype.name}"

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.data


class Program:
    """A program of torch.export, node by node."""

    def __init__(self, **held):
        self.state_dict = {name: Tensor(data) for name, data in held.items()}
        self.constants, self.nodes, self.decomposed = {}, [], 0
        self.graph_module = SimpleNamespace(graph=SimpleNamespace(nodes=self.nodes))
        self.graph_signature = SimpleNamespace(input_specs=[], output_specs=[])
        for name in held:
            self.enter(name, self.state_dict[name], "PARAMETER")

    def enter(self, name, value, kind="USER_INPUT"):
        self.nodes.append(
            SimpleNamespace(op="placeholder", name=name, target=name, meta={"val": value})
        )
        spec = SimpleNamespace(
            arg=SimpleNamespace(name=name), kind=SimpleNamespace(name=kind), target=name
        )
        self.graph_signature.input_specs.append(spec)
        return self.nodes[-1]

    def call(self, schema, parameters, made, *args, **kwargs):
        """Add a call; parameters are names, with a default after an equals sign."""
        listed = []
        for parameter in parameters.split():
            name, _, default = parameter.partition("=")
            listed.append(
                SimpleNamespace(
                    name=name,
                    has_default_value=lambda default=default: bool(default),
                    default_value=eval(default) if default else None,
                )
            )
        target = SimpleNamespace(_schema=SimpleNamespace(name=schema, arguments=listed))
        return self._node(target, made, args, kwargs)

    def item(self, node, at, made):
        return self._node(operator.getitem, made, (node, at), {})

    def _node(self, target, made, args, kwargs):
        name = f"node_{len(self.nodes)}"
        self.nodes.append(
            SimpleNamespace(
                op="call_function",
                name=name,
                target=target,
                args=args,
                kwargs=kwargs,
                meta={"val": made},
            )
        )
        return self.nodes[-1]

    def give(self, node, kind="USER_OUTPUT", target=None):
        spec = SimpleNamespace(
            arg=SimpleNamespace(name=node.name), kind=SimpleNamespace(name=kind), target=target
        )
        self.graph_signature.output_specs.append(spec)
        return self

    def run_decompositions(self):
        self.decomposed += 1
        return self


def like(*shape, dtype="float32"):
    return Tensor(np.zeros(shape, dtype))


def run(program, x=X):
    with matloom.load(program, device="model", config="nano", check="none") as session:
        return session.run(x)


def test_parameters_defaults_and_several_outputs():
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    program = Program(w=weight)
    x = program.enter("x", like(2, 4))
    w = program.nodes[0]
    line = program.call("aten::linear", "input weight bias=None", like(2, 3), x, w)
    parts = program.call(
        "aten::split", "self split_size dim=0", [like(2, 2), like(2, 1)], line, 2, dim=-1
    )
    first = program.item(parts, 0, like(2, 2))
    scaled = program.call("aten::add", "self other alpha=1", like(2, 2), first, 1, alpha=2)
    limited = program.call("aten::relu_", "self", like(2, 2), scaled)
    expected = np.maximum((X @ weight.T)[:, :2] + 2, 0)
    np.testing.assert_allclose(run(program.give(limited)), expected, rtol=1e-6)


def test_quantisation_keeps_its_operators():
    program = Program()
    x = program.enter("x", like(2, 4))
    to = "input scale zero_point quant_min quant_max dtype"
    space = "quantized_decomposed"
    q = program.call(
        f"{space}::quantize_per_tensor", to, like(2, 4, dtype="int8"), x, 0.5, 3, -7, 7, "int8"
    )
    back = f"{to} out_dtype=None"
    y = program.call(f"{space}::dequantize_per_tensor", back, like(2, 4), q, 0.5, 3, -7, 7, "int8")
    program.give(y)
    expected = (np.clip(np.rint(X / 0.5) + 3, -7, 7) - 3) * 0.5
    np.testing.assert_array_equal(run(program), expected.astype(np.float32))
    (node,) = frontend.load(program).nodes
    assert node.attributes.operators[:2] == ("QuantizeLinear", "Clip")


def test_a_quantised_layer_has_a_bias_of_integers():
    weight = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    scales = np.array([0.25, 0.5, 1], np.float32)
    held = {"w": weight, "s": scales, "z": np.zeros(3, np.int64)}
    bias = np.array([0.3, -2.2, 5], np.float32)
    program = Program(**held, b=bias)
    w, s, z, b = program.nodes
    space, to = "quantized_decomposed", "quant_min quant_max dtype"
    x = program.enter("x", like(2, 4))
    one = f"input scale zero_point {to}"
    q = program.call(
        f"{space}::quantize_per_tensor", one, like(2, 4, dtype="int8"), x, 0.5, 3, -128, 127, "int8"
    )
    data = program.call(
        f"{space}::dequantize_per_tensor", one, like(2, 4), q, 0.5, 3, -128, 127, "int8"
    )
    each = f"input scales zero_points axis {to}"
    kernel = program.call(
        f"{space}::dequantize_per_channel", each, like(3, 4), w, s, z, 0, -128, 127, "int8"
    )
    program.give(program.call("aten::linear", "input weight bias", like(2, 3), data, kernel, b))
    (node,) = frontend.load(program).nodes
    assert node.attributes.operators.count("DequantizeLinear") == 3
    units = 0.5 * scales
    real = np.rint(X / 0.5) * 0.5
    expected = real @ (weight * scales[:, np.newaxis]).T + np.rint(bias / units) * units
    np.testing.assert_allclose(run(program), expected, rtol=1e-6)


def test_the_calls_of_onnx_runtime_take_a_program():
    program = Program()
    x = program.enter("x", like(2, 4))
    program.give(program.call("aten::neg", "self", like(2, 4), x))
    with matloom.InferenceSession(program, device="model", config="nano", check="none") as session:
        assert [each.name for each in session.get_inputs()] == ["x"]
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], -X)


def test_unsupported_operators_are_decomposed_once():
    program = Program()
    x = program.enter("x", like(2, 4))
    program.give(program.call("aten::svd", "self", like(2, 4), x))
    with pytest.raises(ModelError, match=r"has the operator aten\.svd, which has no counter") as e:
        frontend.load(program)
    assert "torch.onnx.export(dynamo=True)" in e.value.hint
    assert program.decomposed == 1


def test_operators_of_users_become_registered_ones():
    program = Program()
    x = program.enter("x", like(2, 4))
    program.give(program.call("mine::twice", "self times", like(2, 4), x, 2.0))
    matloom.register_operator(
        "mine.twice", shape=lambda x, times: x, kernel=lambda use, x: x * np.float32(2)
    )
    try:
        np.testing.assert_array_equal(run(program), X * 2)
    finally:
        matloom.unregister_operator("mine.twice")


def test_state_that_a_run_changes_is_refused():
    program = Program()
    x = program.enter("x", like(2, 4))
    program.give(x, kind="BUFFER_MUTATION", target="running_mean")
    with pytest.raises(ModelError, match="changes 'running_mean' when it runs"):
        frontend.load(program)


def test_open_sizes_are_refused():
    program = Program()
    program.enter("x", SimpleNamespace(shape=("s0", 4), dtype="torch.float32"))
    with pytest.raises(ModelError, match="the exported program leaves the size s0 open"):
        frontend.load(program)


def test_a_module_that_is_not_exported_is_named():
    class Net:
        forward = named_parameters = state_dict = None

    with pytest.raises(ModelError, match="Net is a module of PyTorch, which must be exported"):
        matloom.compile(Net(), "nano")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_networks_of_torch_are_equal():
    """Each network of bench/exported.py gives PyTorch's results."""
    pytest.importorskip("torch", reason="torch is not installed")
    from exported import NETWORKS, measure

    for name in NETWORKS:
        row = measure(name, configs=())
        assert max(row["error"], row["file_error"]) <= 1e-5, row


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_quantised_network_of_torch_keeps_its_operators():
    """Every operator is there; outputs differ by the rounding of biases to integers."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torchao", reason="torchao is not installed")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as quantiser

    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, groups=8)]
    network = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(288, 5)).eval()
    images = torch.randn(8, 1, 3, 10, 10)
    chosen = quantiser.X86InductorQuantizer()
    chosen.set_global(quantiser.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(torch.export.export(network, (images[0],)).module(), chosen)
    for image in images:
        prepared(image)
    converted = convert_pt2e(prepared)
    program = torch.export.export(converted, (images[0],))
    names = [str(node.target) for node in program.graph_module.graph.nodes]
    kinds = [node.op_type for node in onnx.load_from_string(onnx_of_exported(program)).graph.node]
    for kind, name in (("QuantizeLinear", "quantize"), ("DequantizeLinear", "dequantize")):
        begin = f"quantized_decomposed.{name}"
        assert kinds.count(kind) >= sum(each.startswith(begin) for each in names) > 3
    with matloom.load(program, device="model", config="nano", check="none") as session:
        assert session.program.engine_macs > 0
        for image in images:
            (wanted,) = converted(image).detach().numpy()
            (found,) = session.run(image.numpy())
            np.testing.assert_allclose(found, wanted, rtol=0, atol=0.02 * np.abs(wanted).max())
