"""Stages of element-wise operators: sums, limits, changes of scale."""

import itertools
from dataclasses import replace

import numpy as np

from matloom.arch.isa import Addend
from matloom.arch.numerics import ADDEND_SCALE, SQUARE_SCALE, multiply_by_quantized_multiplier
from matloom.ir.attributes import Activation, Arithmetic, LeakyRelu
from matloom.ir.graph import Op
from matloom.ir.scales import (
    Addition,
    Multiplier,
    activation_range,
    addition_scales,
    leaky_scales,
    rescale_multiplier,
    square_scales,
)
from matloom.kernels.two_slopes import two_slopes
from matloom.select.byte_posts import (
    addend_posts,
    narrowing_posts,
    product_posts,
    requantise_posts,
    sum_posts,
)
from matloom.select.context import SAME, Context, NotOnEngine
from matloom.select.copies import copy_of_lines, copy_stage
from matloom.select.extremes import extreme
from matloom.select.lookup import table_stage
from matloom.select.requantisation import Requantisation
from matloom.select.stage import Posts, Stage, VectorStage
from matloom.select.two_slopes import sloped_stage


def vector_stage(
    context: Context, posts: Posts, inputs: tuple[str, ...], target: str
) -> VectorStage:
    """Return an element-wise stage that writes `target`, by default the operator's result."""
    return VectorStage(
        name=context.name,
        nodes=context.nodes,
        inputs=inputs,
        output=target or context.results[0],
        size=context.output.size_bytes,
        element_bytes=context.output.element_bytes,
        input_ratio=context.inputs[0].element_bytes // context.output.element_bytes,
        tile_unit=context.tile_unit,
        posts=posts,
    )


def _requantise_stage(
    context: Context, zero: int, scale: Requantisation, target: str = ""
) -> VectorStage:
    """Return the stage that requantises the first input, whose zero point is `zero`."""
    return vector_stage(context, requantise_posts(zero, scale), context.sources[:1], target)


def with_repetition(context: Context, stage: VectorStage) -> VectorStage:
    """Return `stage`, changed to repeat inputs that are shorter than the output."""
    period, repeated = _repetition(context)
    return replace(stage, period=period, repeated=repeated)


def _sum_stage(context: Context, sources: tuple[str, str], zeros: tuple[int, int]) -> VectorStage:
    """Return the stage that adds two tensors with zero points `zeros`, scaled as in an ADD."""
    attributes = context.node.attributes_as(Arithmetic)
    scales = addition_scales(context.graph, context.node)
    result = context.result(*scales.output, attributes.activation)
    posts = sum_posts(zeros, scales.inputs, scales.left_shift, result)
    shifts = [(*pair, scales.left_shift) == ADDEND_SCALE for pair in scales.inputs]
    if context.config.has_addends and any(shifts):
        shifted = shifts.index(True)
        posts = addend_posts(1 - shifted, posts, zeros[shifted])
    return with_repetition(context, vector_stage(context, posts, sources, ""))


def squared_difference(context: Context) -> Stage:
    """Return the stage of SQUARED_DIFFERENCE; the operand of the larger scale is only shifted."""
    if not context.config.has_squares:
        raise NotOnEngine("it squares differences, which needs products = 3 in the configuration")
    scales = square_scales(context.graph, context.node)
    zeros = (context.inputs[0].zero_point, context.inputs[1].zero_point)
    result = context.result(*scales.output, Activation.NONE)
    shifted = [(*pair, scales.left_shift) for pair in scales.inputs].index(SQUARE_SCALE)
    posts = sum_posts(zeros, scales.inputs, scales.left_shift, result)
    posts = addend_posts(1 - shifted, posts, zeros[shifted], Addend.SQUARE)
    return with_repetition(context, vector_stage(context, posts, context.sources, ""))


def _repetition(context: Context) -> tuple[int, tuple[int, ...]]:
    """Return the period of a `VectorStage` in bytes, and the indices of the inputs that repeat.

    The period is 0 if no input repeats. Constants need not repeat, because the program stores them
    broadcast.

    Raises
    ------
    NotOnEngine
        A computed input is broadcast in another way than by repetition, or two have different
        periods.
    """
    periods, repeated = set(), []
    shape = context.output.shape
    for number, tensor in enumerate(context.inputs):
        if tensor.data is not None or tensor.size == context.output.size:
            continue
        inner = tuple(itertools.dropwhile(lambda length: length == 1, tensor.shape))
        if inner != shape[len(shape) - len(inner) :]:
            raise NotOnEngine(f"it broadcasts {tensor.shape} to {shape}")
        periods.add(tensor.size * context.output.element_bytes)
        repeated.append(number)
    if len(periods) > 1:
        raise NotOnEngine("it broadcasts both inputs")
    period = periods.pop() if periods else 0
    return period, tuple(repeated)


