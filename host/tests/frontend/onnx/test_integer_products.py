"""MatMulInteger, as dynamic quantisation writes it: sums on the engine, equal to ONNX Runtime's."""

import itertools

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.frontend.onnx.integer_products import split_zero_points
from matloom.frontend.readers import load as load_graph
from matloom.ir.graph import Op
from matloom.kernels.onnx_sessions import onnx_session
from matloom.runtime import load

pytest.importorskip("onnxruntime")


def model(nodes, given, made, constants):
    """Return an ONNX file with an input x and an output y, (dtype, shape) each."""
    import onnx

    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(kind), shape)
        for name, (kind, shape) in (("x", given), ("y", made))
    ]
    held = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = onnx.helper.make_graph(nodes, "products", ends[:1], ends[1:], held)
    opset = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)


def dynamic(shape, columns, dtype=np.int8, zero=None, layers=1):
    """Return dense layers that `onnxruntime.quantization` has quantised dynamically."""
    from onnx import TensorProto
    from onnx.helper import make_node

    draw, nodes, constants, last = np.random.default_rng(0), [], {}, "x"
    sizes = [shape[-1], *[columns] * layers]
    limits = np.iinfo(dtype)
    for at, (inner, outer) in enumerate(itertools.pairwise(sizes)):
        low, high = (limits.min, limits.max + 1) if zero is None else (zero - 99, zero + 99)
        constants[f"w{at}"] = draw.integers(low, high, (inner, outer)).astype(dtype)
        constants[f"s{at}"] = np.float32(0.013)
        constants[f"b{at}"] = draw.standard_normal(outer).astype(np.float32)
        zeros = []
        if zero is not None:
            constants[f"z{at}"] = np.full(outer if at else (), zero, dtype)
            zeros = [f"z{at}"]
        made = "y" if at == layers - 1 else f"y{at}"
        bytes_of = [f"{kind}{at}" for kind in ("bytes", "scale", "zero")]
        nodes += [
            make_node("DynamicQuantizeLinear", [last], bytes_of),
            make_node("MatMulInteger", [bytes_of[0], f"w{at}", bytes_of[2], *zeros], [f"i{at}"]),
            make_node("Cast", [f"i{at}"], [f"f{at}"], to=TensorProto.FLOAT),
            make_node("Mul", [bytes_of[1], f"s{at}"], [f"scales{at}"]),
            make_node("Mul", [f"f{at}", f"scales{at}"], [f"p{at}"]),
            make_node("Add", [f"p{at}", f"b{at}"], [made]),
        ]
        last = made
    floats = np.dtype(np.float32)
    return model(nodes, (floats, shape), (floats, (*shape[:-1], columns)), constants)


def check(proto, tmp_path, device="model", config="nano", layers=1, operator="CONV_2D"):
    """Compare calls with ONNX Runtime; return the program."""
    path = tmp_path / "products.onnx"
    path.write_bytes(proto.SerializeToString())
    wanted, session = onnx_session(path.read_bytes()), load(path, device, config=config)
    draw = np.random.default_rng(1)
    given = session.program.inputs[0]
    for _call in range(2):
        x = 3 * draw.standard_normal(given.shape)
        if given.dtype != "float32":
            x = draw.integers(*((0, 256) if given.dtype == "uint8" else (-128, 128)), given.shape)
        x = x.astype(given.dtype)
        np.testing.assert_array_equal(session.run(x), wanted.run(None, {"x": x})[0])
    products = [layer for layer in session.program.layers if layer.operator == operator]
    assert [layer.where for layer in products] == ["engine"] * layers
    return session.program


@pytest.mark.parametrize(
    ("shape", "columns", "more"),
    [
        ((5, 40), 12, {}),
        ((2, 7, 33), 20, {"zero": 0, "layers": 3}),
        ((1, 2, 3, 16), 9, {"dtype": np.uint8, "zero": 128, "layers": 2}),
        ((4500, 8), 4, {"dtype": np.uint8, "zero": 110}),
    ],
)
def test_dynamic_quantisation(tmp_path, shape, columns, more):
    """The zero point of data is known in each run only; weights may have one for each column."""
    check(dynamic(shape, columns, **more), tmp_path, layers=more.get("layers", 1))


