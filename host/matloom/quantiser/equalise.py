"""Balances the ranges of channels between two layers, which does not change the float results.

Between layers joined by nothing or a RELU, a channel may be divided by a factor in the first layer
and multiplied by it in the second (Nagel et al., Data-Free Quantization, 2019). With one scale for
a tensor of activations, channels of equal range have the least rounding noise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from matloom.ir.attributes import Activation, DepthwiseConv2D, Reduce
from matloom.ir.graph import RESHAPES, Array, Graph, Node, Op
from matloom.ir.shapes import BIAS

#: Operators that may lie between two layers: they treat channels separately, and commute with
#: positive factors.
_BETWEEN = frozenset({Op.MAX_POOL_2D, Op.AVERAGE_POOL_2D, Op.MEAN, Op.PAD, *RESHAPES})
_WEIGHTED = frozenset({Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED})
_LINEAR = (Activation.NONE, Activation.RELU)
#: Number of passes that balance all pairs by their weights.
_BALANCING_PASSES = 10
#: Largest factor; the smallest is its reciprocal. Channels that need others hardly matter.
_MOST_FACTOR = 2.0**8
#: Share of the largest channel below which a channel is left unchanged.
_NEGLIGIBLE_SHARE = 2.0**-24
#: Share, as an exponent, of a channel's range that moves to the second layer's weights, which share
#: scales.
_SHARE = 0.5

_Numbers = npt.NDArray[np.float64]


def channel_pairs(graph: Graph) -> Iterator[tuple[Node, Node]]:
    """Yield pairs of layers between which channels can be balanced.

    Only the second layer reads the channels of the first, directly or through `_BETWEEN`.
    """
    for first in graph.nodes:
        if first.op not in _WEIGHTED or not _is_linear(first):
            continue
        second = _only_reader(graph, first)
        while second is not None and second.op in _BETWEEN and _keeps_channels(graph, second):
            second = _only_reader(graph, second)
        if second is None or second.op not in _WEIGHTED or not _can_equalise(graph, first, second):
            continue
        yield first, second


def _is_linear(node: Node) -> bool:
    """Return whether positive factors commute with the operator's activation, if it has one."""
    return getattr(node.attributes, "activation", Activation.NONE) in _LINEAR


def _only_reader(graph: Graph, node: Node) -> Node | None:
    """Return the only node that reads a node's output, as its first input; or else None."""
    readers = graph.consumers[node.output]
    if len(readers) != 1 or node.output in graph.leaving:
        return None
    reader = graph.nodes[readers[0]]
    return reader if reader.inputs[0] == node.output else None


def _keeps_channels(graph: Graph, node: Node) -> bool:
    """Return whether a node is linear and its last axis has the same channels before and after."""
    shapes = [graph.tensors[number].shape for number in (node.inputs[0], node.output)]
    attributes = node.attributes
    if isinstance(attributes, Reduce) and len(shapes[0]) - 1 in attributes.axes:
        return False
    return _is_linear(node) and shapes[0][-1:] == shapes[1][-1:]


def _can_equalise(graph: Graph, first: Node, second: Node) -> bool:
    """Return whether both layers have constant float weights, and the same channels between them.

    No other layer may share their weights, or the bias of the first one, because these change.
    """
    tensors = [graph.tensors[node.inputs[1]] for node in (first, second)]
    changed = (*first.inputs[1:], second.inputs[1])
    if any(len(graph.consumers[number]) > 1 for number in changed):
        return False
    if any(tensor.data is None or tensor.dtype != "float32" for tensor in tensors):
        return False
    channels = graph.tensors[first.output].shape[-1]
    return _input_channels(second, tensors[1].shape) == channels


def _input_channels(node: Node, shape: tuple[int, ...]) -> int:
    """Return the number of input channels of a layer's weights; 0 if several outputs share one."""
    if node.op is Op.DEPTHWISE_CONV_2D:
        return shape[-1] if node.attributes_as(DepthwiseConv2D).depth_multiplier == 1 else 0
    return shape[-1]


