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
    resident:
        Weights stay in the scratchpad between the calls of a session. None: where all of
        them fit beside the tensors, and the first call takes no longer for it. True: or
        else a `CompileError`. False: never.
    """

    tiling_seed: int | None = None
    resident: bool | None = None
