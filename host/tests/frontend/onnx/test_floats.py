"""ONNX networks of floats as graphs: equal to ONNX's own test cases and to ONNX Runtime."""

import warnings

import numpy as np
import pytest

from matloom import frontend
from matloom.frontend.errors import ModelError
from matloom.frontend.onnx.floats.decompose import DECOMPOSITIONS
from matloom.frontend.onnx.floats.read import CONVERTERS
from matloom.ir.attributes import BatchMatmul
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op
from matloom.kernels.expressions import STEPS
from matloom.kernels.moves import IndexRangeError
from matloom.passes import run_passes
from matloom.quantiser.run_nodes import outputs_of
from support.float_onnx import FloatFile, float_onnx

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

#: Operators that ONNX's cases have in other forms only.
_ELSEWHERE = {
    *("Dropout", "Einsum", "Expand", "Gather", "Identity", "LayerNormalization"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "ReduceLogSumExp", "Where"),
}
_OPERATORS = {*CONVERTERS, *DECOMPOSITIONS, *STEPS}
#: ONNX Runtime, which the reader follows, has another grid.
_OTHERWISE = {
    "test_resize_downsample_scales_cubic_align_corners",
    "test_resize_downsample_scales_linear_align_corners",
}


def cases():
    """Return ONNX's test cases of single operators that have a converter."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for case in found:
        nodes = case.model.graph.node
        known = len(nodes) == 1 and nodes[0].op_type in _OPERATORS
        if known and case.data_sets and case.name not in _OTHERWISE:
            inputs, outputs = case.data_sets[0]
            if len(inputs) and all(
                isinstance(each, np.ndarray | np.generic) and each.dtype != "bfloat16"
                for each in (*inputs, *outputs)
            ):
                yield case.model, inputs, outputs


def bound(model, inputs):
    """Return a file whose inputs but the first are constants, those of attention but three."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    names = [value.name for value in made.graph.input]
    for name, data in list(zip(names, inputs, strict=True))[_computed(model) :]:
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(data), name))
    return made.SerializeToString()


def _computed(model):
    return 3 if model.graph.node[0].op_type == "Attention" else 1


@pytest.mark.slow
def test_operators_compute_what_onnx_says():
    """Expected values are those of ONNX's own test cases."""
    passed, refused = set(), []
    for model, inputs, outputs in cases():
        op = model.graph.node[0].op_type
        try:
            graph = frontend.load_floats(bound(model, inputs))
        except ModelError as error:
            refused.append(str(error))
            continue
        if not graph.nodes:
            continue
        given = {
            number: np.asarray(data, graph.tensors[number].dtype)[np.newaxis]
            for number, data in zip(graph.inputs, inputs, strict=False)
        }
        try:
            results = outputs_of(graph, given)
        except IndexRangeError:
            # Integers that choose no rows are 0 and 1.
            assert any(graph.tensors[number].dtype != "float32" for number in graph.inputs)
            continue
        for result, wanted in zip(results, outputs, strict=False):
            assert result[0].shape == wanted.shape, (op, model.graph.name)
            assert np.allclose(result[0], wanted, rtol=1e-4, atol=1e-4), (op, model.graph.name)
        passed.add(op)
    assert _OPERATORS - passed <= _ELSEWHERE
    assert refused
    assert not any("\n" in message for message in refused)


def test_a_network_computes_what_onnx_runtime_does():
    content = float_onnx()
    graph = frontend.load_floats(content)
    images = np.random.default_rng(1).normal(0, 1, (3, 1, 3, 8, 8)).astype(np.float32)
    (results,) = outputs_of(graph, {graph.inputs[0]: images})
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    for image, result in zip(images, results, strict=True):
        assert np.allclose(session.run(None, {"image": image})[0], result, atol=1e-6)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_exponentials_of_large_numbers_do_not_overflow(keepdims):
    file = FloatFile()
    made = file.add("ReduceLogSumExp", "image", axes=[1], keepdims=keepdims)
    content = file.content((2, 5), made)
    graph = frontend.load_floats(content)
    rows = np.random.default_rng(1).normal((200, -200), 3, (4, 5, 2)).transpose(0, 2, 1)
    (results,) = outputs_of(graph, {graph.inputs[0]: rows.astype(np.float32)})
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    for row, result in zip(rows.astype(np.float32), results, strict=True):
        np.testing.assert_allclose(session.run(None, {"image": row})[0], result, rtol=1e-6)


