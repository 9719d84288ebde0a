"""Each rule of the verifier, broken once."""

import re
from dataclasses import replace

import numpy as np
import pytest

from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    Attributes,
    Axis,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Pool2D,
    Softmax,
    Split,
)
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.verify import verify
from matloom.kernels.interpreter import run_node

UNIT = Quantisation(scale=(0.5,), zero_point=(3,))
EVEN = Quantisation(scale=(0.5,), zero_point=(0,))
CONVOLUTION = Conv2D(activation=Activation.RELU6)


def quantised(name, shape, quantisation=UNIT):
    return Tensor(name=name, shape=shape, dtype="int8", quantisation=quantisation)


def constant(name, data, quantisation=None):
    return Tensor(
        name=name, shape=data.shape, dtype=data.dtype.name, quantisation=quantisation, data=data
    )


@pytest.fixture
def graph():
    """Return a convolution from 4x4x2 to 2x2x5, then an addition with itself."""
    tensors = {
        0: quantised("image", (1, 4, 4, 2)),
        1: constant("weights", np.ones((5, 3, 3, 2), np.int8), EVEN),
        2: constant("bias", np.zeros(5, np.int32)),
        3: quantised("features", (1, 2, 2, 5)),
        4: quantised("sum", (1, 2, 2, 5)),
    }
    nodes = (
        Node(op=Op.CONV_2D, inputs=(0, 1, 2), outputs=(3,), attributes=CONVOLUTION, index=0),
        Node(
            op=Op.ADD,
            inputs=(3, 3),
            outputs=(4,),
            attributes=Arithmetic(),
            index=1,
        ),
    )
    return Graph(name="small", inputs=(0,), outputs=(4,), tensors=tensors, nodes=nodes)


def with_tensor(graph, number, **changes):
    return replace(
        graph, tensors={**graph.tensors, number: replace(graph.tensors[number], **changes)}
    )


def with_node(graph, position, **changes):
    nodes = list(graph.nodes)
    nodes[position] = replace(nodes[position], **changes)
    return replace(graph, nodes=tuple(nodes))


def refused(graph, sentence):
    with pytest.raises(ValueError, match=f"^load: {re.escape(sentence)}$"):
        verify(graph, "load")


def test_sound_graph(graph):
    verify(graph, "load")


def test_dangling_tensor(graph):
    refused(
        with_node(graph, 1, inputs=(3, 9)),
        "operator 1 (ADD) must read what an earlier operator made, not tensor 9",
    )


def test_order(graph):
    refused(
        replace(graph, nodes=graph.nodes[::-1]),
        "operator 1 (ADD) must read what an earlier operator made, not tensor 3",
    )


def test_cycle(graph):
    refused(
        with_node(graph, 0, inputs=(4, 1, 2)),
        "operator 0 (CONV_2D) must read what an earlier operator made, not tensor 4",
    )


def test_written_twice(graph):
    refused(
        with_node(graph, 1, outputs=(3,)),
        "operator 1 (ADD) must write a tensor that nothing else provides, not 3",
    )


def test_constant_input(graph):
    refused(replace(graph, inputs=(0, 1)), "input 1 must be given once and not be constant")


def test_unknown_input(graph):
    refused(replace(graph, inputs=(0, 8)), "input 8 must be one of the graph's tensors")


def test_an_output_without_producer(graph):
    refused(replace(graph, outputs=(7,)), "output 7 must be made by an operator")


def test_output_names(graph):
    graph = with_tensor(graph, 3, name="sum")
    refused(replace(graph, outputs=(3, 4)), "output names must differ, but 'sum' occurs 2 times")


def test_empty_dimension(graph):
    refused(
        with_tensor(graph, 0, shape=(1, 0, 4, 2)),
        "operator 0 (CONV_2D) must have dimensions of at least 1 for 'image', not (1, 0, 4, 2)",
    )


