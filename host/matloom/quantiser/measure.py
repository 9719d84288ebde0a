"""Measures how close a quantised network is to the float network from which it was made."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from matloom.ir.graph import Array, Graph
from matloom.quantiser.integers import integers_of, real
from matloom.quantiser.run_nodes import outputs_of
from matloom.tools.metrics import ranks, wilson

#: Number of samples that run at a time.
_BATCH = 32


@dataclass(frozen=True, kw_only=True)
class Share:
    """Share of rows, and its 95 % interval (Wilson)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Closeness:
    """An output of the quantised network compared with the float network's.

    Members
    -------
    samples:
        Number of samples.
    calibrated:
        Whether the network was calibrated on these samples, which then show less error than others.
    sqnr_db:
        Signal-to-noise ratio in decibels; None without an error or without a signal.
    agreement:
        Share of rows whose largest element is the same in both networks; None for an output of one
        element.
    accuracy_float, accuracy:
        With labels, the share of rows whose largest element is the label, in both networks.
    mcnemar:
        With labels, the probability of a difference at least this large if both networks were
        equally accurate, from the rows that only one of them gets right (`mcnemar`).
    """

    output: str
    samples: int
    calibrated: bool
    sqnr_db: float | None
    agreement: Share | None = None
    accuracy_float: Share | None = None
    accuracy: Share | None = None
    mcnemar: float | None = None


def sqnr_db(exact: Array, rounded: Array) -> float | None:
    """Return the signal-to-noise ratio in decibels; None without noise or without a signal."""
    wide = exact.astype(np.float64)
    noise = float(np.square(rounded - wide).sum())
    signal = float(np.square(wide).sum())
    return 10 * math.log10(signal / noise) if noise and signal else None


def noise_share(exact: Array, rounded: Array) -> float:
    """Return the power of the noise as a share of the power of the exact values."""
    wide = exact.astype(np.float64)
    return float(np.square(rounded - wide).sum() / max(np.square(wide).sum(), 1e-30))


def rounded_outputs(
    quantised: Graph, outputs: tuple[int, ...], inputs: Mapping[int, Array]
) -> list[Array]:
    """Return the tensors `outputs` of a quantised network, as real numbers.

    Parameters
    ----------
    inputs:
        Floats by input number, (samples, *shape).
    """
    given = {at: integers_of(quantised.tensors[at], array) for at, array in inputs.items()}
    results = outputs_of(replace(quantised, outputs=outputs), given)
    return [real(quantised.tensors[at], found) for at, found in zip(outputs, results, strict=True)]


def mcnemar(first: Array, second: Array) -> float:
    """Return the two-sided p-value of McNemar's exact test for two arrays of booleans."""
    only = int((first & ~second).sum()), int((~first & second).sum())
    differing = sum(only)
    tail = sum(math.comb(differing, each) for each in range(min(only) + 1))
    return float(min(1.0, 2 * tail / 2**differing))


def outputs_of_both(
    exact: Graph, quantised: Graph, inputs: Mapping[int, Array]
) -> list[tuple[Array, Array]]:
    """Return each output of the float and of the quantised network, as a pair of real arrays.

    Parameters
    ----------
    inputs:
        Floats by input number, (samples, *shape).
    """
    pairs: list[tuple[list[Array], list[Array]]] = [([], []) for _output in exact.outputs]
    for batch in _batches(inputs):
        given = {at: integers_of(quantised.tensors[at], array) for at, array in batch.items()}
        results = outputs_of(exact, batch), outputs_of(quantised, given)
        for place, number in enumerate(quantised.outputs):
            pairs[place][0].append(results[0][place])
            pairs[place][1].append(real(quantised.tensors[number], results[1][place]))
    return [(np.concatenate(first), np.concatenate(second)) for first, second in pairs]


def _batches(inputs: Mapping[int, Array]) -> Iterator[dict[int, Array]]:
    """Yield the samples of all inputs in batches, by tensor number."""
    count = len(next(iter(inputs.values())))
    for start in range(0, count, _BATCH):
        yield {number: array[start : start + _BATCH] for number, array in inputs.items()}


def closeness(
    name: str,
    pair: tuple[Array, Array],
    labels: npt.NDArray[np.int64] | None = None,
    *,
    calibrated: bool = False,
) -> Closeness:
    """Return the comparison of an output's float and quantised values: SQNR, agreement, accuracy.

    Parameters
    ----------
    pair:
        The output (samples, *shape) of the float and of the quantised network.
    labels:
        A class for each row of the output.
    """
    samples, noise = len(pair[0]), sqnr_db(*pair)
    classes = pair[0].shape[-1] if pair[0].ndim > 1 else 1
    if classes == 1:
        return Closeness(output=name, samples=samples, calibrated=calibrated, sqnr_db=noise)
    rows = [each.reshape(-1, classes) for each in pair]
    same = rows[0].argmax(axis=1) == rows[1].argmax(axis=1)
    right = None if labels is None else [ranks(each, labels) == 0 for each in rows]
    return Closeness(
        output=name,
        samples=samples,
        calibrated=calibrated,
        sqnr_db=noise,
        agreement=_share_of_hits(same),
        accuracy_float=None if right is None else _share_of_hits(right[0]),
        accuracy=None if right is None else _share_of_hits(right[1]),
        mcnemar=None if right is None else mcnemar(*right),
    )


def _share_of_hits(hits: Array) -> Share:
    """Return the share of hits with its 95 % confidence interval."""
    low, high = wilson(int(hits.sum()), len(hits))
    return Share(value=float(hits.mean()), low=low, high=high)
