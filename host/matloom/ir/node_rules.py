"""Rules for the operators of a graph: types, attributes, shapes and scales."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from matloom.ir.attributes import Activation, Lookup
from matloom.ir.curves import sigmoid_ratio
from matloom.ir.graph import Graph, Node, Op, Tensor
from matloom.ir.moves import reduced_shape, slice_shape
from matloom.ir.operators import OPERATORS, Operator
from matloom.ir.products import has_computed_weights
from matloom.ir.scales import (
    activation_range,
    addition_scales,
    channel_multipliers,
    hard_swish_scales,
    leaky_scales,
    prelu_scales,
    product_multiplier,
    reduction_multiplier,
    rescale_multiplier,
    softmax_scale,
    square_scales,
    unary_multiplier,
)
from matloom.ir.shapes import IMAGE_RANK, same_shape

#: Integer types that can represent real numbers.
QUANTISED = ("int8", "int16", "uint8")

#: Scale and zero point of the output that integer kernels assume, by operator and output type.
FIXED_OUTPUTS = {
    (Op.LOGISTIC, "int8"): (1 / 256, -128),
    (Op.LOGISTIC, "int16"): (2.0**-15, 0),
    (Op.TANH, "int16"): (2.0**-15, 0),
    (Op.LOG_SOFTMAX, "int8"): (1 / 16, 127),
    (Op.SOFTMAX, "int8"): (1 / 256, -128),
    (Op.SOFTMAX, "uint8"): (1 / 256, 0),
}

#: Shape rules of operators whose kernels write the output's elements in order, whatever its axes.
#: Other kernels compute positions from the axes, and would read beyond a shape with fewer axes.
_FLAT = (same_shape, reduced_shape, slice_shape)

#: Activation of each operator that clamps, and whose scale decides the limits: the input's (0) or
#: the output's (1).
LIMITS = {Op.RELU: (Activation.RELU, 1), Op.RELU6: (Activation.RELU6, 0)}

#: Operators whose reference kernels run even if the limits of their activation cannot be computed,
#: with uninitialised limits.
_UNCHECKED_LIMITS = frozenset({Op.AVERAGE_POOL_2D, Op.MAX_POOL_2D})

_BYTES = 256

#: Below this scale, ordinary floats divided by it do not fit the 32 bits that reference kernels
#: cast to.
_LEAST_SCALE = 2.0**-20

#: Function that derives the multipliers of each operator from scales, or raises ValueError.
MULTIPLIER_FUNCTIONS: Mapping[Op, Callable[[Graph, Node], object]] = {
    Op.ADD: addition_scales,
    Op.BATCH_MATMUL: product_multiplier,
    Op.HARD_SWISH: hard_swish_scales,
    Op.LEAKY_RELU: leaky_scales,
    Op.LOGISTIC: sigmoid_ratio,
    Op.LOG_SOFTMAX: softmax_scale,
    Op.MEAN: reduction_multiplier,
    Op.MUL: product_multiplier,
    Op.PRELU: prelu_scales,
    Op.RELU: unary_multiplier,
    Op.SOFTMAX: softmax_scale,
    Op.SQUARED_DIFFERENCE: square_scales,
    Op.SUB: addition_scales,
    Op.SUM: reduction_multiplier,
    Op.TANH: sigmoid_ratio,
}


class RuleKind(Enum):
    """Kind of a broken rule, which decides whether an interpreter may still run the operator."""

    #: Matloom has no kernel for the operator, but an interpreter may run it.
    UNSUPPORTED = auto()
    #: The operator's tensors do not fit each other, so an interpreter that does not check them
    #: would read or write beyond them.
    CONTRADICTION = auto()
    #: Nothing may run the operator, because interpreters would use uninitialised numbers.
    UNDEFINED = auto()


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A rule that an operator breaks, as a sentence that continues after its name.

    Members
    -------
    kind:
        Kind of the broken rule, which decides whether an interpreter may still run the operator.
    """

    sentence: str
    kind: RuleKind = RuleKind.UNSUPPORTED

    def __str__(self) -> str:
        return self.sentence


