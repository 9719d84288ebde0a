"""Fuses a MAX_POOL_2D of 2 x 2 blocks into the POSTs of the convolution before it."""

from collections import Counter
from dataclasses import replace

from matloom.arch.config import Config
from matloom.select.layout.base import Grid
from matloom.select.pooled import SIDE, PooledLoops, pools_blocks
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import ArrayStage, OutputRegion, Stage


def fuse_max_pooling(staged: StagedRun) -> StagedRun:
    """Return a run in which stages write maxima where only a MAX_POOL_2D reads their results.

    Rows and positions beyond the last whole block are not computed.
    """
    if not staged.config.pooling:
        return staged
    groups: list[tuple[Stage, ...]] = list(staged.stages)
    readers = Counter(name for group in groups for stage in group for name in stage.inputs)
    producers = Counter(stage.output for group in groups for stage in group)
    places: dict[str, int] = {}
    for at, (node, group) in enumerate(zip(staged.run.nodes, staged.stages, strict=True)):
        places |= {stage.output: at for stage in group[-1:]}
        if not pools_blocks(node) or len(group) != 1:
            continue
        pool, name = group[0].array, group[0].inputs[0]
        if name not in places or name in staged.kept or not readers[name] == producers[name] == 1:
            continue
        *first, making = groups[places[name]]
        producer = making.array
        if producer is None or pool is None:
            continue
        if _can_pool_results(producer, pool, staged.config):
            groups[places[name]], groups[at] = (*first, _with_pooling(producer, pool)), ()
            places[pool.output] = places[name]
    return staged if groups == list(staged.stages) else staged.with_stages(groups)


def _can_pool_results(stage: ArrayStage, pool: ArrayStage, config: Config) -> bool:
    """Return whether a stage can write the maxima of 2 x 2 blocks instead of its results."""
    if stage.computed is not None or stage.is_limited:
        return False
    grid, result, read = stage.grid, pool.grid, pool.input_layout
    return (
        stage.makes_dense_bytes
        and stage.sums_per_output == 1
        and len(stage.regions) == 1
        and stage.entries(config) >= SIDE * SIDE
        and pool.table is None
        and (grid.images, grid.rows, grid.row_bytes) == (result.images, read.rows, read.row_bytes)
        and _grid_extent(result) == _grid_extent(_whole_blocks(grid))
    )


def _whole_blocks(grid: Grid) -> Grid:
    """Return a grid with one position for each whole 2 x 2 block of positions of `grid`."""
    return replace(grid, rows=grid.rows // SIDE, width=grid.width // SIDE)


def _grid_extent(grid: Grid) -> tuple[int, ...]:
    """Return a grid's numbers of images, rows and positions per row, and bytes per position."""
    return grid.images, grid.rows, grid.width, grid.position_bytes


def _with_pooling(stage: ArrayStage, pool: ArrayStage) -> ArrayStage:
    """Return the stage whose POSTs write the maxima of its results."""
    (region,), grid = stage.regions, _whole_blocks(stage.grid)
    return replace(
        stage,
        output=pool.output,
        output_layout=replace(pool.output_layout, grid=grid),
        loop_nest=PooledLoops(inner=stage.loop_nest),
        regions=(OutputRegion.whole(grid, region.post),),
    )
