"""Claims about layers on the engine: how many results can differ from ONNX Runtime's."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Number of a layer's results that can differ from ONNX Runtime's.

    Members
    -------
    unit:
        Name of the quantity that determines a result: ``"sums"``, ``"pairs of inputs"``.
    reachable, differing:
        Number of units that can occur, and of those that the engine rounds differently, by one
        step.
    channels, repaired, affected:
        Numbers of channels of a layer: all, those made equal by a multiplier other than the nearest
        one, and those with sums that differ.
    unproven, apart:
        The channels with sums that differ, and the number of them that ONNX Runtime runs instead.
    floating:
        Whether ONNX Runtime runs the operator in floating point on this processor; differences are
        then counted from its integer operator.
    """

    unit: str
    reachable: int
    differing: int
    channels: int = 0
    repaired: int = 0
    affected: int = 0
    unproven: tuple[int, ...] = ()
    apart: int = 0
    floating: bool = False

    @property
    def proven(self) -> bool:
        """Whether every result is proved equal to ONNX Runtime's."""
        return not self.differing and not self.floating

    def __str__(self) -> str:
        """Describe the claim for `explain`."""
        where = f", in {self.affected} of {self.channels} channels" if self.channels else ""
        count = f"in {self.differing:,} of {self.reachable:,} {self.unit}{where}"
        if self.floating:
            rest = f" and by one step {count}" if self.differing else ""
            return f"can differ from ONNX Runtime, which rounds here in floating point{rest}"
        if self.differing:
            return f"can differ from ONNX Runtime by one step {count}"
        apart = f", which runs {self.apart} of {self.channels} channels" if self.apart else ""
        return f"proven equal to ONNX Runtime{apart}"
