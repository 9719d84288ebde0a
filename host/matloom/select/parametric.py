"""PRELU: multiplies negative values by a tensor of slopes."""

from matloom.ir.attributes import Activation
from matloom.ir.scales import prelu_scales
from matloom.select.context import Context
from matloom.select.elementwise import negative_part, positive_part, product, sum_of_parts
from matloom.select.scaled_channels import channel_factors, scaled_channels
from matloom.select.stage import Stage


def parametric_relu(context: Context) -> tuple[Stage, ...]:
    """Return the stages of PRELU: the positive part, plus the negative part times the slopes.

    At each element, one of both is at the zero point, so nothing is rounded or clamped twice.
    """
    above, below = prelu_scales(context.graph, context.node)
    scale = context.result(*below, Activation.NONE)
    positive, negative = positive_part(context, above), negative_part(context)
    target = context.buffer_name("below, scaled")
    data, slopes = context.inputs
    factors = channel_factors(context, 1)
    scaled: Stage
    if factors is not None:
        scaled = scaled_channels(
            context,
            tensors=(negative.output, target),
            zero=data.zero_point,
            factors=factors,
            scale=scale,
        )
    else:
        zeros = (data.zero_point, slopes.zero_point)
        scaled = product(context, (negative.output, context.sources[1]), zeros, scale, target)
    return positive, negative, scaled, sum_of_parts(context, positive, scaled)