def test_size(graph):
    refused(
        with_tensor(graph, 0, shape=(1, 65536, 65536, 2)),
        "tensor 0 (image) must have at most 2147483647 bytes, not 8589934592",
    )


def test_data(graph):
    refused(
        with_tensor(graph, 2, data=np.zeros(4, np.int32)),
        "tensor 2 (bias) must have data of int32 (5,), not int32 (4,)",
    )


@pytest.mark.parametrize("scale", [0.0, -0.5, float("nan"), float("inf")])
def test_scale(graph, scale):
    refused(
        with_tensor(graph, 0, quantisation=replace(UNIT, scale=(scale,))),
        f"tensor 0 (image) must have scales that are positive and finite, not {scale}",
    )


@pytest.mark.parametrize("zero", [-129, 128])
def test_zero_point(graph, zero):
    refused(
        with_tensor(graph, 0, quantisation=replace(UNIT, zero_point=(zero,))),
        f"tensor 0 (image) must have zero points of -128 to 127, not {zero}",
    )


def test_scale_of_a_float(graph):
    refused(
        with_tensor(graph, 0, dtype="float32"), "tensor 0 (image) must have no scale, being float32"
    )


def test_missing_scale(graph):
    refused(
        with_tensor(graph, 3, quantisation=None),
        "operator 0 (CONV_2D) must have a scale and a zero point for 'features'",
    )


def test_channel_axis(graph):
    many = Quantisation(scale=(0.5,) * 5, zero_point=(0,) * 5, axis=4)
    refused(
        with_tensor(graph, 1, quantisation=many),
        "tensor 1 (weights) must have its channels along one of 4 axes, not 4",
    )


def test_channel_count(graph):
    many = Quantisation(scale=(0.5,) * 4, zero_point=(0,) * 5, axis=0)
    refused(
        with_tensor(graph, 1, quantisation=many),
        "tensor 1 (weights) must have 5 scales and zero points, not 4 and 5",
    )


def test_weight_axis(graph):
    many = Quantisation(scale=(0.5,) * 3, zero_point=(0,) * 3, axis=1)
    refused(
        with_tensor(graph, 1, quantisation=many),
        "operator 0 (CONV_2D) must have weight scales along axis 0, not 1",
    )


def test_activation_with_many_scales(graph):
    many = Quantisation(scale=(0.5,) * 5, zero_point=(0,) * 5, axis=3)
    refused(
        with_tensor(graph, 3, quantisation=many),
        "operator 0 (CONV_2D) must have one scale for 'features', not 5",
    )


def test_weights_that_vary(graph):
    graph = with_tensor(graph, 1, data=None)
    refused(replace(graph, inputs=(0, 1)), "operator 0 (CONV_2D) must have constant weights")


def test_weight_zero_point(graph):
    refused(
        with_tensor(graph, 1, quantisation=UNIT),
        "operator 0 (CONV_2D) must have weights of zero point 0, not 3",
    )


def test_types(graph):
    refused(
        with_tensor(graph, 4, dtype="int16"),
        "operator 1 (ADD) of int8 int8 -> int16 runs neither on the engine nor on the host",
    )


def of_words(graph):
    """Return the graph with int16 data and an int64 bias."""
    for number in (0, 3, 4):
        graph = with_tensor(graph, number, dtype="int16", quantisation=EVEN)
    return with_tensor(graph, 2, dtype="int64", data=np.zeros(5, np.int64))


@pytest.mark.parametrize("number", [0, 3])
def test_words_have_no_zero_point(graph, number):
    graph = of_words(graph)
    verify(graph, "load")
    refused(
        with_tensor(graph, number, quantisation=UNIT),
        "operator 0 (CONV_2D) must have 16-bit data of zero point 0, not 3",
    )


def test_ratio_of_wide_sums(graph):
    tiny = Quantisation(scale=(2.0**-10,), zero_point=(0,))
    refused(
        with_tensor(of_words(graph), 3, quantisation=tiny),
        "operator 0 (CONV_2D) does not fit its scales: a scale ratio of 64-bit sums must be below "
        "128, not 256.0",
    )


