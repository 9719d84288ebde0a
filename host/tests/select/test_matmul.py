"""Products of two computed tensors: tiles, zero points, repeated calls, and what proofs find."""

from dataclasses import replace

import numpy as np
import pytest

from matloom.arch.config import PRESETS, load_config
from matloom.arch.isa import Opcode, RowFunction
from matloom.arch.machine import Machine
from matloom.compiler import CompileOptions, compile_network
from matloom.device.open import open_device
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import Activation, BatchMatmul, FullyConnected, Softmax, Transpose
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.program.disassemble import disassemble
from matloom.program.instruction_table import unpack_all
from matloom.runtime import load
from matloom.select.operators import stages_of
from matloom.tools.compare import random_inputs
from matloom.tools.references import MicroReference
from matloom.verification.random_operators import RandomOperators

NANO = PRESETS["nano"]
SUBTRACTING = replace(NANO, zero_points=1)
#: Knobs with which a product of two computed tensors takes hardly longer than one of constants.
PRODUCTS = "+transposed_weights=1+zero_points=1"
DEFAULTS = CompileOptions()


def product(left, right, zeros, *, adj_x=False, adj_y=False, sums=False):
    """Return the network of one product of tensors of these shapes and zero points.

    With `sums` its results are its sums, int32.
    """
    builder = GraphBuilder("product")
    inputs = [
        builder.input(name, shape, "int8", Quantisation(scale=(0.02,), zero_point=(zero,)))
        for name, shape, zero in zip("ab", (left, right), zeros, strict=True)
    ]
    attributes = BatchMatmul(adj_x=adj_x, adj_y=adj_y)
    if sums:
        return builder.graph(builder.add(Op.BATCH_MATMUL, inputs, attributes, dtype="int32"))
    scale = Quantisation(scale=(2.0,), zero_point=(-3,))
    return builder.graph(builder.add(Op.BATCH_MATMUL, inputs, attributes, quantisation=scale))


def check(graph, device, config, calls=2, options=DEFAULTS):
    """Compare calls with TensorFlow Lite Micro; return the program."""
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    program = compile_network(graph, config, options)
    assert all(layer.where == "engine" for layer in program.layers)
    reference = MicroReference(write_tflite(graph), graph)
    session = load(program, device)
    for call in range(calls):
        inputs = random_inputs(graph, call)
        wanted = reference.run(inputs)[graph.outputs[0]]
        found = session.run({graph.tensors[at].name: array for at, array in inputs.items()})
        np.testing.assert_array_equal(next(iter(found.values())), wanted)
    return program


@pytest.mark.parametrize("zeros", [(0, 0), (-128, 0), (0, -128), (-128, 127)])
def test_zero_points_are_exact(zeros):
    check(product((3, 9), (9, 6), zeros), "model", NANO, calls=1)


@pytest.mark.parametrize("zeros", [(-128, 0), (0, 127), (5, 3), (127, -128)])
def test_exec_subtracts_zero_points(zeros):
    """Of several blocks, rows and images, in tiles of any size; they take no cycles."""
    for left, right in (((2, 21, 19), (2, 19, 37)), ((64, 64), (64, 64))):
        graph = product(left, right, zeros)
        compile_network(graph, SUBTRACTING, check="full")
        for seed in (None, 0, 1, 2):
            options = CompileOptions(tiling_seed=seed)
            program = check(graph, "model", SUBTRACTING, calls=1, options=options)
            assert "zero_points=1" in disassemble(program)
        plain = compile_network(product(left, right, (0, 0)), SUBTRACTING)
        assert "zero_points=1" not in disassemble(plain)
        assert compile_network(graph, SUBTRACTING).predicted_cycles == plain.predicted_cycles
        assert compile_network(graph, NANO).predicted_cycles > 1.5 * plain.predicted_cycles


def test_large_products_are_cut_into_groups_of_columns():
    """The panels of all columns would leave no room on chip."""
    graph = product((5, 600), (600, 40), (3, 0))
    check(graph, "model", NANO)
    (node,) = graph.nodes
    names = dict(enumerate("abc"))
    stages = stages_of(node, graph, names, Machine(config=NANO))
    sizes = [stage.computed.nbytes for stage in stages if stage.computed is not None]
    assert len(sizes) > 2
    assert sum(sizes) == 600 * 40


