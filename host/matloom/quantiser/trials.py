"""Builds mixtures of 8-bit and 4-bit weights, and measures them on separate samples."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

import matloom
from matloom.arch.config import load_config
from matloom.ir.graph import Array, Graph, Op
from matloom.quantiser.calibrate import Calibration, quantised
from matloom.quantiser.expected import expected_share
from matloom.quantiser.journal import Journal
from matloom.quantiser.matters import mattering
from matloom.quantiser.measure import noise_share, rounded_outputs
from matloom.quantiser.options import Options
from matloom.quantiser.precisions import NARROW_MODE
from matloom.quantiser.samples import SampleSplit
from matloom.quantiser.sweep import outputs_of

__all__ = ["MixedPoint", "Trials", "watched"]


@dataclass(frozen=True, kw_only=True)
class MixedPoint:
    """A network in which some layers have 4-bit weights.

    Members
    -------
    layers:
        Names of those layers.
    cycles:
        Predicted cycles of a call.
    noise:
        Noise of the outputs before SOFTMAX, as a share of their power.
    agreement:
        Share of rows with the float network's largest element.
    expected:
        Share of rows that are expected to have the label, or without labels the float network's
        largest element, by `expected_share`.
    best:
        Whether no other point is better in both cycles and noise.
    """

    layers: tuple[str, ...]
    cycles: int
    noise: float
    agreement: float
    expected: float
    best: bool = True

    @property
    def sqnr_db(self) -> float:
        """Signal-to-noise ratio in decibels."""
        return float(-10 * np.log10(max(self.noise, 1e-30)))


class Trials:
    """Mixtures of one network, calibrated on some samples and measured on others.

    Parameters
    ----------
    labels:
        Classes of the samples in `split.trial`, or None.
    """

    def __init__(
        self,
        calibration: Calibration,
        split: SampleSplit,
        options: Options,
        config: str,
        labels: Array | None,
    ) -> None:
        self._calibration, self._split, self._options = calibration, split, options
        self._config, self._labels = config, labels
        self._watched = watched(calibration.graph)
        graph = replace(calibration.graph, outputs=self._watched)
        self._exact = outputs_of(graph, split.trial)

    @property
    def counted(self) -> bool:
        """Whether an output has elements of which one is the largest."""
        return any(_classes(exact) > 1 for exact in self._exact)

    def digest(self) -> bytes:
        """Return everything that a point depends on, but for its layers and samples."""
        graph, arrays = self._calibration.graph, [*self._exact]
        arrays += [*self._split.calibration.values(), *self._split.trial.values()]
        arrays += [t.data for t in graph.tensors.values() if t.data is not None]
        arrays += [] if self._labels is None else [self._labels]
        options = replace(self._options, losses=False, journal=None)
        texts = (matloom.__version__, options, load_config(self._config), graph.nodes)
        return b"".join([repr(texts).encode(), *(array.tobytes() for array in arrays)])

    def point(self, layers: tuple[str, ...], journal: Journal, samples: int = 0) -> MixedPoint:
        """Return the network in which these layers have 4-bit weights.

        Parameters
        ----------
        samples:
            Samples of either kind that are used at most; 0 for all.
        """
        name = repr((samples, layers))
        found = journal.of(name, lambda: asdict(self._point(layers, samples or None)))
        return MixedPoint(**{**found, "layers": layers})

    def _point(self, layers: tuple[str, ...], samples: int | None) -> MixedPoint:
        narrowed = dict.fromkeys(layers, NARROW_MODE)
        given = {at: array[:samples] for at, array in self._split.calibration.items()}
        made = quantised(self._calibration, narrowed, given, self._options)
        inputs = {number: array[:samples] for number, array in self._split.trial.items()}
        results = rounded_outputs(made, self._watched, inputs)
        figures = [
            self._figures(number, exact[:samples], rounded)
            for number, exact, rounded in zip(self._watched, self._exact, results, strict=True)
        ]
        rows = sum(each["rows"] for each in figures) or 1
        return MixedPoint(
            layers=layers,
            cycles=self._cycles(made),
            noise=sum(each["noise"] for each in figures),
            agreement=sum(each["agreeing"] for each in figures) / rows,
            expected=sum(each["expected"] for each in figures) / rows,
        )

    def _figures(self, number: int, exact: Array, rounded: Array) -> dict[str, Any]:
        graph = self._calibration.graph
        exact, rounded = (mattering(graph, number, {number: each}) for each in (exact, rounded))
        noise = noise_share(exact, rounded)
        found = {"noise": noise, "rows": 0, "agreeing": 0, "expected": 0.0}
        classes = _classes(exact)
        if classes == 1:
            return found
        rows = [each.reshape(-1, classes) for each in (exact, rounded)]
        largest = [each.argmax(axis=1) for each in rows]
        labelled = self._labels is not None and len(self._exact) == 1
        fit = self._labels[: len(exact)] if labelled and self._labels is not None else largest[0]
        target = fit if len(fit) == len(rows[0]) else largest[0]
        return found | {
            "rows": len(rows[0]),
            "agreeing": int((largest[0] == largest[1]).sum()),
            "expected": expected_share(rows[0], rows[1], target) * len(rows[0]),
        }

    def _cycles(self, graph: Graph) -> int:
        from matloom.runtime import compile

        return int(compile(graph, self._config, check="none").predicted_cycles)


def _classes(values: Array) -> int:
    """Return the elements of a row of outputs, (samples, *shape)."""
    return int(values.shape[-1]) if values.ndim > 1 else 1


def watched(graph: Graph) -> tuple[int, ...]:
    """Return the network's outputs, with the inputs of SOFTMAX and LOGISTIC instead of theirs."""
    found = []
    for number in graph.outputs:
        node = graph.nodes[graph.producers[number]] if number in graph.producers else None
        squashed = node is not None and node.op in (Op.SOFTMAX, Op.LOGISTIC)
        found.append(node.inputs[0] if squashed and node is not None else number)
    return tuple(dict.fromkeys(found))
