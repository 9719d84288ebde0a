"""Measures candidates of a search on samples to which they are not fitted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

import matloom
from matloom.arch.config import load_config
from matloom.errors import UserError
from matloom.ir.graph import Array, Graph, Op
from matloom.quantiser.expected import expected_share
from matloom.quantiser.measure import noise_share, rounded_outputs
from matloom.quantiser.options import Options
from matloom.quantiser.relevant_values import clamp_to_relevant
from matloom.quantiser.run_nodes import outputs_of
from matloom.quantiser.samples import SampleSplit

#: Operators at an output whose input is measured instead, because they squash noise.
_SQUASHED = (Op.LOG_SOFTMAX, Op.LOGISTIC, Op.SOFTMAX)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Measurements of a quantised network on the samples for trials.

    Members
    -------
    cycles:
        Predicted cycles of a call.
    noise:
        Power of the noise of an output before SOFTMAX, as a share of the output's power; the mean
        over the outputs.
    varying_noise:
        As `noise`, but as a share of the output's variance over the samples.
    agreement:
        Share of rows whose largest element is the float network's; 0 without classes.
    expected:
        Share of rows expected to give the label, or without labels the float network's class
        (`expected_share`); 0 without classes.
    """

    cycles: int
    noise: float
    varying_noise: float
    agreement: float
    expected: float

    @property
    def sqnr_db(self) -> float:
        """Signal-to-noise ratio of the outputs in decibels, from `noise`."""
        return float(-10 * np.log10(max(self.noise, 1e-30)))

    def text(self) -> str:
        """Return cycles, SQNR, agreement and expected share as columns of a line of text."""
        return (
            f"{self.cycles:>8,}  {self.sqnr_db:>5.1f} dB  {self.agreement:>7.2%}  "
            f"{self.expected:>7.2%}"
        )


class Judge:
    """Measures how far quantised networks differ from their float network, and their cycles.

    Parameters
    ----------
    exact:
        The float network. Quantised ones must use the same numbers for its `watched_tensors`.
    config:
        Configuration to predict cycles for.
    labels:
        Classes of the samples in `split.trial`, or None.
    """

    def __init__(self, exact: Graph, split: SampleSplit, config: str, labels: Array | None) -> None:
        self._graph, self._inputs = exact, split.trial
        self._config, self._labels = config, labels
        self._watched = watched_tensors(exact)
        self._exact = outputs_of(replace(exact, outputs=self._watched), split.trial)

    def require_classes(self, hint: str) -> None:
        """Raise `UserError` if no output has two elements or more, so that there are no classes."""
        if not any(_class_count(exact) > 1 for exact in self._exact):
            raise UserError(
                f"the outputs of {self._graph.name} have one element, so that no result can be a "
                "wrong class",
                hint=hint,
            )

    def judge(self, quantised: Graph, samples: int | None = None) -> Judgement:
        """Return the measurements of a quantised network.

        Parameters
        ----------
        samples:
            Maximum number of samples; None for all.
        """
        from matloom.runtime import compile

        inputs = {number: array[:samples] for number, array in self._inputs.items()}
        results = rounded_outputs(quantised, self._watched, inputs)
        noise = varying = agreeing = expected = 0.0
        rows = 0
        for number, whole, rounded in zip(self._watched, self._exact, results, strict=True):
            pair = [
                clamp_to_relevant(self._graph, number, {number: each})
                for each in (whole[:samples], rounded)
            ]
            noise += noise_share(*pair)
            varying += _varying_noise(*pair)
            if (classes := _class_count(whole)) > 1:
                exact, found = (each.reshape(-1, classes) for each in pair)
                rows += len(exact)
                agreeing += int((exact.argmax(axis=1) == found.argmax(axis=1)).sum())
                share = expected_share(exact, found, self._target_classes(exact))
                expected += share * len(exact)
        return Judgement(
            cycles=int(compile(quantised, self._config, check="none").predicted_cycles),
            noise=noise / len(self._watched),
            varying_noise=varying / len(self._watched),
            agreement=agreeing / (rows or 1),
            expected=expected / (rows or 1),
        )

    def _target_classes(self, exact: Array) -> Array:
        """Return the class that each row should have: its label, or the float network's.

        It is the label if there is one output and a label for each row; otherwise the float
        network's class.
        """
        labels = () if self._labels is None else self._labels[: len(exact)]
        alone = len(self._exact) == 1 and len(labels) == len(exact)
        return np.asarray(labels) if alone else exact.argmax(axis=1)


def _varying_noise(exact: Array, rounded: Array) -> float:
    """Return the power of the noise as a share of the variance over the samples."""
    wide = exact.astype(np.float64)
    variance = float(np.square(wide - wide.mean(axis=0)).sum())
    return float(np.square(rounded - wide).sum()) / max(variance, 1e-30)


def _class_count(values: Array) -> int:
    """Return the number of classes: the last length of an output (samples, *shape), or 1."""
    return int(values.shape[-1]) if values.ndim > 1 else 1


def search_identity(
    graph: Graph, split: SampleSplit, options: Options, config: str, labels: Array | None
) -> bytes:
    """Return bytes that identify a search, made of all that its results depend on."""
    arrays = [*split.calibration.values(), *split.trial.values()]
    arrays += [t.data for t in graph.tensors.values() if t.data is not None]
    arrays += [] if labels is None else [labels]
    options = replace(options, losses=False, journal=None)
    texts = (matloom.__version__, options, load_config(config), graph.nodes)
    return b"".join([repr(texts).encode(), *(array.tobytes() for array in arrays)])


def loses_at_most(points: float, judgement: Judgement, original: Judgement) -> bool:
    """Return whether a network's expected accuracy is at most `points` percentage points lower.

    It is compared with that of another network, `original`.
    """
    # Tolerance, so that rounding of the shares does not decide.
    return judgement.expected >= original.expected - points / 100 - 1e-9


def is_unbeaten(point: Judgement, points: Sequence[Judgement]) -> bool:
    """Return whether no other point has less noise with the same or fewer cycles."""
    return not any(o.cycles <= point.cycles and o.noise < point.noise for o in points)


def watched_tensors(graph: Graph) -> tuple[int, ...]:
    """Return the numbers of the tensors to measure: the outputs, each once.

    For an output of an operator in `_SQUASHED`, this is the operator's input.
    """
    found = []
    for number in graph.outputs:
        node = graph.nodes[graph.producers[number]] if number in graph.producers else None
        squashed = node is not None and node.op in _SQUASHED
        found.append(node.inputs[0] if squashed and node is not None else number)
    return tuple(dict.fromkeys(found))
