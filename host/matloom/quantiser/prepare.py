"""Prepares float networks for quantisation by passes that do not change the results."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from matloom.errors import UserError
from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    Attributes,
    Conv2D,
    FullyConnected,
    Pool2D,
    Reduce,
    TransposeConv,
)
from matloom.ir.graph import RESHAPES, Graph, Node, Op, Tensor
from matloom.ir.operators import OPERATORS
from matloom.ir.verify import verify
from matloom.passes.drop_unused import drop_unused, drop_unused_tensors
from matloom.passes.fold_constants import fold_constants
from matloom.passes.lower_precision import widen_weights
from matloom.passes.slice_gathers import slice_gathers
from matloom.quantiser.add_negatives import add_negatives
from matloom.quantiser.divide_layers import divide_layers
from matloom.quantiser.fold_scales import fold_scales
from matloom.quantiser.limit_masks import limit_masks
from matloom.quantiser.name_functions import name_functions

#: Operators that become the activation of their producer.
_FUSED = {Op.RELU: Activation.RELU, Op.RELU6: Activation.RELU6}
#: Attributes that have an activation.
_ACTIVATED = (Arithmetic, Conv2D, FullyConnected, Pool2D, TransposeConv)


def prepare(graph: Graph) -> Graph:
    """Return an equivalent float network in the form that can be quantised.

    Factors and offsets by channel become part of layers. RELU and RELU6 become activations of the
    operator before them if nothing else reads it. An average over whole images becomes a MEAN,
    whose output may have a different scale. Masks before SOFTMAX get moderate numbers.

    Raises
    ------
    UserError
        The network has no layers, is quantised already, or has a constant that is not finite.
    """
    graph = limit_masks(slice_gathers(graph))
    _require_quantisable(graph)
    passes = (
        *(name_functions, widen_weights, fold_constants, add_negatives),
        # Parts of a layer take over the factor of one part.
        *(fold_scales, divide_layers, fold_scales),
        *(_fuse_activations, _simplify, drop_unused, drop_unused_tensors),
    )
    for step in passes:
        graph = step(graph)
        verify(graph, step.__name__)
    return graph


def _require_quantisable(graph: Graph) -> None:
    """Raise `UserError` unless a network has layers of finite floats to quantise."""
    weighted = [node for node in graph.nodes if OPERATORS[node.op].weight_axis is not None]
    types = {graph.tensors[node.inputs[0]].dtype for node in weighted}
    if types and "float32" not in types:
        raise UserError(
            f"{graph.name} is quantised already: its layers read {', '.join(sorted(types))}",
            hint="give the float network that it was made from",
        )
    if not weighted:
        opaque = [node for node in graph.nodes if node.op is Op.REFERENCE]
        names = [name for node in opaque for name in getattr(node.attributes, "operators", ())]
        if names:
            raise UserError(
                f"{graph.name} cannot be quantised yet: another runtime runs its operators "
                f"{', '.join(dict.fromkeys(names))}",
                hint="give the float network as a .tflite file",
            )
        raise UserError(
            f"{graph.name} has no convolutions or dense layers to quantise",
            hint="matloom explain NET lists the operators, and what runs them",
        )
    for tensor in graph.tensors.values():
        data = tensor.data
        if data is not None and data.dtype.kind == "f" and not np.isfinite(data).all():
            raise UserError(
                f"the constant {tensor.name!r} must be finite, but has NaN or infinity",
                hint="train the network again: such weights give no result in floating point",
            )


def _fuse_activations(graph: Graph) -> Graph:
    """Return the graph with RELU and RELU6 as activations of the operators before them."""
    nodes: list[Node] = []
    places: dict[int, int] = {}
    for node in graph.nodes:
        source = places.get(node.inputs[0]) if node.op in _FUSED else None
        attributes = (
            None if source is None else _with_activation(graph, nodes[source], _FUSED[node.op])
        )
        if source is not None and attributes is not None:
            nodes[source] = replace(nodes[source], outputs=node.outputs, attributes=attributes)
            places[node.output] = source
            continue
        nodes.append(node)
        places.update(dict.fromkeys(node.outputs, len(nodes) - 1))
    return replace(graph, nodes=tuple(nodes))


def _with_activation(graph: Graph, node: Node, activation: Activation) -> Attributes | None:
    """Return a node's attributes with an activation; None if the node cannot have it.

    Its result must be float32 and have only one reader, and it must have no activation yet.
    """
    attributes = node.attributes
    if not isinstance(attributes, _ACTIVATED) or attributes.activation is not Activation.NONE:
        return None
    alone = len(graph.consumers[node.output]) == 1 and node.output not in graph.leaving
    if not alone or graph.tensors[node.output].dtype != "float32":
        return None
    return replace(attributes, activation=activation)


def _simplify(graph: Graph) -> Graph:
    """Return the graph with averages over whole images as MEAN, and RESHAPE for all reshapes.

    Additions of zeros and products with ones, which untrained networks have, also become RESHAPE.
    """
    return replace(
        graph, nodes=tuple(_simplified_node(graph.tensors, node) for node in graph.nodes)
    )


def _simplified_node(tensors: Mapping[int, Tensor], node: Node) -> Node:
    """Return a node as a reshape or a mean if it is only that, or else unchanged."""
    if node.op in RESHAPES:
        return replace(node, op=Op.RESHAPE)
    if _is_identity(tensors, node):
        return replace(node, op=Op.RESHAPE, inputs=node.inputs[:1], attributes=Attributes())
    if node.op is not Op.AVERAGE_POOL_2D:
        return node
    attributes, image = node.attributes_as(Pool2D), tensors[node.inputs[0]]
    whole = attributes.window == image.shape[1:3] and tensors[node.output].shape[1:3] == (1, 1)
    if not whole or attributes.activation is not Activation.NONE or image.dtype != "float32":
        return node
    return replace(node, op=Op.MEAN, attributes=Reduce(axes=(1, 2), keep_dims=True))


def _is_identity(tensors: Mapping[int, Tensor], node: Node) -> bool:
    """Return whether an operator adds zeros to its first input, or multiplies it by ones."""
    neutral = {Op.ADD: 0.0, Op.SUB: 0.0, Op.MUL: 1.0}.get(node.op)
    if neutral is None or node.attributes_as(Arithmetic).activation is not Activation.NONE:
        return False
    data, other = (tensors[number] for number in node.inputs)
    same = data.shape == tensors[node.output].shape and data.dtype == "float32"
    return same and other.data is not None and bool((other.data == neutral).all())