def test_attributes(graph):
    refused(
        with_node(graph, 1, attributes=Attributes()),
        "operator 1 (ADD) must have attributes of Arithmetic, not Attributes",
    )


def test_output_shape(graph):
    refused(
        with_tensor(graph, 3, shape=(1, 2, 2, 6)),
        "operator 0 (CONV_2D) must have an output of shape (1, 2, 2, 5), not (1, 2, 2, 6)",
    )


def test_limit_without_an_integer(graph):
    refused(
        with_tensor(graph, 3, quantisation=Quantisation(scale=(1e-10,), zero_point=(0,))),
        "operator 0 (CONV_2D) does not fit its scales: the output's scale must keep 6.0 below "
        "2**31, not 1e-10",
    )


def test_ratio_without_a_multiplier(graph):
    tiny = Quantisation(scale=(2.0**-60,), zero_point=(0,))
    refused(
        with_tensor(graph, 4, quantisation=tiny),
        "operator 1 (ADD) does not fit its scales: the sum's scale over the output's must be "
        "below 1, not 1099511627776.0",
    )


def single(op, given, output, attributes, constants=()):
    tensors = {0: given, 1: output, **dict(enumerate(constants, start=2))}
    inputs = (0, *range(2, 2 + len(constants)))
    node = Node(op=op, inputs=inputs, outputs=(1,), attributes=attributes, index=0)
    return Graph(name="single", inputs=(0,), outputs=(1,), tensors=tensors, nodes=(node,))


@pytest.mark.parametrize(
    ("image", "kernel", "sentence"),
    [
        ((1, 4, 4, 3), (5, 3, 3, 2), "the weights must have 3 input channels, not 2"),
        ((1, 2, 2, 2), (5, 3, 3, 2), "a kernel of (3, 3) must fit the padded image (2, 2)"),
        ((4, 4, 2), (5, 3, 3, 2), "an input must have 4 dimensions, not (4, 4, 2)"),
    ],
)
def test_convolution_shapes(image, kernel, sentence):
    weights = constant("weights", np.ones(kernel, np.int8), EVEN)
    graph = single(
        Op.CONV_2D,
        quantised("image", image),
        quantised("out", (1, 1, 1, 5)),
        CONVOLUTION,
        [weights],
    )
    refused(graph, f"operator 0 (CONV_2D) does not fit its inputs: {sentence}")


def test_bias_shape(graph):
    graph = with_tensor(graph, 2, shape=(4,), data=np.zeros(4, np.int32))
    refused(
        graph,
        "operator 0 (CONV_2D) does not fit its inputs: the bias must have the shape (5,), not (4,)",
    )


def test_depthwise_shape():
    attributes = DepthwiseConv2D(depth_multiplier=2)
    weights = constant("weights", np.ones((1, 3, 3, 5), np.int8), EVEN)
    graph = single(
        Op.DEPTHWISE_CONV_2D,
        quantised("image", (1, 4, 4, 3)),
        quantised("out", (1, 2, 2, 6)),
        attributes,
        [weights],
    )
    refused(
        graph,
        "operator 0 (DEPTHWISE_CONV_2D) does not fit its inputs: the weights must have the shape "
        "(1, 3, 3, 6), not (1, 3, 3, 5)",
    )


@pytest.mark.parametrize(
    ("shape", "keep", "sentence"),
    [
        ((1, 7), False, "the input's size must be a multiple of 6, not 7"),
        ((2, 3), True, "the input's last dimension must be 6, not (2, 3)"),
    ],
)
def test_dense_shape(shape, keep, sentence):
    attributes = FullyConnected(keep_num_dims=keep)
    weights = constant("weights", np.ones((4, 6), np.int8), EVEN)
    graph = single(
        Op.FULLY_CONNECTED,
        quantised("rows", shape),
        quantised("out", (1, 4)),
        attributes,
        [weights],
    )
    refused(graph, f"operator 0 (FULLY_CONNECTED) does not fit its inputs: {sentence}")


