"""Functions of one byte as tables: the stage that looks up, and stages that do so on their way."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from matloom.ir.graph import Array, Graph, Node
from matloom.kernels.kernels import kernel_of
from matloom.select.byte_posts import requantise_posts
from matloom.select.context import SAME, Context, Unsupported
from matloom.select.requantisation import Requantisation
from matloom.select.stage import Stage, VectorStage

__all__ = ["fuse_tables", "table_of", "table_stage"]


def table_of(graph: Graph, node: Node) -> Array:
    """Return what an operator of one tensor of bytes makes of each: uint8 (256,), by the byte."""
    every = np.arange(256, dtype=np.uint8).view(graph.tensors[node.inputs[0]].dtype)
    made = kernel_of(node, [every])(graph, node, [every])
    assert isinstance(made, np.ndarray)
    assert made.dtype in (np.int8, np.uint8)
    return made.view(np.uint8)


def table_stage(context: Context) -> VectorStage:
    """Return an operator of one tensor as a table of what its kernel makes of every byte."""
    if not context.config.tables:
        raise Unsupported("it needs a table, and the configuration has tables = 0")
    same = Requantisation(multiplier=SAME[0], shift=SAME[1], zero=0, low=-128, high=127)
    return VectorStage(
        name=context.name,
        nodes=context.nodes,
        inputs=context.sources[:1],
        output=context.results[0],
        size=context.output.size,
        tile_unit=context.tile_unit,
        posts=requantise_posts(0, same),
        table=table_of(context.graph, context.node),
        passes_on=True,
    )


def fuse_tables(
    stages: tuple[tuple[Stage, ...], ...], kept: Collection[str]
) -> tuple[tuple[Stage, ...], ...]:
    """Return the stages of operators without those that look up what a single stage just made.

    That one looks it up itself, through the table of both where it has one already.

    Parameters
    ----------
    kept:
        Tensors that are needed as they are: what enters and what leaves.
    """
    groups = [list(group) for group in stages]
    readers = Counter(name for group in groups for stage in group for name in stage.inputs)
    makers = Counter(stage.output for group in groups for stage in group)
    places: dict[str, tuple[int, int]] = {}
    gone: set[tuple[int, int]] = set()
    for number, group in enumerate(groups):
        for at, stage in enumerate(group):
            name = stage.inputs[0]
            if _only_looks_up(stage) and name in places and name not in kept:
                first, index = places[name]
                if readers[name] == makers[name] == 1:
                    maker = _with_table(groups[first][index], stage)
                    groups[first][index] = maker
                    gone.add((number, at))
                    places[maker.output] = (first, index)
                    continue
            places[stage.output] = (number, at)
    return tuple(
        tuple(stage for at, stage in enumerate(group) if (number, at) not in gone)
        for number, group in enumerate(groups)
    )


def _only_looks_up(stage: Stage) -> bool:
    """Return whether a stage is a table and nothing else."""
    return isinstance(stage, VectorStage) and stage.table is not None and stage.passes_on


def _with_table(maker: Stage, stage: Stage) -> Stage:
    """Return a stage that makes another one's result of its own."""
    table = stage.table
    assert table is not None
    if maker.table is not None:
        table = table[maker.table]
    return replace(maker, output=stage.output, table=table)
