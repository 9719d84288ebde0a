"""From a graph to a Program: passes, partition, schedule, assembly."""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from matloom.arch.config import Config, load_config
from matloom.arch.machine import Machine
from matloom.compiler.assemble import lower
from matloom.ir.graph import RESHAPES, Graph
from matloom.meaning import MeaningError, check_meaning
from matloom.passes import run_passes
from matloom.passes.choose_modes import MODES, Precision
from matloom.passes.lower_precision import lower_precision
from matloom.program import EngineStep, Program, Verdict
from matloom.schedule import CompileError, CompileOptions
from matloom.select.partition import EngineRun, HostRun, Partition, partition
from matloom.selfcheck import (
    CheckError,
    CompilerWarning,
    check_mode,
    check_program,
    write_reproducer,
)

__all__ = [
    "CheckError",
    "CompileError",
    "CompileOptions",
    "Compiled",
    "CompilerWarning",
    "compile_network",
    "compiled",
]


def _names(graph: Graph) -> dict[int, str]:
    """Return names that differ: the model file's, with the number where one occurs twice."""
    fixed = {number: graph.tensors[number].name for number in (*graph.outputs, *graph.inputs)}
    times = Counter(tensor.name for tensor in graph.tensors.values())
    names = {}
    for number, tensor in graph.tensors.items():
        unique = times[tensor.name] == 1 or fixed.get(number) == tensor.name
        names[number] = tensor.name if unique else f"{tensor.name}:{number}"
    return names


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
    """

    program: Program
    graph: Graph
    prepared: Graph
    numbers: Mapping[str, int]

    def check(self, mode: str = "full", seed: int = 0) -> Verdict:
        """Return the verdict of `check_program` and `check_meaning`, of neither in mode none.

        Raises `CheckError` where one of them fails.
        """
        verdict = check_program(self.program, self.graph, self.numbers, mode=mode, seed=seed)
        return verdict if mode == "none" else replace(verdict, stages=self.proven())

    def proven(self) -> tuple[int, int]:
        """Return what `check_meaning` does; raise `CheckError` where it fails."""
        names = {number: name for name, number in self.numbers.items()}
        try:
            return check_meaning(self.prepared, self.program, names)
        except MeaningError as error:
            raise CheckError(str(error), error.tensor) from None


def compile_network(
    graph: Graph,
    config: Config | str,
    options: CompileOptions | None = None,
    precision: Precision | None = None,
    check: str | None = None,
) -> Program:
    """Return the program that runs a network on an engine of this configuration.

    Operators that do not fit the engine's memory run on the host. `precision` gives layers
    products of another format (`passes.lower_precision`), where the engine runs them. `check`
    is how much of the program is run against the operators' definitions before it is returned
    (`selfcheck.check_program`): ``"full"``, ``"sample"``, whose cost is bounded, or ``"none"``; by
    default `MATLOOM_CHECK` of the environment, else ``"sample"``. But for ``"none"``, every
    instruction's meaning is proven, too (`meaning.check_meaning`). A program that fails is a defect
    of the compiler: a `CompilerWarning` says so and names what repeats it, and a plainer one that
    passes is returned.

    Raises
    ------
    CompileError
        Where operators fit the memory alone, but not one after another, or weights that the
        options want resident are too large.
    CheckError
        Where even a program that runs everything on the host fails its check.
    """
    config, mode = load_config(config), check_mode(check)
    options = options or CompileOptions()
    candidate = compiled(graph, config, options, precision)
    try:
        return replace(candidate.program, verdict=candidate.check(mode))
    except CheckError as error:
        folder = write_reproducer(graph, config, options, precision, str(error), seed=0)
        reason = f"the program of {graph.name!r} fails its check: {error}; to repeat it: {folder}"
        return _plainer(graph, config, options, precision, error, reason)


def _plainer(
    graph: Graph,
    config: Config,
    options: CompileOptions,
    precision: Precision | None,
    error: CheckError,
    reason: str,
) -> Program:
    """Return a program of a plainer schedule that passes, with a warning.

    First without what makes schedules fast; then with one operator after another on the host, the
    one whose result is wrong; at last with all of them there.
    """
    refused: dict[int, str] = {}
    plain = replace(options, tiling_seed=None, resident=options.resident or False, plain=True)
    for _ in range(len(graph.nodes) + 2):
        candidate = compiled(graph, config, plain, precision, refused)
        try:
            verdict = candidate.check("full")
        except CheckError as problem:
            error = problem
            _refuse(candidate, error, refused)
            continue
        warnings.warn(f"{reason}; a plainer program passes", CompilerWarning, stacklevel=4)
        return replace(candidate.program, verdict=replace(verdict, fallback=reason))
    raise CheckError(f"{reason}; so does a program of the host alone: {error}", error.tensor)


def _refuse(candidate: Compiled, error: CheckError, refused: dict[int, str]) -> None:
    """Add the operator that makes a wrong tensor to those of the host, else all operators."""
    at = candidate.graph.producers.get(candidate.numbers.get(error.tensor, -1))
    while at is not None and candidate.graph.nodes[at].op in RESHAPES:
        at = candidate.graph.producers.get(candidate.graph.nodes[at].inputs[0])
    wrong = {candidate.graph.nodes[at].index} if at is not None else set()
    if not wrong or wrong <= refused.keys():
        wrong = {node.index for node in candidate.graph.nodes}
    refused.update(dict.fromkeys(wrong, "its program fails the check"))


def compiled(
    graph: Graph,
    config: Config,
    options: CompileOptions,
    precision: Precision | None = None,
    refused: Mapping[int, str] | None = None,
) -> Compiled:
    """Return the program of a network, unchecked; errors are `compile_network`'s.

    `refused` are reasons to leave operators to the host, by their places in the model file.
    """
    left, machine = set[int](), Machine(config=config, memory=options.memory)
    meaning = _lowered(graph, config, precision, left)
    prepared = run_passes(meaning)
    names = _names(prepared)
    unfit_for_engine = dict(refused or {})
    while True:
        parts = partition(prepared, machine, names, unfit_for_engine)
        unfit = set() if precision is None else _unfit(parts)
        if unfit:
            left |= unfit
            meaning = _lowered(graph, config, precision, left)
            prepared = run_passes(meaning)
            names = _names(prepared)
            continue
        try:
            program = lower(prepared, parts, names, config, options)
        except CompileError:
            too_large = dict(_too_large(prepared, parts, names, config, options))
            if not too_large and options.plain:
                raise
            if not too_large:
                # What does not fit side by side does one stage after another.
                options = replace(options, plain=True, tiling_seed=None)
            unfit_for_engine.update(too_large)
        else:
            break
    if options.resident and program.repeat is None:
        buffers = sum(isinstance(step, EngineStep) for step in program.steps)
        raise CompileError(
            f"for resident weights, all of them must fit the {config.spad_bytes} bytes of "
            f"scratchpad beside the tensors, in one command buffer, not {buffers}"
        )
    numbers = {name: number for number, name in names.items()}
    return Compiled(program=program, graph=meaning, prepared=prepared, numbers=numbers)


def _lowered(graph: Graph, config: Config, precision: Precision | None, left: set[int]) -> Graph:
    """Return the graph in a precision; outputs in `left` are of layers that stay as they are."""
    if precision is not None:
        graph = lower_precision(graph, precision, left)
        _require_modes(graph, config)
    return graph


def _unfit(parts: Partition) -> set[int]:
    """Return the outputs of layers in another mode that the engine cannot run."""
    nodes = [run.node for run in parts.runs if isinstance(run, HostRun)]
    return {node.output for node in nodes if getattr(node.attributes, "mode", None) in MODES}


def _require_modes(graph: Graph, config: Config) -> None:
    """Refuse a precision that the engine is not built with: it would be lost for nothing."""
    modes = {getattr(node.attributes, "mode", None) for node in graph.nodes}
    for mode in [mode for mode in MODES if mode in modes - set(config.mac_modes)]:
        raise CompileError(
            f"a precision must be one the configuration is built with "
            f"({', '.join(config.mac_modes)}), not {mode}"
        )


def _too_large(
    graph: Graph, parts: Partition, names: dict[int, str], config: Config, options: CompileOptions
) -> Iterator[tuple[int, str]]:
    """Yield the operators of the engine that do not fit even alone, each with the reason."""
    for run in parts.runs:
        if not isinstance(run, EngineRun):
            continue
        for node, stages in zip(run.nodes, run.stages, strict=True):
            inputs = [number for number in node.inputs if graph.tensors[number].data is None]
            alone = EngineRun(
                nodes=(node,),
                stages=(stages,),
                consumed=tuple(dict.fromkeys(parts.roots[number] for number in inputs)),
                produced=node.outputs,
            )
            try:
                lower(graph, replace(parts, runs=(alone,)), names, config, options)
            except CompileError as error:
                yield node.index, str(error)
