"""Options of compilation."""

from dataclasses import dataclass

from matloom.arch.memory import REFERENCE_MEMORY, Memory

__all__ = ["EFFORTS", "CompileOptions"]

#: How hard to look for a fast program, from the least on.
EFFORTS = (0, 1, 2)


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
        them fit next to the tensors, and the first call takes no longer for it. True: or
        else a `CompileError`. False: never.
    plain:
        Schedules of the simplest kind, stage by stage, for networks whose first schedule fails
        a check: no tables or concatenations written by their producers, no interleaved
        stages, no space-to-depth layouts, no prologue, ramps or split steps, no in-place reuse.
    memory:
        What the bus leads to, by whose speed predictions and schedules are made.
    effort:
        0: the first schedule that fits, for a fast compilation. 1: the best of some, compared by
        the predicted cycles of a network's first layers. 2: by those of the whole network, also
        where estimates say that nothing is gained; compilation takes several times as long.

    Raises
    ------
    ValueError
        Where `effort` is another number.
    """

    tiling_seed: int | None = None
    resident: bool | None = None
    plain: bool = False
    effort: int = 1
    memory: Memory = REFERENCE_MEMORY

    def __post_init__(self) -> None:
        """Check that there is such an effort."""
        if self.effort not in EFFORTS:
            raise ValueError(f"effort must be one of {list(EFFORTS)}, not {self.effort}")