def _largest_by_output(node: Node, weights: Array) -> _Numbers:
    """Return the largest magnitude among the weights of each output channel, float64."""
    axes = (0, 1, 2) if node.op is Op.DEPTHWISE_CONV_2D else tuple(range(1, weights.ndim))
    return np.asarray(np.abs(weights).max(axis=axes), np.float64)


def _largest_by_input(weights: Array) -> _Numbers:
    """Return the largest magnitude among the weights of each input channel, float64."""
    return np.asarray(np.abs(weights).max(axis=tuple(range(weights.ndim - 1))), np.float64)


def equalised_tensors(graph: Graph) -> set[int]:
    """Return the numbers of the tensors whose channels can be balanced."""
    return {first.output for first, _second in channel_pairs(graph)}


def equalise(graph: Graph, peaks: Mapping[int, Array] | None = None) -> Graph:
    """Return the graph with balanced channels.

    Parameters
    ----------
    peaks:
        Largest magnitude of each channel of `equalised_tensors`, by number, to make the ranges of
        activations more equal. None makes the ranges of weights more equal instead, for weights
        with one scale per layer.
    """
    data = {number: tensor.data for number, tensor in graph.tensors.items()}
    pairs = list(channel_pairs(graph))
    for _round in range(1 if peaks is not None else _BALANCING_PASSES):
        for first, second in pairs:
            before, after = data[first.inputs[1]], data[second.inputs[1]]
            assert before is not None
            assert after is not None
            if peaks is None:
                factors = _balancing_factors(
                    _largest_by_output(first, before), _largest_by_input(after)
                )
            else:
                share = 1.0 if second.op is Op.DEPTHWISE_CONV_2D else _SHARE
                factors = _normalise(peaks[first.output].astype(np.float64)) ** share
            _apply_factors(data, first, second, factors.astype(np.float32))
    tensors = {
        number: replace(tensor, data=data[number]) for number, tensor in graph.tensors.items()
    }
    return replace(graph, tensors=tensors)


def _balancing_factors(written: _Numbers, read: _Numbers) -> _Numbers:
    """Return factors, one per channel, that balance the ranges of weights of two layers.

    `written` and `read` are the largest weights of each channel in the first and second layer.
    Afterwards, both are in the same proportion in all channels.
    """
    usable = _not_negligible(written) & _not_negligible(read)
    factors = np.sqrt(np.where(usable, written, 1.0) / np.where(usable, read, 1.0))
    return _normalise(np.where(usable, factors, 0.0))


def _not_negligible(sizes: _Numbers) -> npt.NDArray[np.bool_]:
    """Return a mask of the channels that are not negligible compared with the largest."""
    return np.asarray((sizes > 0) & (sizes >= sizes.max() * _NEGLIGIBLE_SHARE))


def _normalise(factors: _Numbers) -> _Numbers:
    """Return factors divided by their geometric mean, within bounds; 1 for negligible channels."""
    usable = _not_negligible(factors)
    if not usable.any():
        return np.ones_like(factors)
    mean = np.exp(np.log(factors[usable]).mean())
    relative = np.where(usable, factors / mean, 1.0)
    return np.clip(relative, 1 / _MOST_FACTOR, _MOST_FACTOR)


def _apply_factors(
    data: dict[int, Array | None], first: Node, second: Node, factors: Array
) -> None:
    """Divide channels of the first layer by factors, and multiply the second layer's weights.

    The constants in `data` are replaced.
    """
    before, after = data[first.inputs[1]], data[second.inputs[1]]
    assert before is not None
    assert after is not None
    last = first.op is Op.DEPTHWISE_CONV_2D
    data[first.inputs[1]] = before / (
        factors if last else factors.reshape(-1, *[1] * (before.ndim - 1))
    )
    if len(first.inputs) > BIAS:
        bias = data[first.inputs[BIAS]]
        assert bias is not None
        data[first.inputs[BIAS]] = (bias.reshape(-1) / factors).reshape(bias.shape)
    data[second.inputs[1]] = after * factors
