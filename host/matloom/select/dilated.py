"""Splits dilated convolutions into phases, within which the kernel is not dilated.

A phase has the input positions with equal remainders modulo the dilation.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from matloom.select.window import Window

#: Maximum number of stages of a dilated convolution.
_MAX_PHASES = 64


class OutputPhase(NamedTuple):
    """Outputs of a dilated convolution that read only one phase of its input.

    Members
    -------
    first:
        Row and column of the first of these outputs.
    window:
        Window of these outputs, with strides that equal its dilations.
    """

    first: tuple[int, int]
    window: Window


def dilated_phases(window: Window) -> Iterator[OutputPhase]:
    """Yield the phases of a dilated convolution; none if it has a stride or too many phases."""
    dilations = (window.dilation_y, window.dilation_x)
    if max(window.stride_y, window.stride_x) > 1 or dilations[0] * dilations[1] > _MAX_PHASES:
        return
    for y, x in itertools.product(
        range(min(dilations[0], window.out_height)), range(min(dilations[1], window.out_width))
    ):
        yield OutputPhase(
            (y, x),
            replace(
                window,
                out_height=-(-(window.out_height - y) // dilations[0]),
                out_width=-(-(window.out_width - x) // dilations[1]),
                stride_y=dilations[0],
                stride_x=dilations[1],
                pad_top=window.pad_top - y,
                pad_left=window.pad_left - x,
            ),
        )
