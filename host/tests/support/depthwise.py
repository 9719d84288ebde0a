"""Networks of one depthwise layer."""

import numpy as np

from matloom.ir.attributes import DepthwiseConv2D, Padding
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Op, Quantisation

__all__ = ["depthwise"]


def depthwise(
    size: tuple[int, int, int],
    kernel: tuple[int, int],
    *,
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    same: bool = True,
    multiplier: int = 1,
    seed: int = 0,
) -> Graph:
    """Return a network of one random depthwise layer; `size` ends with the input's channels."""
    generator = np.random.default_rng([seed, *size, *kernel])
    builder = GraphBuilder()
    scale = Quantisation(scale=(0.05,), zero_point=(-7,))
    image = builder.input("image", (2, *size), "int8", scale)
    data = generator.integers(-127, 128, (1, *kernel, multiplier * size[2]), np.int8)
    weights = builder.constant(data, Quantisation(scale=(0.01,), zero_point=(0,)))
    pads = [(0, 0), (0, 0)]
    if same:
        reach = [(taps - 1) * apart for taps, apart in zip(kernel, dilation, strict=True)]
        pads = [(each // 2, each - each // 2) for each in reach]
    (top, bottom), (left, right) = pads
    attributes = DepthwiseConv2D(
        stride=stride,
        dilation=dilation,
        padding=Padding(top=top, bottom=bottom, left=left, right=right),
        depth_multiplier=multiplier,
    )
    return builder.graph(builder.add(Op.DEPTHWISE_CONV_2D, [image, weights], attributes))
