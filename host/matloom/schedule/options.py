"""Options of compilation."""

from dataclasses import dataclass

from matloom.arch.memory import REFERENCE_MEMORY, Memory
from matloom.errors import UserError
from matloom.schedule.choices.record import Choices

#: How hard to search for a fast program, in ascending order.
EFFORTS = (0, 1, 2)


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """Options that change the program, but never its results.

    Members
    -------
    tiling_seed:
        Draw tile sizes and the places of tensors at random from this seed (for tests); None chooses
        by predicted cycles.
    resident:
        Whether weights stay in the scratchpad between the calls of a session. None: if all of them
        fit next to the tensors without slowing down the first call. True: always; raise
        `CompileError` if they do not fit. False: never.
    plain:
        Use the simplest schedule, stage by stage, for networks whose first schedule fails a check:
        no tables or concatenations written by their producers, no interleaved
        stages, no space-to-depth layouts, no prologue, ramps or split steps, no in-place reuse.
    memory:
        The memory on the bus, whose speed predictions and schedules are based on.
    effort:
        0: take the first schedule that fits, for fast compilation. 1: compare several schedules by
        the predicted cycles of the network's first layers. 2: compare them by the predicted cycles
        of the whole network, even if estimates promise no gain; compilation takes several times as
        long.
    choices:
        Recorded choices for each run of the engine, in order, to use instead of a search. A run is
        searched if its entry is None or does not apply, or if there is not one entry per run.
    left_out:
        Names of the stage passes to leave out (`select.rewrites.stage_passes`).
    tuned:
        Use the choices that `matloom tune` kept for this network, engine and memory, if any.

    Raises
    ------
    ValueError
        If `effort` is any other number.
    """

    tiling_seed: int | None = None
    resident: bool | None = None
    plain: bool = False
    effort: int = 1
    memory: Memory = REFERENCE_MEMORY
    choices: tuple[Choices | None, ...] = ()
    left_out: frozenset[str] = frozenset()
    tuned: bool = True

    def __post_init__(self) -> None:
        """Check that `effort` is valid."""
        if self.effort not in EFFORTS:
            raise UserError(
                f"effort must be one of {list(EFFORTS)}, not {self.effort}",
                hint="leave it out for the default",
            )