def test_window_limit():
    attributes = Pool2D(window=(2**11, 2**11))
    graph = single(
        Op.MAX_POOL_2D,
        quantised("image", (1, 2**11, 2**11, 1)),
        quantised("out", (1, 1, 1, 1)),
        attributes,
    )
    refused(
        graph,
        "operator 0 (MAX_POOL_2D) does not fit its inputs: a window must cover at most 1048576 "
        "elements, not (2048, 2048)",
    )


def test_reshape_size():
    graph = single(Op.RESHAPE, quantised("a", (2, 6)), quantised("b", (3, 5)), Attributes())
    refused(graph, "operator 0 (RESHAPE) must give 12 elements, not 15")


def test_broadcast(graph):
    graph = with_tensor(graph, 4, shape=(1, 4, 4, 2))
    nodes = (replace(graph.nodes[1], inputs=(0, 3)),)
    tensors = {**graph.tensors, 3: constant("c", np.ones((1, 3, 1, 1), np.int8), EVEN)}
    refused(
        replace(graph, nodes=nodes, tensors=tensors),
        "operator 1 (ADD) does not fit its inputs: the inputs must broadcast, unlike "
        "(1, 4, 4, 2) and (1, 3, 1, 1)",
    )


def test_softmax_output():
    graph = single(Op.SOFTMAX, quantised("a", (1, 6)), quantised("b", (1, 6)), Softmax(beta=1.0))
    refused(
        graph,
        "operator 0 (SOFTMAX) must have an output of scale 1/256 and zero point -128, not (0.5, 3)",
    )


@pytest.mark.parametrize("scale", [16.0, 64.0, 1e30])
def test_a_wide_softmax_leaves_the_largest_alone(scale):
    """Its ratio is limited, as that of the exponentials is in TensorFlow Lite Micro."""
    wide = Quantisation(scale=(scale,), zero_point=(0,))
    out = Quantisation(scale=(1 / 256,), zero_point=(-128,))
    graph = single(
        Op.SOFTMAX, quantised("a", (1, 3), wide), quantised("b", (1, 3), out), Softmax(beta=1.0)
    )
    verify(graph, "load")
    found = run_node(graph, graph.nodes[0], [np.int8([[5, 4, -128]])])
    assert found[1].tolist() == [[127, -128, -128]]


def test_several_outputs():
    tensors = {
        0: quantised("image", (1, 4)),
        1: quantised("first", (1, 2)),
        2: quantised("second", (1, 2)),
    }
    node = Node(
        op=Op.SPLIT,
        inputs=(0,),
        outputs=(1, 2),
        attributes=Split(axis=1, sizes=(2, 2)),
        index=0,
    )
    graph = Graph(name="split", inputs=(0,), outputs=(1, 2), tensors=tensors, nodes=(node,))
    verify(graph, "load")
    refused(
        with_tensor(graph, 2, shape=(1, 3)),
        "operator 0 (SPLIT) must have an output of shape (1, 2), not (1, 3)",
    )
    refused(
        replace(with_node(graph, 0, outputs=(1,)), outputs=(1,)),
        "operator 0 (SPLIT) must have 2 outputs, not 1",
    )


def test_concatenation_without_rescaling():
    tensors = {
        0: quantised("left", (1, 4)),
        1: quantised("right", (1, 4), EVEN),
        2: quantised("both", (1, 8)),
    }
    node = Node(op=Op.CONCATENATION, inputs=(0, 1), outputs=(2,), attributes=Axis(axis=1), index=0)
    graph = Graph(name="both", inputs=(0, 1), outputs=(2,), tensors=tensors, nodes=(node,))
    refused(
        graph,
        "operator 0 (CONCATENATION) must have inputs of the output's scale and zero point, unlike "
        "'right'",
    )


