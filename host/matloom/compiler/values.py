"""Immutable values passed between the compiler's phases; each refers to the one before it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from matloom.arch.config import Config
from matloom.arch.garbage import gc_paused
from matloom.arch.machine import Machine
from matloom.ir.graph import Graph, Op
from matloom.meaning import MeaningError, check_meaning
from matloom.passes.choose_modes import Precision
from matloom.program import Binding, Program, Verdict
from matloom.schedule import CompileOptions, Place, Scheduled, Segment
from matloom.select.partition import HostRun, Partition
from matloom.select.rewrites.staged_run import StagedRun
from matloom.selfcheck import CheckError, Tiles, check_program, samples_tiles


@dataclass(frozen=True, kw_only=True)
class Job:
    """Engine and options of a compilation, and findings of attempts that failed.

    Members
    -------
    refused:
        Reasons to leave operators to the host, by their index in the model file.
    unlowered:
        Outputs of layers that keep their number format regardless of the precision.
    slices:
        Whether a variable may be stored as a slice of a larger tensor.
    host_variables:
        Variables that stay on the host, each given as the number of its tensor before the update.
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

    def with_changes(self, **changes: object) -> "Job":
        """Return the job with some members changed.

        What failed attempts found about variables is forgotten.
        """
        fresh = replace(self, slices=True, host_variables=frozenset())
        return replace(fresh, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Retry:
    """Failure of a phase: the reason, and what to try next.

    Members
    -------
    reason, remedy:
        Texts for messages: why the phase failed, and what the next attempt does about it.
    phase:
        The phase to restart from.
    job:
        The job to restart with; None if nothing is left to try.
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
        The graph that the program must compute: before the passes, with the final number formats.
    names:
        Unique names of the tensors of `graph`, by tensor number.
    """

    meaning: Graph
    graph: Graph
    names: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class Selected:
    """A graph whose operators are divided into runs of the engine and runs of the host."""

    prepared: Prepared
    parts: Partition


@dataclass(frozen=True, kw_only=True)
class Rewritten:
    """Runs after the stage passes.

    Members
    -------
    state:
        Addresses of the tensors of variables that stay in external memory, by tensor number.
    state_bytes:
        Number of bytes that these tensors take at the start of region ARENA.
    """

    selected: Selected
    runs: tuple[StagedRun | HostRun, ...]
    state: Mapping[int, Place]
    state_bytes: int


@dataclass(frozen=True, kw_only=True)
class BoundRun:
    """A run of the engine whose inputs and outputs have addresses in external memory.

    Members
    -------
    segment:
        The stages to schedule.
    constants:
        Contents of the constants that stages read as tensors, by name; they go into the image.
    timestamps:
        The slot of each operator in the completion-time table, 0 for none.
    """

    staged: StagedRun
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    segment: Segment
    constants: Mapping[str, bytes] = field(repr=False)
    timestamps: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Runs whose inputs and outputs have addresses, and the sizes of the regions for them."""

    rewritten: Rewritten
    runs: tuple[BoundRun | HostRun, ...]
    input_bytes: int
    output_bytes: int


@dataclass(frozen=True, kw_only=True)
class ScheduledRun:
    """A run of the engine with its instructions.

    Members
    -------
    commands:
        Command buffer of a first call.
    repeat_commands:
        Command buffer of later calls, which find weights on chip; None if no weights stay there.
    """

    bound: BoundRun
    scheduled: Scheduled
    commands: bytes = field(repr=False)
    repeat_commands: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class ScheduledNetwork:
    """Engine runs of a network with their instructions, and its host runs.

    Members
    -------
    image:
        Weights, parameters and other constants.
    overwritten:
        Variables that the instructions would read after overwriting them, each given as the number
        of its tensor before the update; empty if the schedule is correct.
    """

    bound: Bound
    runs: tuple[ScheduledRun | HostRun, ...]
    image: bytes = field(repr=False)
    overwritten: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A program that has not been checked yet.

    Members
    -------
    graph:
        The graph that it must compute: the given one, with layers in the number formats of the
        precision, before the passes that change no result.
    prepared:
        The graph after those passes, which was scheduled.
    numbers:
        Tensor numbers in `prepared`, by name in the program.
    retries:
        The failed attempts before this one, each with its reason.
    """

    program: Program
    graph: Graph
    prepared: Graph
    numbers: Mapping[str, int]
    retries: tuple[Retry, ...] = ()

    def check(self, mode: str = "full", seed: int = 0) -> Verdict:
        """Return the verdict on results and, unless `mode` is "none", on instructions' meaning.

        Raises
        ------
        CheckError
            A check fails.
        """
        with gc_paused():
            known = {
                name: self._number_before_reshapes(number) for name, number in self.numbers.items()
            }
            verdict = check_program(self.program, self.graph, known, mode=mode, seed=seed)
            if mode == "none":
                return verdict
            if not samples_tiles(self.program, mode):
                return replace(verdict, stages=self.prove())
            tiles = Tiles(
                program=self.program, graph=self.prepared, numbers=self.numbers, seed=seed
            )
            stages = self.prove(tiles)
            count, done = tiles.compare()
            share = min(1.0, verdict.share + done / self.program.macs)
            return replace(verdict, stages=stages, tiles=count, share=share)

    def _number_before_reshapes(self, number: int) -> int:
        """Return the tensor of `graph` from which RESHAPEs make tensor `number` of `prepared`.

        `graph` is the network as read, `prepared` the one after all passes. If another operator
        that passes have added makes the tensor, the number returned is not in `graph`.
        """
        producers = self.prepared.producers
        while number not in self.graph.tensors and number in producers:
            node = self.prepared.nodes[producers[number]]
            if node.op is not Op.RESHAPE:
                break
            number = node.inputs[0]
        return number

    def prove(self, observer: Tiles | None = None) -> tuple[int, int]:
        """Return how many operators on the engine are proved correct, and how many there are.

        Raises
        ------
        CheckError
            An output would differ (`check_meaning`).
        """
        names = {number: name for name, number in self.numbers.items()}
        try:
            return check_meaning(self.prepared, self.program, names, observer)
        except MeaningError as error:
            raise CheckError(str(error), error.tensor) from None
