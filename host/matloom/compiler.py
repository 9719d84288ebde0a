"""From a graph to a Program: passes, partition, schedule, lowering."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from matloom.arch.config import Config, load_config
from matloom.ir.graph import Graph
from matloom.lower import lower
from matloom.passes import run_passes
from matloom.program import EngineStep, Program
from matloom.schedule import CompileError, CompileOptions
from matloom.schedule.partition import EngineRun, Partition, partition

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
) -> Program:
    """Return the program that runs a network on an engine of this configuration.

    Operators that do not fit the engine's memory run on the host.

    Raises
    ------
    CompileError
        Where operators fit the memory one by one, but not together, or weights that the
        options want resident are too large.
    """
    config = load_config(config)
    options = options or CompileOptions()
    graph = run_passes(graph)
    names = _names(graph)
    refused: dict[int, str] = {}
    while True:
        parts = partition(graph, config, names, refused)
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
