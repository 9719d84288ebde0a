"""The immutable values of the compiler's phases, each with the one that it was made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from matloom.arch.config import Config
from matloom.arch.garbage import gc_paused
from matloom.arch.machine import Machine
from matloom.ir.graph import Graph
from matloom.meaning import MeaningError, check_meaning
from matloom.passes.choose_modes import Precision
from matloom.program import Binding, Program, Verdict
from matloom.schedule import CompileOptions, Place, Scheduled, Segment
from matloom.select.partition import HostRun, Partition
from matloom.select.rewrites.staged_run import StagedRun
from matloom.selfcheck import CheckError, Tiles, check_program, samples_tiles

__all__ = [
    "Bound",
    "BoundRun",
    "Compiled",
    "Job",
    "Prepared",
    "Retry",
    "Rewritten",
    "ScheduledNetwork",
    "ScheduledRun",
    "Selected",
]


@dataclass(frozen=True, kw_only=True)
class Job:
    """Request of a compilation, and what failed attempts have taught.

    Members
    -------
    refused:
        Reasons to leave operators to the host, by their places in the model file.
    unlowered:
        Outputs of layers that keep their number format, whatever the precision says.
    slices:
        Whether variables may be stored out of tensors that hold them.
    host_variables:
        Variables, by their first tensor, that the host keeps.
    """

    config: Config
    options: CompileOptions
    precision: Precision | None = None
    refused: Mapping[int, str] = field(default_factory=dict)
    unlowered: frozenset[int] = frozenset()
    slices: bool = True
    host_variables: frozenset[int] = frozenset()

    @property
    def machine(self) -> Machine:
        """The engine and its memory."""
        return Machine(config=self.config, memory=self.options.memory)

    def again(self, **changes: object) -> "Job":
        """Return the job with changes that take back what was learnt of variables."""
        fresh = replace(self, slices=True, host_variables=frozenset())
        return replace(fresh, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Retry:
    """Why a phase has no value, and what is tried next.

    Members
    -------
    reason, remedy:
        In words, for people.
    phase:
        The phase to begin again with.
    job:
        With what; None where nothing is left to try.
    """

    reason: str
    remedy: str = "none"
    phase: str = ""
    job: Job | None = None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A graph after all passes.

    Members
    -------
    meaning:
        What a program must compute: the graph before passes, its layers in their number formats.
    names:
        Names that differ, by the tensors' numbers.
    """

    meaning: Graph
    graph: Graph
    names: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class Selected:
    """A graph whose operators are stages, in runs of the engine, or the host's."""

    prepared: Prepared
    parts: Partition


@dataclass(frozen=True, kw_only=True)
class Rewritten:
    """Runs after the stage passes.

    Members
    -------
    state:
        Places of the tensors of variables that stay in external memory.
    state_bytes:
        The size of all of them.
    """

    selected: Selected
    runs: tuple[StagedRun | HostRun, ...]
    state: Mapping[int, Place]
    state_bytes: int


@dataclass(frozen=True, kw_only=True)
class BoundRun:
    """A run of the engine whose inputs and outputs have places in external memory.

    Members
    -------
    segment:
        What is scheduled.
    constants:
        Tensors of it that go into the image.
    timestamps:
        For each operator its slot of the completion-time table, 0 for none.
    """

    staged: StagedRun
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    segment: Segment
    constants: Mapping[str, bytes] = field(repr=False)
    timestamps: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Runs with their places, and the sizes of the regions of inputs and outputs."""

    rewritten: Rewritten
    runs: tuple[BoundRun | HostRun, ...]
    input_bytes: int
    output_bytes: int


@dataclass(frozen=True, kw_only=True)
class ScheduledRun:
    """A run of the engine with its instructions, also as bytes: of the first call, and others."""

    bound: BoundRun
    scheduled: Scheduled
    commands: bytes = field(repr=False)
    repeat_commands: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class ScheduledNetwork:
    """All runs with their instructions.

    Members
    -------
    image:
        Weights, parameters and other constants.
    overwritten:
        Variables, by their first tensor, that are read after they are written.
    """

    bound: Bound
    runs: tuple[ScheduledRun | HostRun, ...]
    image: bytes = field(repr=False)
    overwritten: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A program that nothing has checked yet.

    Members
    -------
    graph:
        What it means: the given graph, its layers in the number formats that a precision gives
        them, before all passes that change no result.
    prepared:
        The graph after those passes, which was scheduled.
    numbers:
        The graph's number of each tensor, by its name in the program.
    retries:
        The tries before this one, each with its reason.
    """

    program: Program
    graph: Graph
    prepared: Graph
    numbers: Mapping[str, int]
    retries: tuple[Retry, ...] = ()

    def check(self, mode: str = "full", seed: int = 0) -> Verdict:
        """Return the verdict of `check_program` and `check_meaning`, of neither in mode none.

        Raises `CheckError` where one of them fails.
        """
        with gc_paused():
            verdict = check_program(self.program, self.graph, self.numbers, mode=mode, seed=seed)
            if mode == "none":
                return verdict
            if not samples_tiles(self.program, mode):
                return replace(verdict, stages=self.proven())
            tiles = Tiles(
                program=self.program, graph=self.prepared, numbers=self.numbers, seed=seed
            )
            stages = self.proven(tiles)
            count, done = tiles.compare()
            share = min(1.0, verdict.share + done / self.program.macs)
            return replace(verdict, stages=stages, tiles=count, share=share)

    def proven(self, observer: Tiles | None = None) -> tuple[int, int]:
        """Return what `check_meaning` does; raise `CheckError` where it fails."""
        names = {number: name for name, number in self.numbers.items()}
        try:
            return check_meaning(self.prepared, self.program, names, observer)
        except MeaningError as error:
            raise CheckError(str(error), error.tensor) from None
