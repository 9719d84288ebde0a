"""From a graph to a Program: passes, partition, schedule, lowering."""

from collections import Counter

from matloom.arch.config import Config, load_config
from matloom.ir.graph import Graph
from matloom.lower import lower
from matloom.passes import run_passes
from matloom.program import Program
from matloom.schedule import CompileError, CompileOptions
from matloom.schedule.partition import partition

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

    Raises
    ------
    CompileError
        Where the network needs more memory than there is, or an operator that neither the
        engine nor the host can run.
    """
    config = load_config(config)
    graph = run_passes(graph)
    names = _names(graph)
    parts = partition(graph, config, names)
    return lower(graph, parts, names, config, options or CompileOptions())