@pytest.mark.slow
@pytest.mark.parametrize("config", ["nano", "small", "reference"])
def test_the_chip_equals_onnx_runtime(tmp_path, config):
    check(dynamic((7, 40), 20, layers=2), tmp_path, "rtl", load_config(config), layers=2)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_a_constant_zero_point_is_a_bias(tmp_path, dtype):
    from onnx.helper import make_node

    draw = np.random.default_rng(0)
    constants = {"w": draw.integers(-128, 128, (21, 6), np.int8), "z": np.array(7, dtype)}
    nodes = [make_node("MatMulInteger", ["x", "w", "z"], ["y"])]
    ends = (np.dtype(dtype), (3, 21)), (np.dtype(np.int32), (3, 6))
    check(model(nodes, *ends, constants), tmp_path)


def test_other_products_stay_as_they_are(tmp_path):
    """Weights that do not fit int8 less their zero point, zero points of rows or columns."""
    from onnx.helper import make_node

    wide = dynamic((3, 8), 4, np.uint8)
    assert split_zero_points(wide) is wide
    nodes = [make_node("MatMulInteger", ["x", "x", "", "zeros"], ["y"])]
    ends = (np.dtype(np.int8), (5, 5)), (np.dtype(np.int32), (5, 5))
    square = model(nodes, *ends, {"zeros": np.arange(5, dtype=np.int8)})
    assert split_zero_points(square) is square
    for each in (wide, square):
        path = tmp_path / "left.onnx"
        path.write_bytes(each.SerializeToString())
        assert {node.op for node in load_graph(path).nodes} == {Op.REFERENCE}


def computed_product(shapes, zeros, dtype=np.uint8):
    """Return a product of two tensors; zero points are constants, None, or found in each run."""
    from onnx import TensorProto
    from onnx.helper import make_node

    (first, second), nodes, constants = shapes, [], {}
    size = int(np.prod(first))
    count = int(np.prod(second))
    constants["cuts"] = np.array([size, count], np.int64)
    nodes.append(make_node("Split", ["x", "cuts"], ["left", "right"], axis=0))
    names = []
    for name, shape, zero in zip(("left", "right"), shapes, zeros, strict=True):
        constants[f"{name} shape"] = np.array(shape, np.int64)
        dynamic_zero = zero == "dynamic"
        outputs = [f"{name} bytes", f"{name} scale", f"{name} zero"]
        if dynamic_zero:
            nodes.append(make_node("DynamicQuantizeLinear", [name], outputs))
        else:
            nodes.append(make_node("Cast", [name], outputs[:1], to=TensorProto.UINT8))
            if zero is not None:
                constants[outputs[2]] = np.array(zero, dtype)
        nodes.append(make_node("Reshape", [outputs[0], f"{name} shape"], [f"{name} matrix"]))
        names.append((f"{name} matrix", "" if zero is None else outputs[2]))
    operands, kinds = zip(*names, strict=True)
    nodes.append(make_node("MatMulInteger", [*operands, *kinds], ["y"]))
    shape = np.matmul(np.zeros(first), np.zeros(second)).shape
    ends = (np.dtype(np.float32), (size + count,)), (np.dtype(np.int32), shape)
    return model(nodes, *ends, constants)


@pytest.mark.parametrize(
    ("shapes", "zeros"),
    [
        (((5, 21), (21, 6)), ("dynamic", "dynamic")),
        (((2, 3, 40), (2, 40, 17)), ("dynamic", "dynamic")),
        (((4, 30), (30, 20)), (3, "dynamic")),
        (((4, 30), (30, 20)), ("dynamic", 200)),
        (((4, 30), (30, 20)), (None, "dynamic")),
        (((7, 9), (9, 5)), (7, 130)),
        (((7, 9), (9, 5)), (None, None)),
    ],
)
def test_products_of_computed_tensors(tmp_path, shapes, zeros):
    """Zero points of both may be known in each run only."""
    check(computed_product(shapes, zeros), tmp_path, operator="BATCH_MATMUL")


@pytest.mark.parametrize("config", ["nano+zero_points=1", "small", "reference+zero_points=1"])
@pytest.mark.slow
def test_the_chip_multiplies_computed_tensors_as_onnx_runtime(tmp_path, config):
    proto = computed_product(((2, 9, 40), (2, 40, 17)), ("dynamic", "dynamic"))
    check(proto, tmp_path, "rtl", load_config(config), operator="BATCH_MATMUL")
