"""Quantised layers of ONNX on the engine: equal to ONNX Runtime, without needless transposes.

Expected numbers are ONNX Runtime's, with sums that do not saturate (`onnx_session`).
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.ir.graph import Op
from matloom.kernels.interpreters import onnx_session
from matloom.tools.bench import collection
from matloom.tools.compare import compare

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT


class Network:
    """A chain of quantised operators between QuantizeLinear and DequantizeLinear.

    Scales have many digits, as those of real networks: ratios of short ones are halves too often.
    """

    def __init__(self, shape, dtype, seed=0):
        self.random, self.dtype = np.random.default_rng(seed), dtype
        self.constants, self.nodes = {}, []
        self.input = helper.make_tensor_value_info("x", FLOAT, shape)
        self.last = self.add("QuantizeLinear", ["x", *self.quantisation(0.0313717, 7)])

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def quantisation(self, scale, zero):
        zero += 128 if self.dtype == np.uint8 else 0
        return [self.constant(np.array(scale, np.float32)), self.constant(self.dtype(zero))]

    def add(self, op, inputs, domain="", **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], domain=domain, **attributes))
        return name

    def weighted(self, op, shape, scales, made, *, bias=None, **attributes):
        """Add a layer whose weights have a scale for each channel."""
        given = self.quantised
        weights = self.random.integers(-127, 128, shape, np.int8)
        zeros = np.zeros(np.shape(scales), np.int8)
        held = [weights, np.array(scales, np.float32), zeros]
        self.quantised = self.quantisation(*made)
        names = [self.last, *given, *map(self.constant, held), *self.quantised]
        if bias is not None:
            names.append(self.constant(self.random.integers(-bias, bias, shape[0], np.int32)))
        self.last = self.add(op, names, **attributes)

    def move(self, op, *more, **attributes):
        self.last = self.add(op, [self.last, *more], **attributes)

    def file(self):
        y = self.add("DequantizeLinear", [self.last, *self.quantised])
        made = helper.make_tensor_value_info(y, FLOAT, None)
        given = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in self.constants.items()]
        graph = helper.make_graph(self.nodes, "net", [self.input], [made], given)
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        return onnx.shape_inference.infer_shapes(model).SerializeToString()

    @property
    def quantised(self):
        """The scale and zero point of the last tensor."""
        return self._quantised

    @quantised.setter
    def quantised(self, names):
        self._quantised = names


def chain(dtype):
    """Return convolutions, a depthwise one, a pool, a flattening and a product."""
    network = Network([1, 3, 12, 10], dtype)
    network.quantised = network.nodes[0].input[1:]
    around = {"bias": 900, "pads": [1, 0, 1, 2]}
    network.weighted("QLinearConv", (8, 3, 3, 3), 0.0113411, (0.4127391, -3), **around)
    network.move("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    apart = {"group": 8, "strides": [2, 1]}
    network.weighted("QLinearConv", (8, 1, 3, 3), 0.0131137, (0.3071913, 5), **apart)
    same = {"auto_pad": b"SAME_UPPER"}
    network.weighted("QLinearConv", (6, 8, 1, 1), 0.0091137, (0.4391173, -128), **same)
    network.move("Flatten")
    network.weighted("QLinearMatMul", (36, 5), 0.0171137, (1.1313737, 0))
    return network.file()


def expected(content, x):
    return onnx_session(content).run(None, {"x": x})[0]


def inputs(shape, count):
    generator = np.random.default_rng(2)
    return [generator.standard_normal(shape).astype(np.float32) * 3 for _ in range(count)]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_chain_is_on_the_engine_and_equal(dtype):
    content = chain(dtype)
    program = matloom.compile(content, "nano", check="full")
    on_engine = {layer.operator for layer in program.layers if layer.where == "engine"}
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "FULLY_CONNECTED"} <= on_engine
    with matloom.load(program, device="model") as session:
        for x in inputs((1, 3, 12, 10), 5):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


def test_a_chain_on_the_chip():
    content = chain(np.uint8)
    (x,) = inputs((1, 3, 12, 10), 1)
    with matloom.load(content, device="rtl", config="nano") as session:
        np.testing.assert_array_equal(session.run(x), expected(content, x))


def test_no_transpose_between_layers():
    """One into the order of the graph, one out of it, for the flattening has the file's order."""
    operators = Counter(node.op for node in frontend.load(chain(np.int8)).nodes)
    assert operators[Op.TRANSPOSE] == 2


def test_transposes_of_the_file_meet_those_of_the_layout():
    network = Network([1, 9, 8, 4], np.int8)
    network.quantised = network.nodes[0].input[1:]
    network.move("Transpose", perm=[0, 3, 1, 2])
    network.weighted("QLinearConv", (4, 4, 3, 3), 0.0113411, (0.4127391, -3))
    network.move("Transpose", perm=[0, 2, 3, 1])
    graph = frontend.load(network.file())
    # ONNX Runtime has the first, in front of the layer; the second is the graph's own order.
    assert Counter(node.op for node in graph.nodes)[Op.TRANSPOSE] == 1
    assert compare(network.file()).equal


def test_a_layer_that_cannot_be_proven_stays_with_onnx_runtime():
    """A scale of one half: halves go to the even number there, and up on the engine."""
    network = Network([1, 4, 6, 6], np.int8)
    network.quantised = network.quantisation(0.5, 0)
    network.weighted("QLinearConv", (4, 4, 1, 1), 0.25, (0.25, 0))
    network.weighted("QLinearConv", (4, 4, 1, 1), 0.0131137, (0.3071913, 0))
    program = matloom.compile(network.file(), "nano")
    assert [layer.operator for layer in program.layers if layer.where == "engine"][:1] != []
    reasons = [layer.reason for layer in program.layers if layer.operator == "QLinearConv"]
    assert len(reasons) == 1
    assert "rounds otherwise than ONNX Runtime, in 4 of 4 channels" in reasons[0]
    assert compare(network.file()).equal


def names():
    """Return the networks of the collection of ONNX files."""
    folder = collection("onnx")
    files = [] if folder is None else sorted((folder / "models").rglob("*.onnx"))
    return [path.relative_to(folder / "models").with_suffix("").as_posix() for path in files]


@pytest.mark.parametrize("name", names() or [None])
def test_recorded_outputs(name):
    """Integers behind quantised outputs are equal, floats within 1e-5 of the largest."""
    folder = collection("onnx")
    if folder is None or name is None:
        pytest.skip("the collection is not there")
    dims = {"unk__68": 1} if "static_qdq" in name else None
    path = Path(folder, "models", f"{name}.onnx")
    with np.load(folder / "golden" / f"{name.replace('/', '__')}.npz") as golden:
        given = [golden[f"in{at}"] for at in range(len(golden["in_names"]))]
        wanted = [golden[f"out{at}_ort"] for at in range(len(golden["out_names"]))]
        ends = golden["in_names"].tolist(), golden["out_names"].tolist()
    with matloom.load(path, device="model", config="nano", dims=dims) as session:
        for at in range(len(given[0])):
            found = session.run(dict(zip(ends[0], (each[at] for each in given), strict=True)))
            found = found if isinstance(found, dict) else {ends[1][0]: found}
            for output, arrays in zip(ends[1], wanted, strict=True):
                off = np.abs(found[output] - arrays[at]).max()
                assert off <= (0 if "micro_kws" in name else 1e-5 * np.abs(arrays[at]).max())
