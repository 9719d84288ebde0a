"""Single operators on the engine: the functional model gives TensorFlow Lite Micro's integers."""

from dataclasses import replace

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.arch.instruction import unpack
from matloom.arch.isa import Destination, Opcode
from matloom.compiler import CompileOptions, compile_network
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import (
    Arithmetic,
    Axis,
    LeakyRelu,
    Pad,
    Pool2D,
    Reduce,
    Slice,
    Transpose,
)
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.ir.text import to_text
from matloom.kernels.interpreter import interpret
from matloom.runtime import load
from matloom.select.operators import ENGINE
from matloom.tools.compare import random_inputs
from matloom.tools.references import MicroReference
from matloom.verification.random_operators import RandomOperators

#: Instances of each operator, in turn for each configuration: more than 20,000 in all.
FEW, MANY = range(12), range(12, 652)
#: For words fewer: their tiles, copies and waits are found by what finds those of bytes.
FEW_OF_WORDS, MANY_OF_WORDS = range(20), range(20, 340)
CONFIGS = (
    replace(PRESETS["nano"], tables=1, products=3, softmax=1),
    PRESETS["small"],
    replace(PRESETS["reference"], products=3, softmax=1, transposed_weights=1),
)

#: For words of two bytes.
WORD_CONFIGS = tuple(
    replace(config, mac_modes=("i8xi8", "i16xi8"), products=4, curves=1)
    for config in (PRESETS["nano"], PRESETS["small"], PRESETS["reference"])
)
OF_WORDS = (
    *(Op.ADD, Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED, Op.QUANTIZE),
    *(Op.CONCATENATION, Op.PACK, Op.PAD, Op.PADV2, Op.RESIZE_NEAREST_NEIGHBOR, Op.SLICE, Op.SPLIT),
    *(Op.SPLIT_V, Op.STRIDED_SLICE, Op.TRANSPOSE, Op.UNPACK),
    *(Op.AVERAGE_POOL_2D, Op.LEAKY_RELU, Op.MAXIMUM, Op.MEAN, Op.MINIMUM, Op.MUL, Op.RELU),
    *(Op.LOGISTIC, Op.RELU6, Op.SUM, Op.TANH),
)

#: LOOKUP is compared with ONNX Runtime where files of ONNX are read.
IN_TFLITE = sorted(ENGINE - {Op.LOOKUP})

#: Operators some of whose random instances the engine refuses, for attributes that it lacks.
CHOOSY = {Op.PAD, Op.PADV2, Op.SLICE, Op.STRIDED_SLICE, Op.SUB, Op.TRANSPOSE}

#: Operator, seed and number of instances that were once wrong, or refused.
FAILED = [(Op.ADD, 1, 240), (Op.BATCH_MATMUL, 0, 540), (Op.PRELU, 1, 141)]
FAILED_OF_WORDS = [(Op.FULLY_CONNECTED, 0, 64), (Op.LEAKY_RELU, 7, 142)]

#: What `small` refuses because it has no tables or SOFTMAX, or, for some attributes, no products.
UNITS = {
    *(Op.HARD_SWISH, Op.LEAKY_RELU, Op.LOGISTIC, Op.MUL, Op.PRELU, Op.SOFTMAX),
    *(Op.SQUARED_DIFFERENCE, Op.TANH),
}


#: Why an operator that leaves every byte as it is, such as a limit beyond them all, has no stage.
UNCHANGED = "another shape for the host"


def run(graph, config, inputs, tiling_seed=None, resident=None):
    """Return outputs by number, and whether the engine ran everything that changes a byte."""
    options = CompileOptions(tiling_seed=tiling_seed, resident=resident)
    program = compile_network(graph, config, options)
    named = {graph.tensors[number].name: array for number, array in inputs.items()}
    results = load(program, device="model").run(named)
    found = {number: results[graph.tensors[number].name] for number in graph.outputs}
    layers = program.layers
    return found, all(each.where == "engine" or each.reason == UNCHANGED for each in layers)


def check(op, seed, number, dtype="int8", configs=CONFIGS):
    """Compare an instance with the reference kernels; return whether it ran where expected."""
    graph = RandomOperators([seed, number, *op.encode()], dtype, engine=True).make(op)
    given = random_inputs(graph, seed + number)
    expected = MicroReference(write_tflite(graph), graph).run(given)
    config = configs[number % len(configs)]
    # Few tensors of one layer stay on chip, in random tiles fewer: to try costs more than all the
    # rest, and is the same for all operators.
    resident = None if number % 4 == 0 and (number in FEW or number % 16 == 0) else False
    found, on_engine = run(graph, config, given, number if number % 4 else None, resident)
    for output in graph.outputs:
        if not np.array_equal(found[output], expected[output]):
            message = f"seed {seed}, instance {number}: {to_text(graph)}"
            np.testing.assert_array_equal(found[output], expected[output], message)
    return on_engine or (op in UNITS and not config.tables)