def odd_ones():
    """Return a network of operators that a file may have in several forms."""
    file = FloatFile()
    line = file.add("Squeeze", "image", file.constant(np.array([2])))
    gate = file.add("HardSigmoid", line, alpha=1 / 6, beta=0.5)
    gated = file.add("Identity", file.add("Mul", gate, line))
    made = file.add("Conv", gated, file.weights(4, 6, 3), pads=[1, 1], strides=[2])
    grouped = file.add("Conv", made, file.weights(4, 2, 3), file.bias(4), group=2, dilations=[2])
    return file.content((1, 6, 1, 14), file.add("Transpose", grouped, perm=[0, 2, 1]))


def test_lines_groups_and_gates():
    """Convolutions of one dimension, of groups, and with gaps in their window."""
    content = odd_ones()
    graph = frontend.load_floats(content)
    lines = np.random.default_rng(2).normal(0, 2, (2, 1, 6, 1, 14)).astype(np.float32)
    (results,) = outputs_of(graph, {graph.inputs[0]: lines})
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    for line, result in zip(lines, results, strict=True):
        assert np.allclose(session.run(None, {"image": line})[0], result, atol=1e-5)


def _sizes(file, *numbers):
    return file.constant(np.array(numbers, np.int64))


def attention():
    """Return attention as PyTorch's exporter writes it: gathered parts, a scale from a shape."""
    file = FloatFile()
    parts = file.add(
        "Reshape", file.add("MatMul", "image", file.weights(8, 24)), _sizes(file, 5, 1, 3, 8)
    )
    parts = file.add(
        "Transpose", file.add("Unsqueeze", parts, _sizes(file, 0)), perm=[3, 1, 2, 0, 4]
    )
    parts = file.add("Squeeze", parts, _sizes(file, 3))
    query, key, value = (
        file.add(
            "Transpose",
            file.add(
                "Reshape",
                file.add("Gather", parts, file.constant(np.array(at)), axis=0),
                _sizes(file, 5, 2, 4),
            ),
            perm=[1, 0, 2],
        )
        for at in range(3)
    )
    width = file.add("Slice", file.add("Shape", query), _sizes(file, -1), _sizes(file, 2**31))
    root = file.add("Sqrt", file.add("Cast", width, to=onnx.TensorProto.FLOAT))
    scale = file.add("Sqrt", file.add("Div", file.constant(np.ones(1, np.float32)), root))
    scores = file.add(
        "MatMul",
        file.add("Mul", query, scale),
        file.add("Mul", file.add("Transpose", key, perm=[0, 2, 1]), scale),
    )
    return file.content((5, 1, 8), file.add("MatMul", file.add("Softmax", scores), value))


def every_second():
    """Return a network that takes places from axes of an image that its channels follow."""
    file = FloatFile()
    made = file.add("Conv", "image", file.weights(4, 3, 3, 3), pads=[1, 1, 1, 1])
    taken = file.add("Gather", made, _sizes(file, 7, 5, 3, 1), axis=-2)
    return file.content(
        (1, 3, 8, 6), file.add("Gather", taken, file.constant(np.array(-1)), axis=3)
    )


def scattered():
    """Return a network with unevenly spaced, repeated and two-dimensional indices of Gather."""
    file = FloatFile()
    made = file.add("Conv", "image", file.weights(4, 3, 3, 3), pads=[1, 1, 1, 1])
    rows = file.add("Gather", made, _sizes(file, 0, 1, 2, 7, 5, 5, -1), axis=2)
    places = file.constant(np.array([[0, 2, 4], [1, 1, 5]], np.int64))
    return file.content((1, 3, 8, 6), file.add("Gather", rows, places, axis=3))


def resized(**options):
    """Return a function that makes a network with a Resize of 8 x 6 positions."""

    def make():
        file = FloatFile()
        made = file.add("Conv", "image", file.weights(4, 3, 3, 3), pads=[1, 1, 1, 1])
        if "scales" in options:
            scales = np.array([1, 1, *options["scales"]], np.float32)
            sides = ["", file.constant(scales)]
        else:
            sides = ["", "", _sizes(file, 1, 4, *options["sizes"])]
        others = {name: value for name, value in options.items() if name not in ("scales", "sizes")}
        made = file.add("Resize", made, *sides, **others)
        return file.content((1, 3, 8, 6), made, opset=18 if "antialias" in options else 17)

    return make


RESIZED = {
    "corners": resized(
        sizes=(11, 9), mode="linear", coordinate_transformation_mode="align_corners"
    ),
    "half pixels": resized(scales=(1.7, 2.3), mode="linear"),
    "asymmetric": resized(
        sizes=(16, 12), mode="linear", coordinate_transformation_mode="asymmetric"
    ),
    "smaller": resized(sizes=(5, 3), mode="linear"),
    "cubic": resized(sizes=(16, 12), mode="cubic", cubic_coeff_a=-0.75),
    "nearest": resized(sizes=(11, 4), mode="nearest"),
    "antialias": resized(sizes=(4, 3), mode="linear", antialias=1),
}


