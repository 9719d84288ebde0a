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
    plain:
        Schedules of the simplest kind, stage by stage, for networks whose first schedule fails
        a check: no tables or concatenations written by their producers, no interleaved
        stages, no space-to-depth layouts, no prologue, ramps or split steps, no in-place reuse.
    """

    tiling_seed: int | None = None
    resident: bool | None = None
    plain: bool = False
