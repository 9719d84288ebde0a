"""Histograms of tensors' values over all calibration samples."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: Number of intervals between the smallest and the largest value.
BINS = 2048

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Histogram:
    """Values of one tensor over all samples.

    Members
    -------
    low, high:
        Smallest and largest value.
    counts:
        Number of values in each of `BINS` equal intervals from `low` to `high`, float64. Zeros are
        not counted, because every range represents them exactly. If all values are equal, or nearly
        so, there is a single interval, with all values.
    """

    low: float
    high: float
    counts: _Numbers

    @property
    def middles(self) -> _Numbers:
        """Middle of each interval."""
        width = (self.high - self.low) / len(self.counts)
        return np.asarray(self.low + width * (np.arange(len(self.counts)) + 0.5), np.float64)


def histogram_of(values: npt.NDArray[np.float32]) -> Histogram:
    """Return the histogram of finite values of any shape; there must be at least one value."""
    low, high = float(values.min()), float(values.max())
    numbers = values[values != 0].astype(np.float64)
    # Shorter intervals would be below the resolution of float64, which has enough of it for 2,048
    # intervals between two neighbours among numbers of float32.
    if high - low <= BINS * np.finfo(np.float32).tiny:
        return Histogram(low=low, high=high, counts=np.array([values.size], np.float64))
    counts, _edges = np.histogram(numbers, BINS, (low, high))
    return Histogram(low=low, high=high, counts=np.asarray(counts, np.float64))