def test_fixed_output():
    graph = single(Op.LOGISTIC, quantised("image", (1, 4)), quantised("out", (1, 4)), Attributes())
    refused(
        graph,
        "operator 0 (LOGISTIC) must have an output of scale 1/256 and zero point -128, "
        "not (0.5, 3)",
    )


def test_coarse_input_of_hard_swish():
    fine = Quantisation(scale=(0.001,), zero_point=(0,))
    graph = single(
        Op.HARD_SWISH, quantised("image", (1, 4)), quantised("out", (1, 4), fine), Attributes()
    )
    refused(
        graph,
        "operator 0 (HARD_SWISH) does not fit its scales: the output's scale must be 0.00390625 "
        "or more",
    )


def test_weights_of_many_scales_between_floats():
    many = Quantisation(scale=(0.5,) * 5, zero_point=(0,) * 5, axis=0)
    graph = single(
        Op.FULLY_CONNECTED,
        Tensor(name="rows", shape=(1, 3), dtype="float32"),
        Tensor(name="out", shape=(1, 5), dtype="float32"),
        FullyConnected(),
        [constant("weights", np.ones((5, 3), np.int8), many)],
    )
    refused(
        graph,
        "operator 0 (FULLY_CONNECTED) must have one scale for weights between floats, not 5",
    )


def test_shapes_that_files_leave_loose(graph):
    flat = with_tensor(graph, 2, shape=(1, 1, 1, 5), data=np.zeros((1, 1, 1, 5), np.int32))
    verify(flat, "load")
    weights = constant("weights", np.ones((5, 3), np.int8), EVEN)
    attributes = FullyConnected()
    for shape in ((2, 5), (1, 2, 5), (2, 1, 1, 5)):
        output = quantised("out", shape)
        given = quantised("rows", (2, 3))
        verify(single(Op.FULLY_CONNECTED, given, output, attributes, [weights]), "load")
    refused(
        single(Op.FULLY_CONNECTED, given, quantised("out", (5, 2)), attributes, [weights]),
        "operator 0 (FULLY_CONNECTED) must have an output of shape (2, 5), not (5, 2)",
    )


def test_groups(graph):
    graph = with_tensor(graph, 1, shape=(5, 3, 3, 1), data=np.ones((5, 3, 3, 1), np.int8))
    refused(graph, "operator 0 (CONV_2D) has 2 groups")


@pytest.mark.parametrize(
    ("op", "given", "made", "limit"),
    [
        (Op.RELU6, 1e-43, 1.0, "6.0 below 2**31, not 1e-43"),
        (Op.RELU6, 1e-50, 1.0, "0.0 below 2**31, not 1e-50"),
        (Op.RELU, 1e-50, 1e-50, "0.0 below 2**31, not 1e-50"),
    ],
)
def test_limits_have_integers(op, given, made, limit):
    """RELU6 uses the scale of its input, not of its output."""
    scales = [Quantisation(scale=(scale,), zero_point=(0,)) for scale in (given, made)]
    ends = (quantised(name, (1, 4), scale) for name, scale in zip("ab", scales, strict=True))
    rule = "does not fit its scales: the output's scale must keep"
    refused(single(op, *ends, Attributes()), f"operator 0 ({op}) {rule} {limit}")


def test_fine_output_of_hard_swish_is_no_warning():
    """The ratio of scales overflows float32; this is an error, without a NumPy warning."""
    tiny = Quantisation(scale=(1e-45,), zero_point=(0,))
    graph = single(
        Op.HARD_SWISH, quantised("image", (1, 4)), quantised("out", (1, 4), tiny), Attributes()
    )
    refused(
        graph,
        "operator 0 (HARD_SWISH) does not fit its scales: a scale ratio must be below 2**30, "
        "not inf",
    )