def check_many(op, seed, numbers, *kind):
    """Compare instances; the engine must run all, or half for operators with restrictions."""
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    placed = sum(check(op, seed, number, *kind) for number in numbers)
    assert placed == len(numbers) or (op in CHOOSY and placed >= len(numbers) // 2)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("op", IN_TFLITE)
def test_engine_equals_the_reference(op, seed):
    check_many(op, seed, FEW)


@pytest.mark.parametrize(("products", "passes"), [(1, 3), (2, 2)])
@pytest.mark.parametrize("scales", [(0.02, 0.03), (0.05, 0.03)])
def test_add_takes_two_passes_where_post_adds_bytes(products, passes, scales):
    """The operand with the larger scale is added as it is read."""
    builder = GraphBuilder("add")
    inputs = [
        builder.input(name, (1, 2, 2, 4), "int8", Quantisation(scale=(scale,), zero_point=(9,)))
        for name, scale in zip("ab", scales, strict=True)
    ]
    result = Quantisation(scale=(0.1,), zero_point=(-3,))
    total = builder.add(Op.ADD, inputs, Arithmetic(), quantisation=result)
    program = compile_network(builder.graph(total), replace(CONFIGS[0], products=products))
    (step,) = program.steps
    place, posts = step.command_offset, []
    while place < step.command_offset + step.command_bytes:
        instruction, place = unpack(program.image, place)
        posts += [instruction] * (instruction.opcode is Opcode.POST)
    tiles = len(posts) // passes
    assert [post.addend for post in posts] == [*[0] * (passes - 1), passes == 2] * tiles
    assert sum(post.destination == Destination.SPAD for post in posts) == tiles


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("op", OF_WORDS)
def test_engine_equals_the_reference_in_words(op, seed):
    check_many(op, seed, FEW_OF_WORDS, "int16", WORD_CONFIGS)


@pytest.mark.parametrize("config", WORD_CONFIGS, ids=["nano", "small", "reference"])
@pytest.mark.parametrize(("scale", "zero"), [(0.0007, 0), (0.003, -11), (0.2, 127)])
def test_words_become_bytes(config, scale, zero):
    """QUANTIZE from int16 to int8, in any tiles, equals TensorFlow Lite Micro's."""
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    builder = GraphBuilder("narrower")
    words = Quantisation(scale=(0.0007,), zero_point=(0,))
    given = builder.input("given", (1, 3, 7, 19), "int16", words)
    result = Quantisation(scale=(scale,), zero_point=(zero,))
    graph = builder.graph(builder.add(Op.QUANTIZE, [given], quantisation=result, dtype="int8"))
    for seed in (None, 1, 2):
        inputs = random_inputs(graph, 7)
        (expected,) = MicroReference(write_tflite(graph), graph).run(inputs).values()
        found, on_engine = run(graph, config, inputs, seed)
        assert on_engine
        assert np.array_equal(found[graph.outputs[0]], expected)


@pytest.mark.slow
@pytest.mark.parametrize("op", OF_WORDS)
def test_many_instances_of_words_equal_the_reference(op, seed):
    """Half as many as for bytes, whose test has the same instances in the same tiles."""
    check_many(op, seed, MANY_OF_WORDS, "int16", WORD_CONFIGS)


@pytest.mark.slow
@pytest.mark.parametrize("op", IN_TFLITE)
def test_many_instances_equal_the_reference(op, seed):
    check_many(op, seed, MANY)


@pytest.mark.parametrize(("op", "seed", "number"), FAILED)
def test_instances_that_failed_once(op, seed, number):
    check_many(op, seed, [number])


@pytest.mark.parametrize(("op", "seed", "number"), FAILED_OF_WORDS)
def test_words_that_failed_once(op, seed, number):
    check_many(op, seed, [number], "int16", WORD_CONFIGS)


def reason(graph, config=PRESETS["small"]):
    """Return the reason why the host runs the only operator."""
    (layer,) = compile_network(graph, config).layers
    assert layer.where == "host"
    return layer.reason


def made(op, attributes, *shapes, dtype="int8"):
    instances = RandomOperators(0, dtype)
    tensors = [instances._tensor(f"t{at}", shape) for at, shape in enumerate(shapes)]
    return instances.network(op, tensors, attributes)


def test_reasons_say_what_is_missing():
    backwards = Slice(begin=(3,), size=(2,), step=(-1,))
    assert reason(made(Op.STRIDED_SLICE, backwards, (4,))) == "the engine does not step backwards"
    three = Slice(begin=(0, 0, 0), size=(2, 2, 2), step=(2, 2, 2))
    assert reason(made(Op.STRIDED_SLICE, three, (4, 4, 4))) == (
        "the engine cuts two axes at once, not more"
    )
    order = Transpose(permutation=(6, 5, 4, 3, 2, 1, 0))
    assert reason(made(Op.TRANSPOSE, order, (2,) * 7)) == (
        "the engine permutes up to six groups of axes"
    )
    assert reason(made(Op.LEAKY_RELU, LeakyRelu(alpha=-0.5), (3,))) == (
        "its slope must be 0 or more where the configuration has tables = 0"
    )
    assert reason(made(Op.HARD_SWISH, None, (3,))) == (
        "it needs a table, and the configuration has tables = 0"
    )
    assert reason(made(Op.MUL, Arithmetic(), (3,), (3,))) == (
        "it multiplies tensors, and the configuration has products = 0"
    )

    assert reason(
        made(Op.MAX_POOL_2D, pooled((2, 2)), (1, 4, 4, 1)), replace(PRESETS["small"], maximum=0)
    ) == ("it keeps maxima, and the configuration has maximum = 0")


@pytest.mark.parametrize("left_out", [{"windows": 0}, {"paired_windows": 0}], ids=str)
def test_depthwise_layers_without_windows_equal_the_reference(left_out, seed):
    check_many(
        Op.DEPTHWISE_CONV_2D, seed, FEW, "int8", (replace(PRESETS["reference"], **left_out),)
    )


def pooled(window):
    return Pool2D(window=window)


@pytest.mark.parametrize(
    ("op", "attributes", "shape", "sentence"),
    [
        (
            *(Op.AVERAGE_POOL_2D, pooled((200, 200)), (1, 200, 200, 1)),
            "sums of 40000 numbers must be below 879609302 to be divided",
        ),
        (Op.MAX_POOL_2D, pooled((2, 2)), (1, 4, 4, 1), "the engine has no MAX_POOL_2D of int16"),
        (Op.LEAKY_RELU, LeakyRelu(alpha=-0.5), (3,), "its slope must be 0 or more in int16"),
        (
            *(Op.SUM, Reduce(axes=(0,), keep_dims=False), (2**16,)),
            "sums of words must fit 32 bits, and 65536 might not",
        ),
    ],
)
def test_reasons_of_words_say_what_is_missing(op, attributes, shape, sentence):
    graph = made(op, attributes, shape, dtype="int16")
    assert reason(graph, WORD_CONFIGS[2]) == sentence
    if op is not Op.MAX_POOL_2D:
        built = "the engine is built with i8xi8, not i16xi8"
        assert reason(graph, PRESETS["small"]) == built


def test_words_with_a_zero_point_run_on_the_host():
    graph = made(Op.RELU, None, (3,), dtype="int16")
    odd = replace(graph.tensors[0], quantisation=Quantisation(scale=(0.5,), zero_point=(3,)))
    graph = replace(graph, tensors={**graph.tensors, 0: odd})
    assert reason(graph, WORD_CONFIGS[0]) == (
        "the engine takes numbers of two bytes to such, and without zero points"
    )


def test_words_are_padded_with_equal_bytes():
    graph = RandomOperators(0, "int16").network(
        Op.PADV2,
        [RandomOperators(0, "int16")._tensor("input", (3, 4))],
        Pad(before=(0, 1), after=(0, 0), value=5),
    )
    assert reason(graph) == "the engine pads with equal bytes, not with 5"


def difference_with_ties(step):
    """Return a SUB of all pairs of bytes, whose second input scales to halves.

    0.1 as a float has 24 bits, the last of them set: 8 times an odd number scales to a half.
    """
    builder = GraphBuilder("difference")
    scales = (0.25, float(np.float32(0.1)), step)
    spaces = [Quantisation(scale=(scale,), zero_point=(0,)) for scale in scales]
    ends = [builder.input(name, (256, 256), "int8", spaces[at]) for at, name in enumerate("ab")]
    return builder.graph(builder.add(Op.SUB, ends, Arithmetic(), quantisation=spaces[2]))


def test_ties_that_matter_keep_a_difference_on_the_host():
    assert reason(difference_with_ties(2.0**-20)) == "its second input at this scale rounds halves"


def test_ties_that_change_no_byte_are_no_reason():
    """Every pair of bytes has the result of the interpreter."""
    graph = difference_with_ties(0.37)
    every = np.arange(-128, 128).astype(np.int8)
    given = dict(zip("ab", (a.copy() for a in np.meshgrid(every, every)), strict=True))
    with load(graph, "model", config=PRESETS["reference"]) as session:
        assert session.program.layers[0].where == "engine"
        (found,) = session.run(given).values()
    wanted = interpret(graph, dict(enumerate(given.values())))[graph.outputs[0]]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("shapes", "config"),
    [
        # Tiles are whole repetitions, whatever the rows of the tensor are.
        (((4, 6, 3, 5), (1, 6, 3, 5)), PRESETS["reference"]),
        # More bytes than half of the accumulators hold.
        (((5, 5, 35), (3, 5, 5, 35)), CONFIGS[0]),
    ],
    ids=["across rows", "long"],
)
@pytest.mark.parametrize("tiling", [None, *range(5)])
def test_runs_that_repeat(shapes, config, tiling):
    graph = made(Op.MUL, Arithmetic(), *shapes)
    given = random_inputs(graph, 0)
    (expected,) = interpret(graph, given).values()
    resident = None if tiling is None else False
    found, on_engine = run(graph, config, given, tiling, resident)
    assert on_engine
    np.testing.assert_array_equal(found[2], expected)


