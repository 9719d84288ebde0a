"""Lets LOADs interleave the planes of an image, instead of a TRANSPOSE before a convolution."""

from collections import Counter
from dataclasses import replace

import numpy as np

from matloom.arch.config import Config
from matloom.ir.attributes import Transpose
from matloom.ir.graph import Array, Node, Op
from matloom.ir.names import derived_name
from matloom.select.constant import ConstantWeights
from matloom.select.layout.dense import DenseInput
from matloom.select.layout.image_planes import ImagePlanes
from matloom.select.loop_nest import LoopNest
from matloom.select.operand import constant_weights
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import ArrayStage, Stage

#: Permutation of axes from planes to channels.
_PLANES_LAST = (0, 2, 3, 1)


def interleave_image_planes(staged: StagedRun) -> StagedRun:
    """Return a run in which LOADs interleave the planes of images before convolutions.

    The image must be in external memory, and nothing else may read its interleaved channels. The
    number of channels is then a power of two; channels beyond the planes have zero weights.
    """
    groups: list[tuple[Stage, ...]] = list(staged.stages)
    readers = Counter(name for group in groups for stage in group for name in stage.inputs)
    for at, node in enumerate(staged.run.nodes):
        name = staged.names[node.output] if node.op is Op.TRANSPOSE else ""
        if readers[name] != 1 or name in staged.kept:
            continue
        place = next(
            number for number, group in enumerate(groups) for stage in group if name in stage.inputs
        )
        planes = _plane_layout(staged, node)
        if planes is None or len(groups[place]) != 1:
            continue
        stage = _read_planes(groups[place][0], planes, staged.config)
        if stage is not None and _is_faster(stage, groups[at], groups[place][0], staged.config):
            groups[at], groups[place] = (), (stage,)
    return staged if groups == list(staged.stages) else staged.with_stages(groups)


def _plane_layout(staged: StagedRun, node: Node) -> ImagePlanes | None:
    """Return the layout in which LOADs replace a TRANSPOSE of image planes; None if they cannot."""
    (number, *_constants), config = node.inputs, staged.config
    data, source = staged.graph.tensors[number], staged.names[number]
    outside = {staged.names[consumed] for consumed in staged.run.consumed}
    if source not in outside or node.attributes_as(Transpose).permutation != _PLANES_LAST:
        return None
    images, planes, rows, width = data.shape
    spread = (planes - 1).bit_length()
    if images > 1 or planes == 1 or data.element_bytes > 1 or spread > config.last_spread:
        return None
    return ImagePlanes(
        source=source,
        source_rows=planes * rows,
        source_row_bytes=width,
        first_row=0,
        row_step=1,
        channels=1 << spread,
        rows=rows,
        fill_value=0,
    )


def _read_planes(stage: Stage, planes: ImagePlanes, config: Config) -> ArrayStage | None:
    """Return a convolution changed to read the planes as channels; None for any other stage."""
    if not isinstance(stage, ArrayStage) or type(stage.loop_nest) is not LoopNest:
        return None
    nest, depth = stage.loop_nest, planes.planes
    dense = DenseInput(rows=planes.rows, row_bytes=planes.source_row_bytes * depth)
    steps = {name: getattr(nest, name) for name in ("x_step", "pad_left_bytes", "kernel_col_step")}
    plain = not (nest.oc_step or nest.maximum or nest.weights_fixed or stage.addend)
    if not plain or stage.mode != "i8xi8" or not isinstance(stage.weights, ConstantWeights):
        return None
    if stage.input_layout != dense or any(step % depth for step in steps.values()):
        return None
    tiles = _widen_tiles(stage.weights.tiles, nest, planes, config)
    blocks = tiles.shape[1] // (config.rows * config.columns * nest.kernel_rows * nest.kernel_cols)
    steps = {name: step // depth * planes.channels for name, step in steps.items()}
    return replace(
        stage,
        inputs=(derived_name(planes.source, f"planes for {stage.name}"),),
        input_layout=planes,
        loop_nest=replace(nest, blocks=blocks, **steps),
        weights=constant_weights(tiles, stage.mode, config),
    )


def _widen_tiles(tiles: Array, nest: LoopNest, planes: ImagePlanes, config: Config) -> Array:
    """Return weight tiles whose positions have a byte for each of `planes.channels`.

    Weights of channels beyond the planes are zero.
    """
    count, depth, run = len(tiles), planes.planes, nest.blocks * config.rows
    runs = tiles.reshape(count, nest.kernel_rows, nest.kernel_cols, run, config.columns)
    runs = np.pad(runs, ((0, 0),) * 3 + ((0, -run % depth), (0, 0)))
    positions = runs.reshape(*runs.shape[:3], -1, depth, config.columns)
    used = np.flatnonzero(positions.any(axis=(0, 1, 2, 4, 5)))
    positions = positions[:, :, :, : 1 + max(used, default=0)]
    wide = np.pad(positions, ((0, 0),) * 4 + ((0, planes.channels - depth), (0, 0)))
    runs = wide.reshape(*wide.shape[:3], -1, config.columns)
    runs = np.pad(runs, ((0, 0),) * 3 + ((0, -runs.shape[3] % config.rows), (0, 0)))
    return np.ascontiguousarray(runs).reshape(count, -1)


def _is_faster(
    stage: ArrayStage, transposes: tuple[Stage, ...], plain: Stage, config: Config
) -> bool:
    """Return whether a stage with its LOADs is faster than `plain` after the TRANSPOSE's stages."""
    assert isinstance(stage.input_layout, ImagePlanes)
    planes = stage.input_layout
    beats = planes.source_rows * -(-planes.source_row_bytes // config.bus_bytes)
    loaded = beats * planes.channels
    return max(_streamed_vectors(stage), loaded) < sum(map(_streamed_vectors, (*transposes, plain)))


def _streamed_vectors(stage: Stage) -> int:
    """Return the number of vectors that a stage streams."""
    layer = stage.array
    if layer is None:
        return 0
    grid, nest = layer.grid, layer.loop_nest
    return grid.images * grid.blocks * nest.steps * nest.vectors_per_step(grid.rows, grid.width)
