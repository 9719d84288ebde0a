"""What a user may choose about compilation."""

from dataclasses import dataclass

__all__ = ["CompileOptions"]


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """Choices that change the program, never its results.

    Members
    -------
    tiling_seed:
        Draw tile sizes and buffer homes at random from this seed (for tests); None chooses
        by predicted cycles.
    """

    tiling_seed: int | None = None
