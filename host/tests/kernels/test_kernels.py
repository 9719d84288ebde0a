"""Every kernel compared with TensorFlow Lite Micro's, on random networks of one operator."""

from dataclasses import replace

import numpy as np
import pytest

from matloom import frontend
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.graph import Op, Quantisation, Tensor
from matloom.ir.text import to_text
from matloom.kernels.interpreter import interpret
from matloom.tools.compare import compare, random_inputs
from matloom.verification.random_operators import KINDS, RandomOperators

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")

#: Instances of each operator: with those of the slow test, more than 20,000.
FEW, MANY = 20, 550

MOVES = [
    *(Op.CONCATENATION, Op.PACK, Op.PAD, Op.PADV2, Op.RESHAPE, Op.RESIZE_NEAREST_NEIGHBOR),
    *(Op.SLICE, Op.SPLIT, Op.SPLIT_V, Op.STRIDED_SLICE, Op.TRANSPOSE, Op.UNPACK),
]
CASES = [
    *(("int8", op) for op in KINDS),
    *(("int16", op) for op in (*MOVES, Op.ADD, Op.SUB, Op.MUL, Op.QUANTIZE, Op.DEQUANTIZE)),
    *(("int16", op) for op in (Op.AVERAGE_POOL_2D, Op.MAX_POOL_2D, Op.MEAN, Op.SUM)),
    *(("int16", op) for op in (Op.LEAKY_RELU, Op.MAXIMUM, Op.MINIMUM, Op.RELU, Op.RELU6)),
    *(("int16", op) for op in (Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED)),
]
#: Sums in another order, and functions whose last bit C libraries choose.
NEAR = [
    *(Op.AVERAGE_POOL_2D, Op.BATCH_MATMUL, Op.CONV_2D, Op.DEPTHWISE_CONV_2D),
    *(
        Op.FULLY_CONNECTED,
        Op.LOGISTIC,
        Op.LOG_SOFTMAX,
        Op.MEAN,
        Op.SOFTMAX,
        Op.SUM,
        Op.TANH,
        Op.TRANSPOSE_CONV,
    ),
]
CONVERSIONS = [Op.QUANTIZE, Op.DEQUANTIZE]
FLOAT_CASES = [op for op in KINDS if op not in (*NEAR, *CONVERSIONS)]


def check(dtype, op, count, seed):
    """Compare instances; each must also survive a round trip through its file."""
    instances = RandomOperators([seed, *op.encode()], dtype)
    variety = 0
    for number in range(count):
        graph = instances.make(op)
        content = write_tflite(graph)
        assert frontend.load(content).nodes == graph.nodes
        outcome = compare(content, seed=seed + number)
        assert outcome.equal, f"instance {number}: {outcome}\n{to_text(graph)}"
        sizes = [graph.tensors[output].size for output in graph.outputs]
        assert outcome.layers[0].elements == sum(sizes)
        values = interpret(graph, random_inputs(graph, seed))
        variety += sum(len(np.unique(array)) for array in values.values())
    # Outputs that all saturate would prove nothing.
    assert variety > 2 * count


@pytest.mark.fast_cases(7)
@pytest.mark.parametrize(("dtype", "op"), CASES)
def test_kernel_equals_the_reference(dtype, op, seed):
    check(dtype, op, FEW, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "op"), [case for case in CASES if case[0] == "int8"])
def test_many_instances_equal_the_reference(dtype, op, seed):
    check(dtype, op, MANY, seed + 1)


@pytest.mark.parametrize("op", FLOAT_CASES)
def test_float_kernel_equals_the_reference(op, seed):
    check("float32", op, FEW // 2, seed)


@pytest.mark.parametrize("op", NEAR)
def test_float_kernel_is_near_the_reference(op, seed):
    instances = RandomOperators([seed, *op.encode()], "float32")
    for number in range(FEW):
        graph = instances.make(op)
        content = write_tflite(graph)
        given = random_inputs(graph, seed + number)
        (output,) = graph.outputs
        found = interpret(graph, given)[output]
        named = {graph.tensors[at].name: array for at, array in given.items()}
        reach = max(1.0, float(np.abs(found).max()))
        outcome = compare(content, named)
        assert outcome.first is None or (
            abs(outcome.first.expected - outcome.first.given) < 1e-5 * reach
        ), f"{outcome}\n{to_text(graph)}"


def test_quantize_saturates_what_is_not_finite():
    quantisation = Quantisation(scale=(0.5,), zero_point=(3,))
    graph = RandomOperators(0).network(
        Op.QUANTIZE, [Tensor(name="in", shape=(4,), dtype="float32")]
    )
    output = Tensor(name="out", shape=(4,), dtype="int8", quantisation=quantisation)
    graph = replace(graph, tensors={**graph.tensors, 1: output})
    given = np.array([np.inf, -np.inf, np.nan, 1e30], np.float32)
    assert interpret(graph, {0: given})[1].tolist() == [127, -128, 3, 127]
