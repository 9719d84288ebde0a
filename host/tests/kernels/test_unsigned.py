"""Kernels of uint8 against those of int8, shifted by 128, and LiteRT's reference kernels."""

from dataclasses import replace

import numpy as np
import pytest

from matloom import frontend
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.graph import Op
from matloom.ir.text import to_text
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.tools.compare import random_inputs
from matloom.verification.random_operators import KINDS, RandomOperators
from support.unsigned import as_unsigned, unsigned

#: Rounded once or from zero, or by a table of floats: equal to LiteRT's but not to int8's.
OWN = (Op.AVERAGE_POOL_2D, Op.FULLY_CONNECTED, Op.LOGISTIC, Op.SOFTMAX, Op.TANH)
ABSENT = (Op.BATCH_MATMUL, Op.HARD_SWISH, Op.LOG_SOFTMAX, Op.PADV2, Op.SQUARED_DIFFERENCE)
#: Operators that LiteRT has for int8 alone.
WITHOUT = (Op.BATCH_MATMUL, Op.LOG_SOFTMAX, Op.SQUARED_DIFFERENCE)
ALIKE = [op for op in KINDS if op not in (*OWN, *ABSENT, Op.QUANTIZE, Op.DEQUANTIZE)]


@pytest.mark.parametrize("op", ALIKE)
def test_kernel_equals_that_of_int8(op, seed):
    instances = RandomOperators([seed, *op.encode()])
    for number in range(20):
        graph = instances.make(op)
        other = as_unsigned(graph, lambda weights: weights.zero_point + 128)
        if other is None:
            continue
        verify(other, "test")
        given = random_inputs(graph, seed + number)
        others = {at: unsigned(a) if a.dtype == np.int8 else a for at, a in given.items()}
        results = interpret(other, others)
        for at, expected in interpret(graph, given).items():
            wanted = unsigned(expected) if expected.dtype == np.int8 else expected
            np.testing.assert_array_equal(results[at], wanted, err_msg=to_text(graph))


def compared(graph, seed):
    """Compare a network with LiteRT's reference kernels; return whether they run it."""
    litert = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="ai-edge-litert is not installed"
    )
    content = write_tflite(graph)
    assert frontend.load(content).nodes == graph.nodes
    reference = litert.Interpreter(
        model_content=content,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
    )
    try:
        reference.allocate_tensors()
    except RuntimeError:
        # A convolution without a bias, a reshape without its shape.
        return False
    given = random_inputs(graph, seed)
    for at, array in given.items():
        reference.set_tensor(at, array)
    reference.invoke()
    for at, array in interpret(graph, given).items():
        np.testing.assert_array_equal(array, reference.get_tensor(at), err_msg=to_text(graph))
    return True


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("op", [op for op in KINDS if op not in WITHOUT])
def test_kernel_equals_litert(op, seed):
    instances = RandomOperators([seed, *op.encode()], "uint8")
    assert sum(compared(instances.make(op), seed + number) for number in range(40)) > 0


#: Input and weight scales whose product is 2**-8 in float32, and less in float64.
TIE = (0.10006000101566315, 0.03903907537460327)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    "op", [Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED, Op.TRANSPOSE_CONV]
)
def test_products_of_scales_are_rounded_as_litert_does(op):
    """Some sums are a tie by one rule, and below a tie by the other."""
    taken = 0
    for number in range(60):
        graph = RandomOperators([7, number, *op.encode()], "uint8").make(op)
        (node,), tensors = graph.nodes, dict(graph.tensors)
        for at, scale in zip((*node.inputs[:2], node.output), (*TIE, 2**-3), strict=True):
            zero = tensors[at].quantisation.zero_point
            quantisation = replace(tensors[at].quantisation, scale=(scale,) * len(zero))
            tensors[at] = replace(tensors[at], quantisation=quantisation)
        taken += compared(replace(graph, tensors=tensors), number)
    assert taken > 30