def grouped(ones=True):
    """Return the normalisation of two groups of channels, as PyTorch exports it."""
    file = FloatFile()
    made = file.add("Conv", "image", file.weights(4, 3, 3, 3), pads=[1, 1, 1, 1])
    groups = file.add("Reshape", made, _sizes(file, 0, 2, -1))
    scales = [file.constant(np.full(2, each, np.float32)) for each in (1, 0)]
    scales = scales if ones else [file.bias(2), file.bias(2)]
    groups = file.add("InstanceNormalization", groups, *scales, epsilon=1e-3)
    made = file.add("Reshape", groups, file.add("Shape", made))
    made = file.add("Mul", made, file.weights(4, 1, 1))
    made = file.add("Add", made, file.weights(4, 1, 1))
    return file.content((1, 3, 8, 6), file.add("Conv", made, file.weights(4, 4, 3, 3)))


def test_groups_keep_channels_last():
    """The engine turns no axes but those of the input and the output."""
    graph = run_passes(frontend.load_floats(grouped()))
    assert [node.op for node in graph.nodes].count(Op.TRANSPOSE) == 2


def choices():
    """Return choices by known conditions: from two values, from zeros of a larger shape."""
    file = FloatFile()
    made = file.add("Conv", "image", file.weights(4, 3, 3, 3), pads=[1, 1, 1, 1])
    condition = file.constant(file.random.random((8, 1)) < 0.5)
    either = file.add("Where", condition, made, file.add("Neg", made))
    row = file.add("ReduceMean", either, axes=[2], keepdims=1)
    zeros = file.constant(np.zeros((5, 1), np.float32))
    return file.content((1, 3, 8, 6), file.add("Where", file.constant(np.array(True)), row, zeros))


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (attention, (5, 1, 8)),
        (every_second, (1, 3, 8, 6)),
        (scattered, (1, 3, 8, 6)),
        (grouped, (1, 3, 8, 6)),
        (lambda: grouped(ones=False), (1, 3, 8, 6)),
        (choices, (1, 3, 8, 6)),
        *((make, (1, 3, 8, 6)) for make in RESIZED.values()),
    ],
    ids=["attention", "places", "scattered", "groups", "scaled groups", "choices", *RESIZED],
)
def test_parts_and_choices(make, shape):
    content = make()
    graph = frontend.load_floats(content)
    given = np.random.default_rng(3).normal(0, 2, (2, *shape)).astype(np.float32)
    (results,) = outputs_of(graph, {graph.inputs[0]: given})
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    for each, result in zip(given, results, strict=True):
        np.testing.assert_allclose(session.run(None, {"image": each})[0], result, atol=1e-5)


