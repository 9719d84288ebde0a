"""Claims: whether a layer's results on the engine are ONNX Runtime's, as far as is proven."""

from dataclasses import dataclass

__all__ = ["Claim"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Count of a layer's results that can differ from ONNX Runtime's.

    Members
    -------
    unit:
        What decides a result: ``"sums"``, ``"pairs of inputs"``.
    reachable, differing:
        How many of them there can be, and how many the engine rounds otherwise, by one step.
    channels, repaired, affected:
        Of a layer with channels: how many there are, how many are equal by another multiplier than
        the nearest, and how many have sums that differ.
    floating:
        ONNX Runtime has the operator in floating point on this processor: what is counted is the
        difference from its integer operator.
    """

    unit: str
    reachable: int
    differing: int
    channels: int = 0
    repaired: int = 0
    affected: int = 0
    floating: bool = False

    @property
    def proven(self) -> bool:
        """Whether every result is ONNX Runtime's."""
        return not self.differing and not self.floating

    def __str__(self) -> str:
        """Say it for `explain`."""
        where = f", in {self.affected} of {self.channels} channels" if self.channels else ""
        count = f"in {self.differing:,} of {self.reachable:,} {self.unit}{where}"
        if self.floating:
            rest = f" and by one step {count}" if self.differing else ""
            return f"can differ from ONNX Runtime, by what floating point there rounds{rest}"
        if self.differing:
            return f"can differ from ONNX Runtime by one step {count}"
        return "proven equal to ONNX Runtime"