def add(context: Context) -> Stage:
    """Return ADD as a stage, the form in which the engine runs an operator."""
    context.check_words()
    first, second = (tensor.zero_point for tensor in context.inputs)
    return _sum_stage(context, (context.sources[0], context.sources[1]), (first, second))


def _is_odd_function(scale: Multiplier, left_shift: int, zero: int) -> bool:
    """Return whether scaling is an odd function of bytes minus `zero`: f(-x) is always -f(x)."""
    values = (np.arange(-128, 128) - zero) << left_shift
    above, below = (multiply_by_quantized_multiplier(x, *scale) for x in (values, -values))
    return bool(np.all(above == -below))


def _rounding_matters(context: Context, scales: Addition) -> bool:
    """Return whether negating the second input of a SUB before it is scaled changes a result."""
    (first, second), shift = (tensor.zero_point for tensor in context.inputs), scales.left_shift
    left, right = ((np.arange(-128, 128) - zero) << shift for zero in (first, second))
    added = multiply_by_quantized_multiplier(left, *scales.inputs[0])[:, np.newaxis]
    exact = multiply_by_quantized_multiplier(right, *scales.inputs[1])
    negated = multiply_by_quantized_multiplier(-right, *scales.inputs[1])
    halves = exact != -negated
    zero, activation = context.output.zero_point, context.node.attributes_as(Arithmetic).activation
    results = (
        np.clip(
            multiply_by_quantized_multiplier(total, *scales.output) + zero,
            *activation_range(activation, context.output),
        )
        for total in (added - exact[halves], added + negated[halves])
    )
    return not np.array_equal(*results)