def test_the_second_operand_may_be_what_a_layer_made():
    """The panels come from a tensor on chip, and from that tensor transposed."""
    shape, scale = (1, 7, 7), Quantisation(scale=(0.02,), zero_point=(5,))
    for adj_y in (False, True):
        builder = GraphBuilder("square")
        given = builder.input("a", shape, "int8", scale)
        relu = builder.add(Op.RELU, [given], quantisation=scale)
        last = builder.add(
            Op.BATCH_MATMUL,
            [relu, relu],
            BatchMatmul(adj_x=False, adj_y=adj_y),
            quantisation=Quantisation(scale=(0.3,), zero_point=(0,)),
        )
        program = check(builder.graph(last), "model", replace(NANO, tables=1))
        assert len(program.steps) == 1


def attention(heads, tokens, depth):
    """Return the network of attention with operands of its own: scores, SOFTMAX, and mixtures."""
    builder = GraphBuilder("attention")
    scale = Quantisation(scale=(0.03,), zero_point=(2,))
    shape = (heads, tokens, depth)
    query, key, value = (builder.input(name, shape, "int8", scale) for name in "qkv")
    scores = builder.add(
        Op.BATCH_MATMUL, [query, key], BatchMatmul(adj_x=False, adj_y=True), quantisation=scale
    )
    shares = builder.add(
        Op.SOFTMAX,
        [scores],
        Softmax(beta=1.0),
        quantisation=Quantisation(scale=(1 / 256,), zero_point=(-128,)),
    )
    mixed = BatchMatmul(adj_x=False, adj_y=False)
    return builder.graph(builder.add(Op.BATCH_MATMUL, [shares, value], mixed, quantisation=scale))


@pytest.mark.parametrize("shape", [(4, 32, 16), (3, 37, 20), (3, 37, 16), (2, 20, 8), (1, 64, 32)])
def test_heads_are_mixed_during_the_softmax_of_others(shape):
    """In whole networks and in tiles of any size."""
    config = load_config("reference+softmax=4" + PRODUCTS)
    graph = attention(*shape)
    compile_network(graph, config, check="full")
    for seed in (0, 1):
        check(graph, "model", config, calls=1, options=CompileOptions(tiling_seed=seed))
    program = check(graph, "model", config)
    (step,) = program.steps
    # Only EXECs that mix have the zero point of SOFTMAX.
    order = [
        each.opcode
        for each in unpack_all(program.commands(step))
        if each.values.get("softmax") == RowFunction.SOFTMAX
        or (each.opcode is Opcode.EXEC and each.values["pad_value"] == -128)
    ]
    last = len(order) - order[::-1].index(Opcode.POST)
    assert Opcode.EXEC in order[:last]


@pytest.mark.parametrize("preset", ["small", "reference"])
def test_either_operand_may_be_transposed(preset):
    """In two steps, with rows and columns that are no multiples of what a step interleaves."""
    for shapes, zeros in (
        (((2, 17, 19), (2, 37, 17)), (0, 0)),
        (((33, 21), (50, 33)), (-128, 3)),
    ):
        graph = product(*shapes, zeros, adj_x=True, adj_y=True)
        check(graph, "model", PRESETS[preset], calls=1)


@pytest.mark.parametrize("preset", ["nano", "small", "reference"])
def test_the_array_transposes_weights(preset):
    """Without copies byte by byte: bands that are adjacent, in part, of several images, groups."""
    config = load_config(preset + PRODUCTS)
    for left, right, zeros in (
        ((2, 17, 19), (2, 37, 19), (0, 0)),
        ((2, 3, 20), (2, 32, 20), (1, -2)),
        ((33, 21), (50, 21), (-128, 3)),
        ((3, 5, 16), (3, 37, 16), (4, -7)),
        ((3, 5, 4), (3, 37, 4), (4, -7)),
        ((5, 300), (700, 300), (3, 0)),
    ):
        program = check(product(left, right, zeros, adj_y=True), "model", config, calls=1)
        assert "weights_transposed=1" in disassemble(program)


def layer_and_product(keys, adj_y, *, units=37, more_readers=False):
    """Return the network of a layer that makes (keys, units), and a product by its results."""
    scale = Quantisation(scale=(0.02,), zero_point=(0,))
    generator = np.random.default_rng(3)
    builder = GraphBuilder("values")
    given = builder.input("a", (1, keys, 30), "int8", scale)
    weights = builder.constant(generator.integers(-127, 128, (units, 30), np.int8), scale)
    dense = FullyConnected(keep_num_dims=True)
    values = builder.add(Op.FULLY_CONNECTED, [given, weights], dense, quantisation=scale)
    scores = builder.input("b", (1, 18, units if adj_y else keys), "int8", scale)
    plain = BatchMatmul(adj_x=False, adj_y=adj_y)
    last = builder.add(Op.BATCH_MATMUL, [scores, values], plain, quantisation=scale)
    return builder.graph(*((last, values) if more_readers else (last,)))


