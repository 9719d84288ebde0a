"""Chooses channels to remove from a layer's input.

The layer's weights on the remaining channels are fitted again, by least squares on the calibration
samples. Channels are removed one by one, each time the one that changes the outputs least
(Hassibi and Stork, Optimal Brain Surgeon, 1993, with a channel's weights as one group).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from matloom.ir.graph import Graph, Node, Op
from matloom.quantiser.equalise import channel_pairs
from matloom.quantiser.precisions import NARROW

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Removal:
    """Result of removing channels: those that remain, and the weights fitted to them.

    Members
    -------
    kept:
        Indices of the remaining channels, ascending.
    weights:
        Weights (outputs, taps, remaining channels) of the layer that reads the channels.
    error:
        Share of the variance of this layer's outputs that is lost.
    """

    kept: npt.NDArray[np.int64]
    weights: _Numbers
    error: float


def channel_chains(graph: Graph) -> dict[int, list[Node]]:
    """Return chains of layers with removable channels in between, by the last layer's output.

    The first layer of a chain computes the channels, and the last one reads them; depthwise layers
    may lie between.
    """
    readers = {first.output: second for first, second in channel_pairs(graph)}
    chains = {}
    for first in graph.nodes:
        if first.op not in NARROW or first.output not in readers:
            continue
        chain = [first, readers[first.output]]
        while chain[-1].op is Op.DEPTHWISE_CONV_2D and chain[-1].output in readers:
            chain.append(readers[chain[-1].output])
        if chain[-1].op in NARROW:
            chains[chain[-1].output] = chain
    return chains


def removals(weights: _Numbers, covariance: _Numbers, counts: set[int]) -> dict[int, Removal]:
    """Return which channels to keep, for each number of channels in `counts`.

    Numbers below 1, or not below the present number of channels, are left out.

    Parameters
    ----------
    weights:
        Weights of the layer that reads the channels: (outputs, taps, channels).
    covariance:
        Covariance of a row of the layer's inputs, (taps * channels, taps * channels); it must be
        positive definite.
    """
    outputs, taps, channels = weights.shape
    flat = weights.reshape(outputs, -1).copy()
    total = max(float(((flat @ covariance) * flat).sum()), 1e-30)
    inverse = np.linalg.inv(covariance)
    remaining, lost, removals_by_count = np.arange(channels), 0.0, {}
    while len(remaining) > max(min(counts, default=channels), 1):
        blocks = np.einsum("pcqc->cpq", inverse.reshape(taps, len(remaining), taps, len(remaining)))
        groups = flat.reshape(outputs, taps, len(remaining)).transpose(2, 1, 0)
        scaled = np.linalg.solve(blocks, groups)
        costs = (groups * scaled).sum(axis=(1, 2))
        least = int(np.argmin(costs))
        lost += float(costs[least])
        removed = np.arange(taps) * len(remaining) + least
        stays = np.setdiff1d(np.arange(taps * len(remaining)), removed)
        cross = inverse[np.ix_(removed, stays)]
        flat = flat[:, stays] - scaled[least].T @ cross
        inverse = inverse[np.ix_(stays, stays)] - cross.T @ np.linalg.solve(blocks[least], cross)
        remaining = np.delete(remaining, least)
        if len(remaining) in counts:
            kept = flat.reshape(outputs, taps, -1).copy()
            removals_by_count[len(remaining)] = Removal(
                kept=remaining, weights=kept, error=lost / total
            )
    return removals_by_count
