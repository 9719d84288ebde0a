"""Float32 stages between layers in floating-point modes: sums, limits, rounding."""

from matloom.arch.modes import FLOAT_MODES, STORAGE
from matloom.ir.attributes import Activation, Arithmetic
from matloom.ir.graph import Node
from matloom.select.context import Context, NotOnEngine
from matloom.select.elementwise import vector_stage, with_repetition
from matloom.select.float_posts import NUMBER_FORMATS, limit_posts, sum_posts
from matloom.select.stage import VectorStage


def _require_float_format(context: Context) -> None:
    """Raise `NotOnEngine` if the engine lacks the float format, or no neighbour computes in it.

    Without such a neighbour, data would move to the engine and back for a single operator.
    """
    dtype, op = context.output.dtype, context.node.op
    if NUMBER_FORMATS.get(dtype) not in context.config.post_formats:
        raise NotOnEngine(f"the engine has no {op} of float32 to {dtype}")
    graph, node = context.graph, context.node
    producers = [graph.producers[number] for number in node.inputs if number in graph.producers]
    neighbours = (*producers, *graph.consumers[node.output])
    if not any(_keeps_format(context, graph.nodes[at]) for at in neighbours):
        raise NotOnEngine(f"the engine has {op} of float32 only next to layers in bf16 or fp16")


def _keeps_format(context: Context, node: Node) -> bool:
    """Return whether a node is a layer in a floating-point mode, or rounds to the format of one."""
    if getattr(node.attributes, "mode", None) in FLOAT_MODES:
        return True
    return context.graph.tensors[node.outputs[0]].dtype in STORAGE.values()


def float_add(context: Context) -> VectorStage:
    """Return the stage of float32 ADD, to float32 or to the format of a mode."""
    _require_float_format(context)
    activation = context.node.attributes_as(Arithmetic).activation
    posts = sum_posts(context.output.dtype, activation)
    return with_repetition(context, vector_stage(context, posts, context.sources, ""))


def float_relu(context: Context) -> VectorStage:
    """Return the stage of float32 RELU or RELU6, to float32 or to the format of a mode."""
    _require_float_format(context)
    posts = limit_posts(context.output.dtype, Activation(context.node.op))
    return vector_stage(context, posts, context.sources, "")


def float_quantize(context: Context) -> VectorStage:
    """Return the stage of QUANTIZE from float32 to the format of a mode."""
    _require_float_format(context)
    posts = limit_posts(context.output.dtype, Activation.NONE)
    return vector_stage(context, posts, context.sources, "")
