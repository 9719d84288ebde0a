"""Depthwise convolutions with a multiplier, computed by a sliding window on repeated channels."""

from dataclasses import replace

import numpy as np

from matloom.arch.config import Config
from matloom.cost import exec_cycles
from matloom.select.build import Convolution, depthwise_stage
from matloom.select.context import SAME
from matloom.select.requantisation import Requantisation
from matloom.select.stage import ArrayStage
from matloom.select.window import pointwise_window


def depth_multiplier_stages(layer: Convolution, repeated: str) -> tuple[ArrayStage, ...]:
    """Return a copy that repeats channels, and a depthwise convolution that reads them.

    The result is empty if the layer has no multiplier or is not int8, if the copies would fill more
    than three quarters of the scratchpad, or if a single stage takes no more cycles.

    Parameters
    ----------
    repeated:
        Name of the tensor between both stages.
    """
    window, channels, config = layer.window, layer.filters.shape[2], layer.config
    copies = window.images * window.in_height * window.in_width * channels
    if channels == window.depth or layer.mode != "i8xi8" or copies > 3 * config.spad_bytes // 4:
        return ()
    zero = layer.input_zero
    same = Requantisation(multiplier=SAME[0], shift=SAME[1], zero=zero, low=-128, high=127)
    copy = replace(
        layer,
        tensors=(layer.tensors[0], repeated),
        window=pointwise_window(window.images, (window.in_height, window.in_width), window.depth),
        filters=np.ones((1, 1, channels), np.int8),
        bias=np.zeros(channels, np.int32),
        scale=same,
        macs=0,
    )
    slid = replace(
        layer, tensors=(repeated, layer.tensors[1]), window=replace(window, depth=channels)
    )
    stages = depthwise_stage(copy), depthwise_stage(slid)
    apart = sum(_cycles(stage, config) for stage in stages)
    return stages if apart < _cycles(depthwise_stage(layer), config) else ()


def _cycles(stage: ArrayStage, config: Config) -> int:
    """Return the estimated cycles of a stage without transfers."""
    grid = stage.grid
    positions = grid.images * grid.rows * grid.width
    vectors = grid.images * stage.loop_nest.vectors_per_step(grid.rows, grid.width)
    steps = stage.steps * grid.blocks
    return exec_cycles(vectors, steps, positions * grid.blocks, config)
