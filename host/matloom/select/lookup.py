"""Lookup tables for functions of one byte, and curves of words."""

import numpy as np

from matloom.arch.isa import Destination, Source
from matloom.arch.numerics import Rounding
from matloom.ir.curves import CURVES, curve_scale
from matloom.ir.graph import Array, Graph, Node, Op
from matloom.kernels.kernels import kernel_of
from matloom.select.byte_posts import requantise_posts
from matloom.select.context import SAME_SCALE, Context, NotOnEngine
from matloom.select.stage import VectorStage

#: Operators on one tensor of bytes that a table can compute.
LOOKUPS = frozenset(
    {Op.HARD_SWISH, Op.LEAKY_RELU, Op.LOGISTIC, Op.LOOKUP, Op.RELU, Op.RELU6, Op.TANH}
)


def table_of(graph: Graph, node: Node) -> Array:
    """Return the lookup table of an operator on one byte: uint8 (256,), by unsigned input byte."""
    every = np.arange(256, dtype=np.uint8).view(graph.tensors[node.inputs[0]].dtype)
    results = kernel_of(node, [every])(graph, node, [every])
    assert isinstance(results, np.ndarray)
    assert results.dtype in (np.int8, np.uint8)
    return results.view(np.uint8)


def curve_or_table(context: Context) -> VectorStage:
    """Return the stage of LOGISTIC or TANH: a curve for int16, or a table for int8."""
    if context.output.dtype != "int16":
        return table_stage(context)
    context.check_words()
    if not context.config.has_curves:
        raise NotOnEngine("it needs a curve of words, and the configuration has curves = 0")
    multiplier, right = curve_scale(context.graph, context.node)
    post: dict[str, int] = {
        "source": Source.SPAD,
        "destination": Destination.SPAD,
        "rounding": Rounding.SINGLE,
        "multiplier": multiplier << 16,
        "shift": 15 - right,
        "words": 1,
        "curve": CURVES[context.node.op],
    }
    return VectorStage(
        name=context.name,
        nodes=context.nodes,
        inputs=context.sources[:1],
        output=context.results[0],
        size=context.output.size_bytes,
        tile_unit=context.tile_unit,
        element_bytes=context.output.element_bytes,
        posts=((0, post),),
    )


def table_stage(context: Context) -> VectorStage:
    """Return the stage of an operator on one tensor, as lookups of its kernel's results."""
    if not context.config.tables:
        raise NotOnEngine("it needs a table, and the configuration has tables = 0")
    return VectorStage(
        name=context.name,
        nodes=context.nodes,
        inputs=context.sources[:1],
        output=context.results[0],
        size=context.output.size,
        tile_unit=context.tile_unit,
        posts=requantise_posts(0, SAME_SCALE),
        table=table_of(context.graph, context.node),
        is_lookup_only=True,
    )