def _unsupported_reason(
    node: Node, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> str | None:
    """Return why no kernel runs an operator that may be valid, as a sentence for `Problem`.

    Return None if a kernel may run it.
    """
    rules = OPERATORS[node.op]
    sides = [[tensor.dtype for tensor in side] for side in (inputs, outputs)]
    if rules.variadic:
        sides = [list(dict.fromkeys(side)) for side in sides]
    types = " -> ".join(map(" ".join, sides))
    if types not in rules.types:
        return f"of {types} runs neither on the engine nor on the host"
    if node.op is Op.CONV_2D and _is_grouped(inputs[0].shape, inputs[1].shape):
        return f"has {inputs[0].shape[3] // inputs[1].shape[3]} groups"
    if rules.weight_axis is None or inputs[1].dtype not in QUANTISED:
        return None
    computed = has_computed_weights(node, inputs)
    for name, tensor in zip(("weights", "bias"), inputs[1:], strict=False):
        if tensor.data is None and not computed:
            return f"must have constant {name}"
    quantisation = inputs[1].quantisation
    for zero in () if quantisation is None else quantisation.zero_point:
        if zero != 0 and inputs[1].dtype != "uint8" and not computed:
            return f"must have weights of zero point 0, not {zero}"
    if inputs[0].dtype == outputs[0].dtype == "int16":
        for tensor in (inputs[0], outputs[0]):
            if tensor.quantisation is not None and any(tensor.quantisation.zero_point):
                return f"must have 16-bit data of zero point 0, not {tensor.zero_point}"
    if inputs[0].dtype == "float32" and quantisation is not None and quantisation.axis is not None:
        return f"must have one scale for weights between floats, not {len(quantisation.scale)}"
    return None


def _is_grouped(image: tuple[int, ...], weights: tuple[int, ...]) -> bool:
    """Return whether each filter reads only one of several equal groups of channels."""
    if len(image) != IMAGE_RANK or len(weights) != IMAGE_RANK:
        return False
    return image[3] != weights[3] and image[3] % weights[3] == 0


def node_problems(tensors: Mapping[int, Tensor], node: Node) -> Iterator[Problem]:
    """Yield the rules that a node breaks; later checks may assume that earlier ones passed."""
    rules = OPERATORS[node.op]
    inputs = [tensors[number] for number in node.inputs]
    outputs = [tensors[number] for number in node.outputs]
    if type(node.attributes) is not rules.attributes:
        expected, actual = rules.attributes.__name__, type(node.attributes).__name__
        yield Problem(sentence=f"must have attributes of {expected}, not {actual}")
        return
    if node.op is Op.REFERENCE:
        return
    problem = _unsupported_reason(node, inputs, outputs)
    if problem is not None:
        yield Problem(sentence=problem)
        return
    for tensor in (*inputs, *outputs):
        if tensor.size < 1:
            sentence = f"must have dimensions of at least 1 for {tensor.name!r}, not {tensor.shape}"
            yield Problem(sentence=sentence)
    yield from _check_shape(node, rules, inputs, outputs)
    if isinstance(node.attributes, Lookup):
        yield from _check_table(node.attributes.table)
    if node.op is Op.CONCATENATION:
        yield from _check_same_scale(inputs, outputs[0])
    if node.op is Op.RELU6 and outputs[0].dtype == "uint8" and inputs[0].dtype == "uint8":
        # TensorFlow Lite Micro, which runs int8 alone, ignores the output's scale; LiteRT does not.
        yield from _check_same_scale(inputs, outputs[0])
    if rules.scaled:
        yield from _check_scales(node, rules, inputs, outputs)
        yield from _check_ratios(tensors, node)


def _check_table(table: Sequence[int]) -> Iterator[Problem]:
    """Yield a problem unless a lookup table has an int8 result for each of the 256 bytes."""
    if len(table) != _BYTES or not all(-_BYTES // 2 <= entry < _BYTES // 2 for entry in table):
        sentence = f"must have a table of {_BYTES} numbers of int8, not of {len(table)}"
        yield Problem(sentence=sentence)


def _check_scales(
    node: Node, rules: Operator, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Iterator[Problem]:
    """Yield the problems of scales and zero points on which kernels rely."""
    for tensor in (*inputs, *outputs):
        if tensor.dtype in QUANTISED and tensor.quantisation is None:
            sentence = f"must have a scale and a zero point for {tensor.name!r}"
            activation = getattr(node.attributes, "activation", Activation.NONE)
            unset = node.op in _UNCHECKED_LIMITS and activation is not Activation.NONE
            kind = RuleKind.UNDEFINED if unset else RuleKind.UNSUPPORTED
            yield Problem(sentence=sentence, kind=kind)
    if rules.weight_axis is not None:
        quantisation = inputs[1].quantisation
        if quantisation is not None and quantisation.axis not in (None, rules.weight_axis):
            sentence = (
                f"must have weight scales along axis {rules.weight_axis}, not {quantisation.axis}"
            )
            yield Problem(sentence=sentence)
        inputs = inputs[:1]
    for tensor in (*inputs, *outputs):
        if tensor.quantisation is not None and tensor.quantisation.axis is not None:
            scales = len(tensor.quantisation.scale)
            sentence = f"must have one scale for {tensor.name!r}, not {scales}"
            # TensorFlow Lite Micro uses the first one for all channels.
            yield Problem(sentence=sentence, kind=RuleKind.CONTRADICTION)
    wanted = FIXED_OUTPUTS.get((node.op, outputs[0].dtype))
    if wanted is not None and outputs[0].quantisation is not None:
        given_pair = (outputs[0].scale, outputs[0].zero_point)
        if given_pair != wanted:
            sentence = (
                f"must have an output of scale 1/{1 / wanted[0]:.0f} and zero point {wanted[1]}, "
                f"not {given_pair}"
            )
            yield Problem(sentence=sentence)


def _check_same_scale(inputs: Sequence[Tensor], output: Tensor) -> Iterator[Problem]:
    """Yield a problem for each input whose scale or zero point differs from the output's."""
    for tensor in inputs:
        if tensor.quantisation != output.quantisation:
            sentence = (
                f"must have inputs of the output's scale and zero point, unlike {tensor.name!r}"
            )
            yield Problem(sentence=sentence)


def _check_ratios(tensors: Mapping[int, Tensor], node: Node) -> Iterator[Problem]:
    """Yield a problem if a ratio of scales, or a limit, cannot be represented by integers."""
    graph = Graph(name="", inputs=(), outputs=(), tensors=tensors, nodes=(node,))
    output = tensors[node.outputs[0]]
    if output.quantisation is None:
        return
    activation = getattr(node.attributes, "activation", Activation.NONE)
    kind = RuleKind.UNSUPPORTED
    try:
        if node.op in LIMITS:
            limit, side = LIMITS[node.op]
            activation_range(limit, graph.tensors[(node.inputs, node.outputs)[side][0]])
        if activation is not Activation.NONE:
            kind = RuleKind.UNDEFINED if node.op in _UNCHECKED_LIMITS else kind
            activation_range(activation, output)
        if OPERATORS[node.op].weight_axis is not None:
            _, shifts = channel_multipliers(graph, node)
            if node.op is Op.FULLY_CONNECTED and output.dtype == "uint8" and shifts.max() > 0:
                # The kernel, LiteRT's, drops the bits above 32 after the product.
                raise ValueError("a scale ratio of uint8 must be below 1")
        elif node.op in MULTIPLIER_FUNCTIONS:
            MULTIPLIER_FUNCTIONS[node.op](graph, node)
        elif node.op is Op.QUANTIZE and graph.tensors[node.inputs[0]].quantisation is not None:
            rescale_multiplier(graph.tensors[node.inputs[0]], output)
        elif node.op is Op.QUANTIZE and output.quantisation.scale[0] < _LEAST_SCALE:
            raise ValueError(f"the output's scale must be {_LEAST_SCALE} or more")
    except ValueError as error:
        yield Problem(sentence=f"does not fit its scales: {error}", kind=kind)


def _check_shape(
    node: Node, rules: Operator, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Iterator[Problem]:
    """Yield the problems of output shapes; a dense layer's output may have other axes."""
    if rules.shape is None and rules.output_shapes is None:
        if inputs[0].size != outputs[0].size:
            sentence = f"must give {inputs[0].size} elements, not {outputs[0].size}"
            yield Problem(sentence=sentence, kind=RuleKind.CONTRADICTION)
        return
    input_shapes = [tensor.shape for tensor in inputs]
    try:
        if rules.output_shapes is not None:
            shapes = rules.output_shapes(input_shapes, node.attributes)
        else:
            assert rules.shape is not None
            shapes = [rules.shape(input_shapes, node.attributes)]
    except ValueError as error:
        yield Problem(sentence=f"does not fit its inputs: {error}", kind=RuleKind.CONTRADICTION)
        return
    if len(shapes) != len(outputs):
        sentence = f"must have {len(shapes)} outputs, not {len(outputs)}"
        yield Problem(sentence=sentence, kind=RuleKind.CONTRADICTION)
        return
    for shape, output in zip(shapes, outputs, strict=True):
        # A dense layer's rows are its elements; files give them any number of dimensions.
        same = math.prod(shape) == output.size
        loose = node.op is Op.FULLY_CONNECTED and same
        if shape != output.shape and not (loose and shape[-1:] == output.shape[-1:]):
            sentence = f"must have an output of shape {shape}, not {output.shape}"
            flat = same and rules.output_shapes is None and rules.shape in _FLAT
            kind = RuleKind.UNSUPPORTED if flat else RuleKind.CONTRADICTION
            yield Problem(sentence=sentence, kind=kind)
