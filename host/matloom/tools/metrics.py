"""Metrics of a network's outputs, with intervals: accuracy, area under the ROC curve, errors."""

import math
import re
from dataclasses import dataclass

import numpy as np

from matloom.errors import UserError, unknown_name_error
from matloom.ir.graph import Array

#: Names of metrics on the command line; K of top is any number from 1 on.
METRICS = ("top1", "top5", "auc", "mse", "mae")

#: Standard deviations around the mean that contain 95 % of a normal distribution.
_Z = 1.959963984540054
#: Number of output elements of a binary decision that scores both classes; a single element scores
#: the second class.
_BOTH_CLASSES = 2


@dataclass(frozen=True, kw_only=True)
class Score:
    """Value of a metric over some samples, and its 95 % interval, if there is one.

    Members
    -------
    method:
        Method by which the interval was computed.
    """

    metric: str
    value: float
    low: float | None
    high: float | None
    method: str


def metric_rank(metric: str) -> int | None:
    """Return K of ``topK``; None for other metrics. Raise UserError for unknown metrics."""
    top = re.fullmatch(r"top([1-9]\d*)", metric)
    if top:
        return int(top[1])
    if metric not in METRICS:
        raise unknown_name_error(
            UserError, "metric", metric, METRICS, hint="topK takes any K, as in top3"
        )
    return None


def compute_score(metric: str, outputs: Array, labels: Array) -> Score:
    """Return the score of outputs, float64 (samples, elements), against labels.

    Parameters
    ----------
    metric:
        ``"topK"``, the share of samples whose class is among the K largest elements; ``"auc"``, the
        area under the ROC curve of the last of one or two elements; ``"mse"`` and ``"mae"``, the
        mean squared and absolute error.
    labels:
        Integer classes (samples,), 0 and 1 for ``"auc"``; for error metrics the expected numbers
        (samples, elements).
    """
    rank = metric_rank(metric)
    if rank is not None:
        hits = int((ranks(outputs, labels) < rank).sum())
        low, high = wilson(hits, len(labels))
        return Score(
            metric=metric, value=hits / len(labels), low=low, high=high, method="Wilson score"
        )
    if metric == "auc":
        return _area_under_curve(outputs, labels)
    errors = outputs - labels
    by_sample = (np.square(errors) if metric == "mse" else np.abs(errors)).mean(axis=1)
    return _mean_score(metric, by_sample)


def ranks(outputs: Array, labels: Array) -> Array:
    """Return, for each sample, the number of classes ranked before the right one.

    Of equal elements, the first ranks higher.
    """
    own = np.take_along_axis(outputs, labels[:, np.newaxis], axis=1)
    earlier = np.arange(outputs.shape[1]) < labels[:, np.newaxis]
    return np.asarray(((outputs > own) | ((outputs == own) & earlier)).sum(axis=1))


def confusion(outputs: Array, labels: Array) -> Array:
    """Return how often each class (row) was predicted as each (column); (classes, classes)."""
    classes = outputs.shape[1]
    pairs = labels * classes + outputs.argmax(axis=1)
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def wilson(hits: int, samples: int) -> tuple[float, float]:
    """Return the 95 % score interval of a proportion (Wilson 1927), uncorrected."""
    share, weight = hits / samples, _Z * _Z / samples
    middle = (share + weight / 2) / (1 + weight)
    spread = math.sqrt(share * (1 - share) * weight + weight * weight / 4) / (1 + weight)
    return middle - spread if hits else 0.0, middle + spread if hits < samples else 1.0


def _area_under_curve(outputs: Array, labels: Array) -> Score:
    """Return the area under the ROC curve, with its interval by Hanley and McNeil (1982)."""
    scores = outputs[:, -1] - (outputs[:, 0] if outputs.shape[1] == _BOTH_CLASSES else 0.0)
    _values, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    # Equal scores share the mean of their ranks.
    order = (np.cumsum(counts) - (counts - 1) / 2)[place.reshape(-1)]
    positive = labels == 1
    many, few = int((~positive).sum()), int(positive.sum())
    area = float((order[positive].sum() - few * (few + 1) / 2) / (few * many))
    low, high = (area + side * _Z * hanley_mcneil(area, few, many) for side in (-1, 1))
    return Score(
        metric="auc",
        value=area,
        low=max(0.0, low),
        high=min(1.0, high),
        method="Hanley and McNeil",
    )


def hanley_mcneil(area: float, positive: int, negative: int) -> float:
    """Return the standard error of an area under the ROC curve, for these numbers of samples."""
    first, second = area / (2 - area), 2 * area * area / (1 + area)
    variance = area * (1 - area)
    variance += (positive - 1) * (first - area * area) + (negative - 1) * (second - area * area)
    return math.sqrt(max(0.0, variance) / (positive * negative))


def _mean_score(metric: str, by_sample: Array) -> Score:
    """Return the mean over samples, with an interval if there is more than one sample."""
    value = float(by_sample.mean())
    if len(by_sample) == 1:
        return Score(metric=metric, value=value, low=None, high=None, method="one sample")
    spread = _Z * float(by_sample.std(ddof=1)) / math.sqrt(len(by_sample))
    return Score(
        metric=metric,
        value=value,
        low=max(0.0, value - spread),
        high=value + spread,
        method="normal approximation",
    )
