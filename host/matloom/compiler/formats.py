"""Changes the number formats of layers as a precision asks for, if the engine supports them."""

from matloom.arch.config import Config
from matloom.arch.config_name import config_name
from matloom.compiler.values import Job
from matloom.ir.graph import Graph, Op
from matloom.passes.choose_modes import MODES
from matloom.passes.lower_precision import lower_precision
from matloom.passes.signed_bytes import store_signed_bytes
from matloom.schedule import CompileError
from matloom.select.partition import HostRun, Partition


def choose_formats(graph: Graph, job: Job) -> Graph:
    """Return the graph with its layers in the number formats that the job's precision asks for.

    Layers in `job.unlowered` are left out. Bytes are stored as int8 where results stay the same.

    Raises
    ------
    CompileError
        The engine does not support a number format, so layers would lose accuracy for no gain.
    """
    graph = store_signed_bytes(graph)
    if job.precision is None:
        return graph
    graph = lower_precision(graph, job.precision, job.unlowered)
    _require_modes(graph, job.config)
    return graph


def unsupported_layers(parts: Partition) -> frozenset[int]:
    """Return, by output number, the layers in a changed number format that run on the host."""
    nodes = [run.node for run in parts.runs if isinstance(run, HostRun)]
    lowered = (node for node in nodes if getattr(node.attributes, "mode", None) in MODES)
    return frozenset(node.output for node in lowered)


def engine_only_problem(parts: Partition) -> str | None:
    """Return why an operator that the host cannot run is on the host; None if there is none."""
    for run in parts.runs:
        if isinstance(run, HostRun) and run.node.op is Op.MATRIX_PRODUCT:
            return f"{run.node} must run on the engine: {run.reason}"
    return None


def _require_modes(graph: Graph, config: Config) -> None:
    """Raise `CompileError` if a layer's mode (number format) is not in the configuration."""
    modes = {getattr(node.attributes, "mode", None) for node in graph.nodes}
    for mode in [mode for mode in MODES if mode in modes - set(config.mac_modes)]:
        raise CompileError(
            f"a precision must be one the configuration is built with "
            f"({', '.join(config.mac_modes)}), not {mode}",
            hint=f"add the mode to the engine: --config {config_name(config) or 'PRESET'}+{mode}",
        )
