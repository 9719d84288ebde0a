"""Checks programs before they are returned, and falls back to simpler ones if a check fails."""

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from threadpoolctl import threadpool_limits

from matloom.arch.config import Config, load_config
from matloom.arch.garbage import gc_paused
from matloom.compiler.loops import with_loops
from matloom.compiler.pipeline import compile_unchecked
from matloom.compiler.values import Compiled
from matloom.compiler.winners import with_winner
from matloom.ir.graph import RESHAPES, Graph
from matloom.ir.names import unique_names
from matloom.passes.choose_modes import Precision
from matloom.program import Origin, Program
from matloom.schedule import CompileOptions
from matloom.selfcheck import CheckError, CompilerWarning, check_mode, write_reproducer


def compile_network(
    graph: Graph,
    config: Config | str,
    options: CompileOptions | None = None,
    precision: Precision | None = None,
    check: str | None = None,
) -> Program:
    """Return the checked program that runs a network on an engine of this configuration.

    Operators that do not fit the engine's memory run on the host. `precision` makes layers multiply
    in another number format (`passes.lower_precision`), if the engine supports it. `check` selects
    how much of the program is compared with the operators' definitions before it is returned
    (`selfcheck.check_program`): ``"full"``, ``"sample"``, whose cost is bounded, or ``"none"``; the
    default is the environment variable `MATLOOM_CHECK`, else ``"sample"``. Unless it is ``"none"``,
    the meaning of every instruction is proved as well (`meaning.check_meaning`). A program that
    fails its check is a compiler bug: a `CompilerWarning` reports it with the command that
    reproduces it, and a simpler program that passes is returned.

    Raises
    ------
    CompileError
        Operators fit the memory individually but not in sequence, or the weights are too large to
        be resident as the options require.
    CheckError
        Even a program that runs everything on the host fails its check.
    """
    config, mode = load_config(config), check_mode(check)
    options, tuned = with_winner(graph, config, options or CompileOptions(), precision)
    # Products of the checks are small: the threads of a linear algebra library would spin for most
    # of their time, and take it from other processes.
    with _one_thread(), gc_paused():
        candidate, program = _compile_checked(graph, config, options, precision, mode)

    def with_outputs(numbers: Sequence[int]) -> Program:
        """Return the program that also returns these tensors."""
        return compile_network(_with_outputs(graph, numbers), config, options, precision, mode)

    inner = CompileOptions(memory=options.memory)
    program, loops = with_loops(
        program, lambda part: compile_network(part, config, inner, precision, mode)
    )
    origin = Origin(
        source=graph,
        graph=candidate.graph,
        prepared=candidate.prepared,
        numbers=candidate.numbers,
        with_outputs=with_outputs,
        loops=loops,
        tuned=tuned,
    )
    return replace(program, origin=origin)


def _one_thread() -> AbstractContextManager[object]:
    """Return a context in which NumPy's libraries use one thread; it does nothing on failure."""
    try:
        limits: AbstractContextManager[object] = threadpool_limits(limits=1)
    except UnicodeDecodeError:
        # A loaded library lies in a folder whose name is not UTF-8, which threadpoolctl expects.
        return nullcontext()
    return limits


def _compile_checked(
    graph: Graph, config: Config, options: CompileOptions, precision: Precision | None, mode: str
) -> tuple[Compiled, Program]:
    """Return a compilation and its program, which passes its check.

    If the first one fails, write a reproducer and return a simpler one (`_compile_simpler`).
    """
    candidate = compile_unchecked(graph, config, options, precision)
    try:
        program = replace(candidate.program, verdict=candidate.check(mode))
    except CheckError as error:
        folder = write_reproducer(graph, config, options, precision, str(error), seed=0)
        reason = f"the program of {graph.name!r} fails its check: {error}; to repeat it: {folder}"
        return _compile_simpler(graph, config, options, precision, error, reason)
    return candidate, program


def _with_outputs(graph: Graph, numbers: Sequence[int]) -> Graph:
    """Return a graph with the tensors `numbers` as additional outputs, each with a unique name."""
    names = unique_names(graph)
    tensors = dict(graph.tensors)
    for number in numbers:
        tensors[number] = replace(tensors[number], name=names[number])
    return replace(graph, tensors=tensors, outputs=(*graph.outputs, *numbers))


def _compile_simpler(
    graph: Graph,
    config: Config,
    options: CompileOptions,
    precision: Precision | None,
    error: CheckError,
    reason: str,
) -> tuple[Compiled, Program]:
    """Return a simpler compilation and its program, which passes its check; warn about it.

    The first attempt leaves out the optimisations of the scheduler. Each further attempt also moves
    the operator that makes the wrong tensor to the host, or all operators if it is unknown.
    `reason` says why the original program was dropped.

    Raises
    ------
    CheckError
        All attempts fail their checks.
    """
    refused: dict[int, str] = {}
    plain = replace(
        options,
        tiling_seed=None,
        resident=options.resident or False,
        plain=True,
        choices=(),
    )
    for _ in range(len(graph.nodes) + 2):
        candidate = compile_unchecked(graph, config, plain, precision, refused)
        try:
            verdict = candidate.check("full")
        except CheckError as problem:
            error = problem
            _refuse(candidate, error, refused)
            continue
        warnings.warn(f"{reason}; a simpler program passes", CompilerWarning, stacklevel=5)
        verdict = replace(verdict, fallback=reason)
        return candidate, replace(candidate.program, verdict=verdict)
    raise CheckError(f"{reason}; so does a program of the host alone: {error}", error.tensor)


def _refuse(candidate: Compiled, error: CheckError, refused: dict[int, str]) -> None:
    """Add the operator that makes a wrong tensor to `refused`, the operators left to the host.

    Add all operators if it is unknown, or refused already.
    """
    at = candidate.graph.producers.get(candidate.numbers.get(error.tensor, -1))
    while at is not None and candidate.graph.nodes[at].op in RESHAPES:
        at = candidate.graph.producers.get(candidate.graph.nodes[at].inputs[0])
    wrong = {candidate.graph.nodes[at].index} if at is not None else set()
    if not wrong or wrong <= refused.keys():
        wrong = {node.index for node in candidate.graph.nodes}
    refused.update(dict.fromkeys(wrong, "its program fails the check"))
