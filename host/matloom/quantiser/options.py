"""Choices of a quantisation."""

from dataclasses import dataclass
from pathlib import Path

from matloom.errors import UserError, unknown_name_error
from matloom.quantiser.ranges import CALIBRATIONS

WEIGHT_SCALES = ("per-channel", "per-tensor")
ENDS = ("integers", "floats")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices of a quantisation.

    Members
    -------
    calibration:
        Method by which ranges of activations are chosen from the samples: ``"minmax"``,
        ``"percentile"``, ``"mse"`` or ``"kl"``.
    weight_scales:
        ``"per-channel"`` or ``"per-tensor"``.
    adaptive_rounding:
        Round weights up or down so that outputs change least; otherwise to nearest.
    correct_bias:
        Correct biases so that the mean of each channel over the samples is preserved.
    equalise:
        Balance the ranges of channels between layers first. None decides by a trial on halves of
        the calibration samples: by the results that are expected to change, or for outputs without
        SOFTMAX by the noise.
    compress:
        Rewrite layers as two of low rank, or with fewer channels, where that saves cycles:
        ``"points=1"`` is expected to lose at most one percentage point of accuracy; ``"sqnr=20"``
        keeps a signal-to-noise ratio of 20 dB in the outputs.
    ends:
        Whether the network takes and gives ``"integers"``, or ``"floats"`` that it converts.
    seed:
        Seed of the choice among positions of large images.
    losses:
        Also report the part of the loss that each layer causes, which at least doubles the time.
    journal:
        File that keeps every trial of a search, so that the same search continues where it stopped.
    """

    calibration: str = "mse"
    weight_scales: str = "per-channel"
    adaptive_rounding: bool = True
    correct_bias: bool = True
    equalise: bool | None = None
    compress: str | None = None
    ends: str = "integers"
    seed: int = 0
    losses: bool = False
    journal: str | Path | None = None

    def __post_init__(self) -> None:
        for what, value, known in (
            ("calibration", self.calibration, CALIBRATIONS),
            ("scales of weights", self.weight_scales, WEIGHT_SCALES),
            ("ends", self.ends, ENDS),
        ):
            if value not in known:
                raise unknown_name_error(UserError, what, value, known)