SCALAR = {
    **{op: Arithmetic() for op in (Op.ADD, Op.SUB, Op.MUL)},
    **dict.fromkeys((Op.MAXIMUM, Op.MINIMUM)),
}


@pytest.mark.parametrize("first", [False, True], ids=["second", "first"])
@pytest.mark.parametrize("op", SCALAR)
def test_a_constant_of_rank_0(op, first):
    """Keras' Rescaling multiplies by one; TensorFlow Lite Micro gives the expected result."""
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    instances = RandomOperators(0)
    limited = op in (Op.MAXIMUM, Op.MINIMUM)
    scale = Quantisation(scale=(0.1,), zero_point=(5,)) if limited else None
    tensors = [
        instances._tensor("data", (1, 3, 5, 7)),
        replace(instances._tensor("factor", ()), data=np.array(-77, np.int8)),
    ]
    if scale is not None:
        tensors = [replace(tensor, quantisation=scale) for tensor in tensors]
    graph = instances.network(op, tensors[::-1] if first else tensors, SCALAR[op])
    given = random_inputs(graph, 1)
    expected = MicroReference(write_tflite(graph), graph).run(given)
    for config in CONFIGS:
        found, on_engine = run(graph, config, given)
        assert on_engine or (first and limited)
        np.testing.assert_array_equal(found[2], expected[2])