@pytest.mark.parametrize("keys", [32, 21])
def test_a_layer_writes_transposed_panels_itself(keys):
    """If its rows fill bands; copies move them otherwise."""
    config = load_config("reference" + PRODUCTS)
    for seed in (None, 1, 2):
        options = CompileOptions(tiling_seed=seed)
        program = check(layer_and_product(keys, True), "model", config, options=options)
        listing = disassemble(program)
        assert "weights_transposed=1" in listing
        assert ("weights_fixed=1" in listing) == (keys % config.columns > 0)


def heads_of_attention(tokens, heads, depth):
    """Return the network of the products of attention, whose operands a TRANSPOSE takes apart."""
    scale, width = Quantisation(scale=(0.05,), zero_point=(0,)), heads * depth
    builder, draw = GraphBuilder("heads"), np.random.default_rng(3)
    given = builder.input("a", (1, tokens, width), "int8", scale)
    split, parts = Transpose(permutation=(0, 2, 1, 3)), []
    for _part in "qkv":
        weights = builder.constant(draw.integers(-127, 128, (width, width), np.int8), scale)
        dense = FullyConnected(keep_num_dims=True)
        made = builder.add(Op.FULLY_CONNECTED, [given, weights], dense, quantisation=scale)
        rows = builder.add(Op.RESHAPE, [made], shape=(1, tokens, heads, depth))
        parts.append(builder.add(Op.TRANSPOSE, [rows], split))
    queries, keys, values = parts
    for other, adj_y in ((keys, True), (values, False)):
        product = BatchMatmul(adj_x=False, adj_y=adj_y)
        wide = Quantisation(scale=(2.0,), zero_point=(0,))
        queries = builder.add(Op.BATCH_MATMUL, [queries, other], product, quantisation=wide)
    return builder.graph(queries)


@pytest.mark.parametrize(
    ("preset", "tokens", "heads", "depth", "moves"),
    [
        ("nano", 12, 3, 8, 1),
        ("nano", 12, 3, 6, 3),
        ("small", 13, 2, 8, 1),
        ("small", 13, 2, 16, 2),
        ("reference", 32, 2, 32, 1),
    ],
)
def test_layers_write_the_weights_of_heads(preset, tokens, heads, depth, moves):
    """Where heads are whole blocks; transposed ones in whole bands, or in single panels."""
    graph, config = heads_of_attention(tokens, heads, depth), load_config(preset + PRODUCTS)
    compile_network(graph, config, check="full")
    for seed in (None, 1):
        program = check(graph, "model", config, options=CompileOptions(tiling_seed=seed))
        split = [layer for layer in program.layers if layer.operator == "TRANSPOSE"]
        assert sum(layer.predicted_cycles > 0 for layer in split) == moves


@pytest.mark.parametrize("preset", ["nano", "small", "reference"])
def test_the_array_transposes_tensors(preset):
    """In rows, columns and images that fill tiles, or not; fewer cycles than by convolutions."""
    config = load_config(preset + PRODUCTS)
    for shape in ((64, 64), (3, 32, 48), (37, 21), (2, 21, 37), (12, 100)):
        builder, order = GraphBuilder("turn"), (*range(len(shape) - 2), len(shape) - 1, -2)
        given = builder.input("a", shape, "int8", Quantisation(scale=(0.1,), zero_point=(2,)))
        attributes = Transpose(permutation=tuple(axis % len(shape) for axis in order))
        graph = builder.graph(builder.add(Op.TRANSPOSE, [given], attributes))
        program = check(graph, "model", config)
        assert "weights_transposed=1" in disassemble(program)
        before = compile_network(graph, PRESETS[preset]).predicted_cycles
        assert program.predicted_cycles < before
    check(product((40, 33), (40, 21), (3, -4), adj_x=True), "model", config)