@pytest.mark.parametrize(
    "equation",
    ["bqhd,bkhd->bhqk", "bhqd,bkhd->bqhk", "bqhd,bqhd->bqh", "bqhd,hde->bqe", "abcd,abce->ced"],
)
@pytest.mark.parametrize("constant", [False, True])
def test_einsum(equation, constant):
    sizes = {"a": 2, "b": 1, "c": 3, "d": 4, "e": 5, "h": 2, "k": 6, "q": 7}
    first, second = (
        [sizes[axis] for axis in term] for term in equation[:-1].split("->")[0].split(",")
    )
    file, random = FloatFile(), np.random.default_rng(5)
    given = random.normal(0, 1, first).astype(np.float32)
    size = int(np.prod(second))
    if constant:
        other = file.constant(random.normal(0, 1, second).astype(np.float32))
    else:
        row = file.add("Reshape", "image", _sizes(file, 1, -1))
        row = file.add("MatMul", row, file.weights(given.size, size))
        other = file.add("Reshape", row, _sizes(file, *second))
    made = file.add("Einsum", "image", other, equation=equation)
    content = file.content(tuple(first), made)
    graph = frontend.load_floats(content)
    (result,) = outputs_of(graph, {graph.inputs[0]: given[np.newaxis]})
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(
        result[0], session.run(None, {"image": given})[0], rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("equation", ["ij,jk", "ij->ji", "ii,ij->j", "...i,ij->...j", "ij,kl->il"])
def test_equations_that_are_refused(equation):
    file = FloatFile()
    operands = ["image", file.weights(4, 4)][: equation.count(",") + 1]
    content = file.content((4, 4), file.add("Einsum", *operands, equation=equation))
    with pytest.raises(ModelError, match="Einsum, which makes 'value_0', "):
        frontend.load_floats(content)


def test_products_of_computed_tensors():
    """As in attention; written as an ONNX file again, they are the same."""
    file = FloatFile()
    keys = file.add("MatMul", "image", file.weights(6, 6))
    scores = file.add("MatMul", "image", file.add("Transpose", keys, perm=[0, 2, 1]))
    content = file.content((2, 5, 6), file.add("MatMul", file.add("Softmax", scores), keys))
    graph = frontend.load_floats(content)
    rows = np.random.default_rng(2).normal(0, 2, (2, 5, 6)).astype(np.float32)
    (results,) = outputs_of(graph, {graph.inputs[0]: rows[None]})
    for each in (content, frontend.write(graph, ".onnx")[1]):
        session = ort.InferenceSession(each, providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {"image": rows})
        assert np.allclose(found, results[0], atol=1e-5)


def test_transposed_operands_become_transposes():
    builder = GraphBuilder("product")
    operands = [
        builder.input(name, shape, "float32")
        for name, shape in (("a", (3, 6, 5)), ("b", (3, 4, 6)))
    ]
    both = BatchMatmul(adj_x=True, adj_y=True)
    graph = builder.graph(builder.add(Op.BATCH_MATMUL, operands, both))
    random = np.random.default_rng(4)
    given = {
        each.name: random.normal(0, 1, each.shape) for each in map(graph.tensors.get, operands)
    }
    given = {name: array.astype(np.float32) for name, array in given.items()}
    session = ort.InferenceSession(
        frontend.write(graph, ".onnx")[1], providers=["CPUExecutionProvider"]
    )
    wanted = given["a"].swapaxes(1, 2) @ given["b"].swapaxes(1, 2)
    assert np.allclose(session.run(None, given)[0], wanted, atol=1e-5)


def tokens(use, *, rows=9):
    """Return a network of tokens (1, 6) that `use` finishes, and tokens, some of them 0."""
    file = FloatFile()
    table = file.constant(file.random.normal(size=(rows, 4)).astype(np.float32))
    scores = file.add("Gather", table, "image")
    output = use(file, file.add("MatMul", scores, file.add("Transpose", scores, perm=[0, 2, 1])))
    given = np.random.default_rng(1).integers(0, rows, (5, 1, 6))
    given[:, 0, :2] = 0
    return file.content((1, 6), output, kind=7), given


def number(file, value, dtype=np.int64):
    return file.constant(np.array(value, dtype))


def added_mask(file, scores):
    padding = file.add("Equal", "image", number(file, 0))
    zeros = file.constant(np.zeros((1, 6), np.float32))
    mask = file.add("Where", padding, number(file, -np.inf, np.float32), zeros)
    rows = file.add("Reshape", mask, file.constant(np.array([1, 1, 6])))
    return file.add("Softmax", file.add("Add", scores, rows), axis=-1)


def chosen_mask(file, scores):
    used = file.add("Not", file.add("Equal", "image", number(file, 0)))
    rows = file.add("Unsqueeze", used, file.constant(np.array([1])))
    unused = file.add("Equal", rows, number(file, False, bool))
    masked = file.add("Where", unused, number(file, -1e9, np.float32), scores)
    return file.add("Softmax", masked, axis=-1)


def weighted_rows(file, scores):
    large = file.add("Cast", file.add("Mul", "image", number(file, 3)), to=1)
    rows = file.add("Unsqueeze", large, file.constant(np.array([2])))
    return file.add("Mul", scores, file.add("Expand", rows, file.constant(np.array([1, 6, 6]))))


def otherwise(file, scores):
    """The condition chooses the scores; indices are cast and cut before."""
    short = file.add("Cast", "image", to=6)
    small = file.add("Less", short, number(file, 4, np.int32))
    rows = file.add("Reshape", small, file.constant(np.array([1, 6, 1])))
    return file.add("Where", rows, scores, number(file, 0.5, np.float32))


def by_place(file, scores):
    """Tokens of the first half are compared with 0, others with 1."""
    numbers = file.constant(np.array([[0, 0, 0, 1, 1, 1]]))
    return file.add("Add", scores, file.add("Cast", file.add("Equal", "image", numbers), to=1))


def rearranged(file, scores):
    """Tokens are repeated, moved and chosen before they are compared."""
    twice = file.add("Tile", "image", file.constant(np.array([1, 2])))
    part = file.add("Gather", twice, file.constant(np.array([7, 0, 5, 3, 3, 11])), axis=1)
    wanted = file.add("Greater", file.add("Transpose", part, perm=[1, 0]), number(file, 3))
    return file.add("Where", wanted, scores, number(file, 2, np.float32))


def other_rows(file, scores):
    """Rows of a second table are chosen by a function of tokens."""
    odd = file.add("Mod", "image", number(file, 2))
    places = file.add("Gather", "image", file.constant(np.array([0])), axis=1)
    for indices in (file.add("Sub", number(file, 1), odd), places):
        table = file.constant(file.random.normal(size=(9, 6)).astype(np.float32))
        scores = file.add("Add", scores, file.add("Gather", table, indices))
    return scores


def never(file, scores):
    """No index is 50, so that only zeros are left."""
    rows = file.add("Reshape", "image", file.constant(np.array([1, 6, 1])))
    wanted = file.add("Equal", rows, number(file, 50))
    return file.add("Where", wanted, scores, number(file, 0, np.float32))


@pytest.mark.parametrize(
    "use",
    [added_mask, chosen_mask, weighted_rows, otherwise, by_place, rearranged, other_rows, never],
)
def test_functions_of_indices_are_tables(use):
    content, given = tokens(use)
    graph = frontend.load_floats(content)
    (ours,) = outputs_of(graph, {graph.inputs[0]: given})
    session = ort.InferenceSession(content)
    for array, result in zip(given, ours, strict=True):
        wanted = session.run(None, {"image": array})[0]
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def without_table(file, scores):
    half = file.add("Cast", file.add("Relu", scores), to=7)
    return file.add("Add", scores, file.add("Cast", half, to=1))


def several_numbers(file, scores):
    """Each place compares its token with another number."""
    numbers = file.constant(np.arange(6).reshape(1, 6))
    return file.add("Add", scores, file.add("Cast", file.add("Equal", "image", numbers), to=1))


@pytest.mark.parametrize("use", [without_table, several_numbers])
def test_other_computations_with_integers_are_refused(use):
    with pytest.raises(ModelError, match="cannot be quantised: "):
        frontend.load_floats(tokens(use)[0])


def unknown():
    file = FloatFile()
    return file.content((1, 4), file.add("Hardmax", "image"))


def computed_weights():
    file = FloatFile()
    return file.content((2, 2), file.add("Gemm", "image", "image"))


def of_integers():
    file = FloatFile()
    return file.content((1, 4), file.add("Neg", "image"), kind=7)


def of_bytes():
    file = FloatFile()
    return file.content((1, 4), file.add("Cast", "image", to=1), kind=3)


def integer_table():
    file = FloatFile()
    table = file.constant(np.arange(8))
    return file.content((1, 4), file.add("Gather", table, "image"), kind=7)


def computed_index():
    file = FloatFile()
    index = file.add("Relu", "image")
    table = file.constant(np.ones((8, 2), np.float32))
    return file.content((1, 4), file.add("Gather", table, index))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_of_computed_indices(axis, dtype):
    """Indices pass through operators that move them; a table may be computed, too."""
    kind, rng = {np.int32: 6, np.int64: 7}[dtype], np.random.default_rng(axis + 5)
    file = FloatFile()
    table = file.constant(rng.normal(size=(5, 7, 6)).astype(np.float32))
    shape = file.constant(np.array([3, 2]))
    moved = file.add("Reshape", file.add("Cast", "image", to=kind), shape)
    rows = file.add("Gather", table, moved, axis=axis)
    content = file.content((2, 3), file.add("Gather", file.add("Relu", rows), moved, axis=1), kind)
    given = rng.integers(0, 2, (4, 2, 3), dtype)
    graph = frontend.load_floats(content)
    assert [node.op for node in graph.nodes if node.op is Op.GATHER] == [Op.GATHER] * 2
    (ours,) = outputs_of(graph, {graph.inputs[0]: given})
    session = ort.InferenceSession(content)
    for array, result in zip(given, ours, strict=True):
        np.testing.assert_array_equal(session.run(None, {"image": array})[0], result)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (unknown, "cannot be quantised: Hardmax, which makes 'value_0', has no integer form"),
        (computed_weights, "Gemm, which makes 'value_0', computes 'image', which must be"),
        (
            of_integers,
            "cannot be quantised: output 'value_0' computes with integers",
        ),
        (of_bytes, "must have inputs of float32, or indices of int32 or int64, to be quantised"),
        (
            integer_table,
            "cannot be quantised: Gather, which makes 'value_0', computes with integers",
        ),
        (
            computed_index,
            "Gather, which makes 'value_1', has indices that are computed from floats",
        ),
    ],
)
def test_networks_that_cannot_be_quantised(make, message):
    with pytest.raises(ModelError, match=message):
        frontend.load_floats(make())
