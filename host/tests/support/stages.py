"""Stages of the array, built without a network."""

import numpy as np

from matloom.arch.config import Config
from matloom.select.build import Convolution, convolution_stage
from matloom.select.requantisation import Requantisation
from matloom.select.stage import ArrayStage
from matloom.select.window import Window

__all__ = ["stage_of"]

_SCALE = Requantisation(multiplier=2**30, shift=-3, zero=0, low=-128, high=127)


def stage_of(
    config: Config, filters: tuple[int, int, int, int], *, images: int = 1, **window: int
) -> ArrayStage:
    """Return a convolution from ``x`` to ``y`` whose weights are all one.

    `filters` are output channels, height, width and depth of the kernel; the other members of
    `Window` are given by name.
    """
    channels, height, width, depth = filters
    return convolution_stage(
        Convolution(
            name="conv",
            nodes=(0,),
            tensors=("x", "y"),
            window=Window(
                images=images, depth=depth, kernel_height=height, kernel_width=width, **window
            ),
            filters=np.ones(filters, np.int8),
            bias=np.zeros(channels, np.int64),
            input_zero=0,
            scale=_SCALE,
            config=config,
        )
    )
