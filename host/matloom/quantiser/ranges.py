"""Ranges of values that a tensor's integers represent, chosen from its histogram.

The range of a tensor always includes zero. Values beyond it saturate.
"""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from matloom.quantiser.histogram import Histogram

#: Smallest and largest value.
Range = tuple[float, float]

#: Percentile of the values that percentile calibration keeps on each side.
_PERCENTILE = 99.99
#: Fractions of the whole range to try for each end.
_SHARES = np.linspace(0.02, 1.0, 99)
#: Maximum deviation, in steps, of values that count as multiples of a step.
_OFF_GRID = 1e-3
#: Number of passes that fit one end, then the other.
_FITTING_PASSES = 2

_Cost = Callable[[Histogram, Range, int], float]


def _min_max(histogram: Histogram, _levels: int) -> Range:
    """Return the range from the smallest to the largest value."""
    return histogram.low, histogram.high


def _percentile(histogram: Histogram, _levels: int) -> Range:
    """Return the range without the most extreme values at each end."""
    shares = np.cumsum(histogram.counts) / histogram.counts.sum()
    beyond = 1 - _PERCENTILE / 100
    first = int(np.searchsorted(shares, beyond, side="right"))
    last = int(np.searchsorted(shares, 1 - beyond, side="left"))
    width = (histogram.high - histogram.low) / len(histogram.counts)
    return histogram.low + width * first, histogram.low + width * (last + 1)


def _squared_error(histogram: Histogram, limits: Range, levels: int) -> float:
    """Return the mean squared error of rounding inside a range and of saturation beyond it."""
    middles, step = histogram.middles, (limits[1] - limits[0]) / (levels - 1)
    beyond = middles - np.clip(middles, *limits)
    # Values are spread evenly over a step; those below half a step become zero.
    inside = np.where(beyond == 0, np.minimum(step**2 / 12, middles**2), 0.0)
    return float((histogram.counts * (beyond**2 + inside)).sum() / histogram.counts.sum())


def _divergence(histogram: Histogram, limits: Range, levels: int) -> float:
    """Return the Kullback-Leibler divergence of the quantised distribution from the original.

    As in TensorRT's calibration (Migacz, 8-bit Inference with TensorRT, 2017), but for ranges with
    two free ends: saturated values count in the outermost intervals of the reference only.
    """
    middles, counts = histogram.middles, histogram.counts
    inside = (middles >= limits[0]) & (middles <= limits[1])
    if not inside.any():
        return float("inf")
    kept = counts[inside]
    reference = kept.copy()
    first = int(np.argmax(inside))
    last = first + len(kept)
    reference[0] += counts[:first].sum()
    reference[-1] += counts[last:].sum()
    step = (limits[1] - limits[0]) / (levels - 1)
    level = np.rint((middles[inside] - limits[0]) / step).astype(np.int64)
    filled = kept > 0
    totals = np.bincount(level, kept, levels + 1)
    places = np.bincount(level, filled, levels + 1)
    spread = np.where(filled, totals[level] / np.maximum(places[level], 1), 0.0)
    # An interval with only saturated values has no counterpart and costs as much as one value.
    spread = np.maximum(spread, np.where(reference > 0, 1e-4, 0.0))
    wanted, given = reference / reference.sum(), spread / spread.sum()
    used = wanted > 0
    return float((wanted[used] * np.log(wanted[used] / given[used])).sum())


def _candidate_ends(end: float) -> Iterator[float]:
    """Yield the shares of a range's end that the search tries."""
    yield from (float(share) * end for share in _SHARES)


def _minimise(cost: _Cost) -> Callable[[Histogram, int], Range]:
    """Return a calibration that minimises a cost over the upper end, then over the lower end."""

    def choose(histogram: Histogram, levels: int) -> Range:
        """Return the range of least cost, by improving its ends in turn."""
        low, high = min(histogram.low, 0.0), max(histogram.high, 0.0)
        best = low, high
        for _round in range(_FITTING_PASSES):
            if high > 0:
                # Among equal costs, the widest range avoids needless saturation.
                tried = [
                    (cost(histogram, (best[0], end), levels), -end) for end in _candidate_ends(high)
                ]
                best = best[0], -min(tried)[1]
            if low < 0:
                tried = [
                    (cost(histogram, (end, best[1]), levels), end) for end in _candidate_ends(low)
                ]
                best = min(tried)[1], best[1]
        return best

    return choose


#: Calibrations by name: each returns a range for a histogram and a number of levels.
CALIBRATIONS: dict[str, Callable[[Histogram, int], Range]] = {
    "minmax": _min_max,
    "percentile": _percentile,
    "mse": _minimise(_squared_error),
    "kl": _minimise(_divergence),
}


def choose_range(histogram: Histogram, calibration: str, levels: int) -> Range:
    """Return the range of a tensor, which includes zero.

    Parameters
    ----------
    calibration:
        One of `CALIBRATIONS`.
    levels:
        Number of integers that the range is divided into, such as 256 for int8.
    """
    if len(histogram.counts) == 1:
        return min(histogram.low, 0.0), max(histogram.high, 0.0)
    low, high = CALIBRATIONS[calibration](histogram, levels)
    return min(low, 0.0), max(high, 0.0)


def grid_range(values: npt.NDArray[np.float32], levels: int) -> Range | None:
    """Return a range whose integers represent all values exactly; None if there is none.

    All values must be multiples of one step, as pixels divided by 255 are.
    """
    found = np.unique(values).astype(np.float64)
    if not 1 < len(found) <= levels:
        return None
    span = found[-1] - found[0]
    step = span / max(np.rint(span / np.diff(found).min()), 1)
    places = np.rint(found / step)
    low, high = min(places[0], 0.0), max(places[-1], 0.0)
    if high - low >= levels or np.abs(found - places * step).max() > _OFF_GRID * step:
        return None
    # Spare steps go to both sides, because other samples may exceed these.
    spare = levels - 1 - (high - low)
    below = spare // 2 if low < 0 else 0
    return float((low - below) * step), float((low - below + levels - 1) * step)
