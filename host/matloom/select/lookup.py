"""Functions of one byte as tables: the stage that looks up, and LUT fusion into its producer."""

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
    """Return an operator's results for all bytes: uint8 (256,), by the unsigned byte."""
    every = np.arange(256, dtype=np.uint8).view(graph.tensors[node.inputs[0]].dtype)
    results = kernel_of(node, [every])(graph, node, [every])
    assert isinstance(results, np.ndarray)
    assert results.dtype in (np.int8, np.uint8)
    return results.view(np.uint8)


def table_stage(context: Context) -> VectorStage:
    """Return an operator of one tensor as a table of its kernel's results."""
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
    """Return the stages of operators with tables fused into their only producers (LUT fusion).

    A producer that has a table already gets the composition of both.

    Parameters
    ----------
    kept:
        Tensors that must not change: those that enter or leave the run.
    """
    groups = [list(group) for group in stages]
    readers = Counter(name for group in groups for stage in group for name in stage.inputs)
    producers = Counter(stage.output for group in groups for stage in group)
    places: dict[str, tuple[int, int]] = {}
    fused: set[tuple[int, int]] = set()
    for number, group in enumerate(groups):
        for at, stage in enumerate(group):
            name = stage.inputs[0]
            if _only_looks_up(stage) and name in places and name not in kept:
                first, index = places[name]
                if readers[name] == producers[name] == 1:
                    producer = _with_table(groups[first][index], stage)
                    groups[first][index] = producer
                    fused.add((number, at))
                    places[producer.output] = (first, index)
                    continue
            places[stage.output] = (number, at)
    return tuple(
        tuple(stage for at, stage in enumerate(group) if (number, at) not in fused)
        for number, group in enumerate(groups)
    )


def _only_looks_up(stage: Stage) -> bool:
    """Return whether a stage is a table and nothing else."""
    return isinstance(stage, VectorStage) and stage.table is not None and stage.passes_on


def _with_table(producer: Stage, stage: Stage) -> Stage:
    """Return the producer with the table of its consumer, and that one's output."""
    table = stage.table
    assert table is not None
    if producer.table is not None:
        table = table[producer.table]
    return replace(producer, output=stage.output, table=table)