def test_a_tensor_that_is_joined_twice():
    tensors = [RandomOperators(0)._tensor(name, (3, 5, 20)) for name in "ab"]
    graph = RandomOperators(0).network(Op.CONCATENATION, tensors, Axis(axis=2))
    graph = replace(
        graph,
        inputs=(0,),
        nodes=(replace(graph.nodes[0], inputs=(0, 0)),),
        tensors={0: graph.tensors[0], 2: graph.tensors[2]},
    )
    given = np.random.default_rng(0).integers(-128, 128, (3, 5, 20)).astype(np.int8)
    found, on_engine = run(graph, PRESETS["nano"], {0: given})
    assert on_engine
    np.testing.assert_array_equal(found[2], np.concatenate([given, given], axis=2))


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("preset", ["nano", "small", "reference"])
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_permutations_of_many_axes(dtype, preset, seed):
    random = np.random.default_rng(seed)
    shape = tuple(int(size) for size in random.choice([1, 2, 3, 4, 5], random.integers(3, 7)))
    order = tuple(int(axis) for axis in random.permutation(len(shape)))
    graph = made(Op.TRANSPOSE, Transpose(permutation=order), shape, dtype=np.dtype(dtype).name)
    given = random.integers(-128, 128, shape).astype(dtype)
    found, on_engine = run(graph, PRESETS[preset], {0: given})
    assert on_engine
    np.testing.assert_array_equal(found[1], given.transpose(order))


def test_channels_come_first_in_a_large_image():
    graph = made(Op.TRANSPOSE, Transpose(permutation=(0, 3, 1, 2)), (1, 70, 60, 3))
    given = np.random.default_rng(0).integers(-128, 128, (1, 70, 60, 3)).astype(np.int8)
    found, on_engine = run(graph, PRESETS["reference"], {0: given})
    assert on_engine
    np.testing.assert_array_equal(found[1], given.transpose(0, 3, 1, 2))
