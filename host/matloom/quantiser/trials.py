"""Builds mixtures of 8-bit and 4-bit weights, and measures them on separate samples."""

from dataclasses import asdict, dataclass

from matloom.quantiser.calibrate import Calibration, quantise_calibrated
from matloom.quantiser.journal import Journal
from matloom.quantiser.judge import Judge, Judgement
from matloom.quantiser.options import Options
from matloom.quantiser.precisions import NARROW_MODE
from matloom.quantiser.samples import SampleSplit


@dataclass(frozen=True, kw_only=True)
class MixedPoint(Judgement):
    """Judgement of a network in which some layers have 4-bit weights.

    Members
    -------
    layers:
        Names of the layers with 4-bit weights.
    best:
        Whether no other point of the search has less noise with the same or fewer cycles
        (`is_unbeaten`); True if points were not compared.
    """

    layers: tuple[str, ...]
    best: bool = True


class Trials:
    """Makes mixtures of 4-bit and 8-bit weights in a network, and judges them on other samples."""

    def __init__(
        self,
        calibration: Calibration,
        split: SampleSplit,
        options: Options,
        judge: Judge,
        journal: Journal,
    ) -> None:
        self._calibration, self._split, self._options = calibration, split, options
        self._judge, self._journal = judge, journal

    def point(self, layers: tuple[str, ...], samples: int = 0) -> MixedPoint:
        """Return the judgement of the network in which `layers` have 4-bit weights.

        Parameters
        ----------
        samples:
            Maximum number of samples for calibration, and for measuring; 0 for all.
        """
        name = repr((samples, layers))
        found = self._journal.get_or_run(
            name, lambda: asdict(self._measure_mixture(layers, samples or None))
        )
        return MixedPoint(**found, layers=layers)

    def _measure_mixture(self, layers: tuple[str, ...], samples: int | None) -> Judgement:
        """Quantise with some layers in the narrow mode, and judge the result."""
        narrowed = dict.fromkeys(layers, NARROW_MODE)
        given = {at: array[:samples] for at, array in self._split.calibration.items()}
        quantised = quantise_calibrated(self._calibration, narrowed, given, self._options)
        return self._judge.judge(quantised, samples)
