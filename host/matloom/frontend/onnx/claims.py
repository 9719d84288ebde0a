"""Claims about layers on the engine: how many results can differ from ONNX Runtime's."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Exactness of a layer: the number of results that can differ from ONNX Runtime's.

    Members
    -------
    unit:
        Name of the quantity that determines a result: ``"sums"``, ``"pairs of inputs"``.
    reachable:
        Number of values of this quantity that can occur.
    differing:
        Number of those values for which the engine's result differs, by one step.
    channels:
        Number of channels of the layer.
    repaired:
        Number of channels whose results equal ONNX Runtime's because the multiplier is not the
        nearest one.
    affected:
        Number of channels with results that differ.
    unproven:
        Indices of the affected channels.
    run_by_onnxruntime:
        Number of channels that ONNX Runtime runs because their results would differ.
    floating:
        Whether ONNX Runtime runs the operator in floating point on this processor. `differing` then
        counts differences from its integer operator.
    """

    unit: str
    reachable: int
    differing: int
    channels: int = 0
    repaired: int = 0
    affected: int = 0
    unproven: tuple[int, ...] = ()
    run_by_onnxruntime: int = 0
    floating: bool = False

    @property
    def is_proven(self) -> bool:
        """Whether every result is proved equal to ONNX Runtime's."""
        return not self.differing and not self.floating

    def __str__(self) -> str:
        """Return the claim as a phrase for `explain`, without a subject."""
        where = f", in {self.affected} of {self.channels} channels" if self.channels else ""
        count = f"in {self.differing:,} of {self.reachable:,} {self.unit}{where}"
        if self.floating:
            rest = f" and by one step {count}" if self.differing else ""
            return f"can differ from ONNX Runtime, which rounds here in floating point{rest}"
        if self.differing:
            return f"can differ from ONNX Runtime by one step {count}"
        channels = self.run_by_onnxruntime
        rest = f", which runs {channels} of {self.channels} channels" if channels else ""
        return f"proven equal to ONNX Runtime{rest}"