def subtract(context: Context) -> tuple[Stage, ...]:
    """Return the stages of SUB: the complement of the second input, -1 - x, and an addition.

    The zero point is complemented, too, so the operand is negated. Scaling rounds halves up, which
    is not symmetric; SUB is refused if that may change a result.
    """
    scales = addition_scales(context.graph, context.node)
    first, second = (tensor.zero_point for tensor in context.inputs)
    if not _is_odd_function(scales.inputs[1], scales.left_shift, second) and (
        context.output.dtype != "int8" or _rounding_matters(context, scales)
    ):
        raise NotOnEngine("its second input at this scale rounds halves")
    negated = context.buffer_name("negated")
    size, tile_unit = context.output.size, context.tile_unit
    if context.inputs[1].data is None and context.inputs[1].size < size:
        size = tile_unit = context.inputs[1].size
    complement = copy_stage(
        name=context.name,
        nodes=context.nodes,
        tensors=(context.sources[1], negated),
        copy=copy_of_lines(size // tile_unit, tile_unit, context.config),
        config=context.config,
        complement=True,
    )
    return complement, _sum_stage(context, (context.sources[0], negated), (first, -1 - second))


def quantize(context: Context) -> Stage:
    """Return the stage of QUANTIZE between integer types, except from int8 to int16.

    Bytes use a table if the engine has tables, because other stages can absorb it; uint8 always
    needs one.
    """
    data = context.inputs[0]
    types = {data.dtype, context.output.dtype}
    if "uint8" in types or (types == {"int8"} and context.config.tables):
        return table_stage(context)
    scale = context.result(*rescale_multiplier(data, context.output), Activation.NONE)
    if (data.dtype, context.output.dtype) == ("int16", "int8"):
        if not context.config.has_words:
            built = ", ".join(context.config.mac_modes)
            raise NotOnEngine(f"the engine is built with {built}, not i16xi8")
        posts = narrowing_posts(data.zero_point, scale)
        return vector_stage(context, posts, context.sources[:1], "")
    context.check_words()
    return _requantise_stage(context, data.zero_point, scale)


def relu(context: Context) -> Stage:
    """Return the stage of RELU with a change of scale."""
    context.check_words()
    data = context.inputs[0]
    scale = context.result(*rescale_multiplier(data, context.output), Activation.RELU)
    return _requantise_stage(context, data.zero_point, scale)


def _clamp_stage(context: Context, low: int, high: int) -> Stage:
    """Return the stage that clamps the first input to ``low .. high``, at the same scale."""
    context.check_words()
    same = context.result(*SAME, Activation.NONE)
    return _requantise_stage(context, 0, replace(same, zero=0, low=low, high=high))


def relu6(context: Context) -> Stage:
    """Return the stage of RELU6, which keeps the input's scale."""
    return _clamp_stage(context, *activation_range(Activation.RELU6, context.inputs[0]))


def maximum_or_minimum(context: Context) -> Stage | tuple[Stage, ...]:
    """Return the stages of MAXIMUM or MINIMUM, with a constant scalar or of computed tensors."""
    data = context.inputs[0]
    if context.inputs[1].data is None:
        return extreme(context)
    value = context.constant(1)
    if value.size != 1:
        raise NotOnEngine("the engine compares with one constant")
    if data.data is not None or data.shape != context.output.shape:
        raise NotOnEngine(f"it broadcasts {data.shape} to {context.output.shape}")
    level = int(value.reshape(-1)[0])
    every = np.iinfo(context.output.dtype)
    maximum = context.node.op is Op.MAXIMUM
    return _clamp_stage(context, *((level, every.max) if maximum else (every.min, level)))


def product(
    context: Context,
    sources: tuple[str, str],
    zeros: tuple[int, int],
    scale: Requantisation,
    target: str = "",
) -> VectorStage:
    """Return the stage of the element-wise product of two tensors."""
    if not context.config.products:
        raise NotOnEngine("it multiplies tensors, and the configuration has products = 0")
    if context.output.dtype == "int16" and not context.config.has_word_products:
        raise NotOnEngine("it multiplies words, which needs products = 4 in the configuration")
    stage = with_repetition(
        context, vector_stage(context, product_posts(zeros, scale), sources, target)
    )
    if stage.repeated != (1,):
        return stage
    # The repeated operand goes to the accumulators, where it is loaded only once.
    (_first, factor), (_second, each) = product_posts(zeros[::-1], scale)
    return replace(stage, posts=((1, factor), (0, each)))


def sum_of_parts(context: Context, above: VectorStage, below: Stage) -> VectorStage:
    """Return the stage that adds two stages' results, one of which is zero at each element."""
    zero = context.output.zero_point
    posts = sum_posts((zero, zero), (SAME, SAME), 0, context.result(*SAME, Activation.NONE))
    return vector_stage(context, posts, (above.output, below.output), "")


def positive_part(context: Context, scale: Multiplier) -> VectorStage:
    """Return the stage of ``max(x, 0)``, scaled, for the operator's first input `x`."""
    zero, output = context.inputs[0].zero_point, context.output.zero_point
    positive = replace(context.result(*scale, Activation.NONE), low=output)
    return _requantise_stage(context, zero, positive, context.buffer_name("above"))


def negative_part(context: Context) -> VectorStage:
    """Return the stage of ``min(x, 0)``, not scaled, for the operator's first input `x`."""
    zero = context.inputs[0].zero_point
    negative = Requantisation(multiplier=SAME[0], shift=SAME[1], zero=0, low=-128, high=zero)
    return _requantise_stage(context, 0, negative, context.buffer_name("below"))


def leaky_relu(context: Context) -> Stage | tuple[Stage, ...]:
    """Return the stages of LEAKY_RELU: a table, the larger of two sums, or a sum of two parts."""
    context.check_words()
    words = context.output.dtype == "int16"
    if context.config.tables and not words:
        return table_stage(context)
    slopes = two_slopes(context.graph, context.node, context.config)
    if slopes is not None:
        return sloped_stage(context, slopes)
    if context.node.attributes_as(LeakyRelu).alpha < 0:
        where = "in int16" if words else "where the configuration has tables = 0"
        raise NotOnEngine(f"its slope must be 0 or more {where}")
    above, below = leaky_scales(context.graph, context.node)
    zero, output = context.inputs[0].zero_point, context.output.zero_point
    limited = replace(context.result(*below, Activation.NONE), high=output)
    negative = _requantise_stage(context, zero, limited, context.buffer_name("below"))
    positive = positive_part(context, above)
    return positive, negative, sum_of_parts(context, positive, negative)
