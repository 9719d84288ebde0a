"""From a graph to a Program: passes, partition, schedule, lowering."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from matloom.arch.config import Config, load_config
from matloom.ir.graph import Graph
from matloom.lower import lower
from matloom.passes import run_passes
from matloom.passes.choose_modes import MODES, Precision
from matloom.passes.lower_precision import lower_precision
from matloom.program import EngineStep, Program
from matloom.schedule import CompileError, CompileOptions
from matloom.schedule.partition import EngineRun, HostRun, Partition, partition

__all__ = ["CompileError", "CompileOptions", "compile_network"]


def _names(graph: Graph) -> dict[int, str]:
    """Return names that differ: the model file's, with the number where one occurs twice."""
    fixed = {number: graph.tensors[number].name for number in (*graph.outputs, *graph.inputs)}
    times = Counter(tensor.name for tensor in graph.tensors.values())
    names = {}
    for number, tensor in graph.tensors.items():
        unique = times[tensor.name] == 1 or fixed.get(number) == tensor.name
        names[number] = tensor.name if unique else f"{tensor.name}:{number}"
    return names


def compile_network(
    graph: Graph,
    config: Config | str,
    options: CompileOptions | None = None,
    precision: Precision | None = None,
) -> Program:
    """Return the program that runs a network on an engine of this configuration.

    Operators that do not fit the engine's memory run on the host. `precision` gives layers
    products of another format (`passes.lower_precision`), where the engine runs them.

    Raises
    ------
    CompileError
        Where operators fit the memory one by one, but not together, or weights that the
        options want resident are too large.
    """
    config = load_config(config)
    options = options or CompileOptions()
    given, left = graph, set[int]()
    graph = _prepared(given, config, precision, left)
    names = _names(graph)
    refused: dict[int, str] = {}
    while True:
        parts = partition(graph, config, names, refused)
        unfit = set() if precision is None else _unfit(parts)
        if unfit:
            left |= unfit
            graph = _prepared(given, config, precision, left)
            names = _names(graph)
            continue
        try:
            program = lower(graph, parts, names, config, options)
        except CompileError:
            found = dict(_too_large(graph, parts, names, config, options))
            if not found:
                raise
            refused.update(found)
        else:
            break
    if options.resident and program.repeat is None:
        buffers = sum(isinstance(step, EngineStep) for step in program.steps)
        raise CompileError(
            f"for resident weights, all of them must fit the {config.spad_bytes} bytes of "
            f"scratchpad beside the tensors, in one command buffer, not {buffers}"
        )
    return program


def _prepared(graph: Graph, config: Config, precision: Precision | None, left: set[int]) -> Graph:
    """Return the graph behind all passes; outputs in `left` are of layers that stay as they are."""
    if precision is not None:
        graph = lower_precision(graph, precision, left)
        _require_modes(graph, config)
    return run_passes(graph)


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