def test_transposed_products_take_no_more_cycles():
    """Of what a layer makes; a product of the same size whose operand is not transposed."""
    config = load_config("reference" + PRODUCTS)
    straight, transposed = (
        compile_network(layer_and_product(64, adj_y, units=64), config).predicted_cycles
        for adj_y in (False, True)
    )
    assert transposed < 1.02 * straight


@pytest.mark.parametrize("more_readers", [False, True])
def test_a_layer_writes_panels_itself(more_readers):
    """Its results become weights without a copy, unless something else reads them, too."""
    graph = layer_and_product(21, False, more_readers=more_readers)
    for seed in (None, 1, 2):
        program = check(
            graph, "model", PRESETS["reference"], options=CompileOptions(tiling_seed=seed)
        )
        # Copies have one tile of weights for everything.
        assert ("weights_fixed=1" in disassemble(program)) == more_readers


@pytest.mark.parametrize(
    ("left", "zeros", "activation"),
    [((2, 5, 9), (3, -7), "NONE"), ((4, 9), (0, 0), "RELU"), ((1, 9), (-128, 127), "RELU6")],
)
def test_weights_of_a_dense_layer_may_be_computed(left, zeros, activation):
    builder = GraphBuilder("scores")
    inputs = [
        builder.input(name, shape, "int8", Quantisation(scale=(0.02,), zero_point=(zero,)))
        for name, shape, zero in zip("ab", (left, (6, 9)), zeros, strict=True)
    ]
    dense = FullyConnected(keep_num_dims=len(left) > 2, activation=Activation(activation))
    scale = Quantisation(scale=(0.2,), zero_point=(-3,))
    last = builder.add(Op.FULLY_CONNECTED, inputs, dense, quantisation=scale)
    check(builder.graph(last), "model", NANO)


def check_sums(graph, device, config):
    """Compare calls of a product whose results are its sums with NumPy's; return the program."""
    program = compile_network(graph, config, check="full")
    session, attributes = load(program, device), graph.nodes[0].attributes
    for call in range(2):
        inputs = random_inputs(graph, call)
        factors = []
        for number, adjoint in zip(graph.inputs, (attributes.adj_x, attributes.adj_y), strict=True):
            factor = inputs[number].astype(np.int64) - graph.tensors[number].zero_point
            factors.append(factor.swapaxes(-1, -2) if adjoint else factor)
        found = session.run({graph.tensors[at].name: array for at, array in inputs.items()})
        np.testing.assert_array_equal(next(iter(found.values())), np.matmul(*factors))
    return program


def draw_sums(draw):
    """Return the network of a random product whose results are its sums."""
    rows, inner, columns = (int(draw.integers(1, 50)) for _axis in range(3))
    batch = (int(draw.integers(1, 4)),) * int(draw.integers(0, 2))
    adj_x, adj_y = map(bool, draw.integers(0, 2, 2))
    left = (*batch, *((inner, rows) if adj_x else (rows, inner)))
    right = (*batch, *((columns, inner) if adj_y else (inner, columns)))
    zeros = [int(draw.choice((0, -128, 127, draw.integers(-128, 128)))) for _side in range(2)]
    return product(left, right, zeros, adj_x=adj_x, adj_y=adj_y, sums=True)


@pytest.mark.parametrize("config", ["nano", "small", "reference" + PRODUCTS])
def test_sums_leave_the_network(config, seed):
    draw = np.random.default_rng(seed)
    for _network in range(6):
        program = check_sums(draw_sums(draw), "model", load_config(config))
        assert {layer.where for layer in program.layers} == {"engine"}


def test_sums_that_cannot_be_read_stay_on_the_host():
    """Limbs hold 28 bits, and the sums of a product are made at once."""
    for inner, columns in ((4200, 3), (3000, 40)):
        program = check_sums(
            product((2, inner), (inner, columns), (-128, 127), sums=True), "model", NANO
        )
        assert [layer.where for layer in program.layers] == ["host"]


@pytest.mark.slow
@pytest.mark.parametrize("knobs", ["", PRODUCTS])
@pytest.mark.parametrize("name", ["nano", "small", "reference"])
def test_chip_equals_the_reference(name, knobs, seed):
    config = load_config(name + knobs)
    driver = open_device("rtl", config)
    try:
        for number in range(12):
            graph = RandomOperators([seed, number], engine=True).make(Op.BATCH_MATMUL)
            check(graph, driver, config)
        check(product((64, 64), (64, 64), (-128, 5)), driver, config)
        check(layer_and_product(64, True), driver, config)
    finally:
        driver.close()
