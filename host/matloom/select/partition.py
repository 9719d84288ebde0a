"""Partitions a graph into engine runs and host operators, in execution order."""

from collections.abc import Mapping
from dataclasses import dataclass

from matloom.arch.machine import Machine
from matloom.ir.graph import RESHAPES, Graph, Node, Op
from matloom.kernels.reference import choose
from matloom.select.operators import NotOnEngine, stages_of
from matloom.select.stage import Stage


@dataclass(frozen=True, kw_only=True)
class EngineRun:
    """Consecutive operators that the engine runs as one command buffer, and their stages.

    `consumed` and `produced` are the tensor numbers of what the host passes in and gets back.
    """

    nodes: tuple[Node, ...]
    stages: tuple[tuple[Stage, ...], ...]
    consumed: tuple[int, ...]
    produced: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class HostRun:
    """One operator that the host runs, with the reason why the engine does not."""

    node: Node
    reason: str


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Runs of the engine and of the host in execution order, and the tensors that share bytes.

    `roots` maps the number of a tensor to that of its root, the tensor whose bytes it shares.
    """

    runs: tuple[EngineRun | HostRun, ...]
    roots: dict[int, int]


def _reshape_roots(graph: Graph) -> dict[int, int]:
    """Return, for each tensor number, the tensor of which RESHAPEs make it, or itself."""
    roots = {number: number for number in graph.tensors}
    for node in graph.nodes:
        if node.op in RESHAPES:
            roots[node.output] = roots[node.inputs[0]]
    return roots


def _computed_inputs(graph: Graph, node: Node) -> list[int]:
    """Return the tensor numbers of an operator's inputs that are not constant."""
    return [number for number in node.inputs if graph.tensors[number].data is None]


def _execution_groups(
    graph: Graph, roots: dict[int, int], stages: dict[int, tuple[Stage, ...]]
) -> list[tuple[bool, list[Node]]]:
    """Return the nodes in execution order, in groups that the engine (True) or the host runs.

    The engine runs the nodes in `stages`, a mapping by node identity; `roots` maps tensors to those
    whose bytes they share. Engine runs are as long as data dependencies allow.
    """
    ready = {roots[number] for number in graph.entering}
    ready.update(number for number, tensor in graph.tensors.items() if tensor.data is not None)
    waiting = [node for node in graph.nodes if node.op not in RESHAPES]
    groups: list[tuple[bool, list[Node]]] = []
    on_engine = True
    while waiting:
        taken, rest = [], []
        for node in waiting:
            inputs = {roots[number] for number in node.inputs}
            if (id(node) in stages) == on_engine and inputs <= ready:
                ready.update(node.outputs)
                taken.append(node)
            else:
                rest.append(node)
        if taken:
            groups.append((on_engine, taken))
        waiting, on_engine = rest, not on_engine
    return groups


def _host_tensors(graph: Graph, stages: dict[int, tuple[Stage, ...]]) -> set[int]:
    """Return the tensor numbers of inputs of host operators, and of all results of the network."""
    wanted = set(graph.leaving)
    for node in graph.nodes:
        if node.op not in RESHAPES and id(node) not in stages:
            wanted.update(_computed_inputs(graph, node))
    return wanted


def _stages_and_reasons(
    graph: Graph, machine: Machine, names: Mapping[int, str], refused: Mapping[int, str]
) -> tuple[dict[int, tuple[Stage, ...]], dict[int, str]]:
    """Return the stages of each node that the engine can run, and the reason for each other node.

    Both are by node identity.
    """
    stages: dict[int, tuple[Stage, ...]] = {}
    opaque = [node for node in graph.nodes if node.op is Op.REFERENCE]
    reasons = dict(zip(map(id, opaque), map(str, choose(graph, opaque)), strict=True))
    for node in graph.nodes:
        if node.op in RESHAPES:
            continue
        if id(node) in reasons:
            continue
        if node.index in refused:
            reasons[id(node)] = refused[node.index]
        else:
            try:
                stages[id(node)] = stages_of(node, graph, names, machine)
            except NotOnEngine as unsupported:
                reasons[id(node)] = str(unsupported)
    return stages, reasons


def partition(
    graph: Graph,
    machine: Machine,
    names: Mapping[int, str],
    refused: Mapping[int, str] | None = None,
) -> Partition:
    """Divide a graph into runs of the engine and of the host; `names` are unique tensor names.

    `refused` gives reasons to leave operators to the host, by their index in the model file. A
    tensor leaves the engine under each name and shape that the host uses, or, if a later engine run
    reads it, under the name of its root.
    """
    roots = _reshape_roots(graph)
    shared = {number: names[root] for number, root in roots.items()}
    stages, reasons = _stages_and_reasons(graph, machine, shared, refused or {})
    groups = _execution_groups(graph, roots, stages)
    wanted = _host_tensors(graph, stages)
    for on_engine, nodes in groups:
        if on_engine:
            produced = {number for node in nodes for number in node.outputs}
            for node in nodes:
                wanted.update(
                    roots[number]
                    for number in _computed_inputs(graph, node)
                    if roots[number] not in produced
                )
    runs: list[EngineRun | HostRun] = []
    on_host = set(graph.entering)
    on_host.update(number for number, tensor in graph.tensors.items() if tensor.data is not None)
    for on_engine, nodes in groups:
        if on_engine:
            run = _engine_run(graph, roots, stages, wanted, nodes)
            on_host.update(run.produced)
            runs.append(run)
            continue
        for node in nodes:
            runs.extend(_reshape_runs(graph, roots, on_host, _computed_inputs(graph, node)))
            on_host.update(node.outputs)
            runs.append(HostRun(node=node, reason=reasons[id(node)]))
    runs.extend(_reshape_runs(graph, roots, on_host, list(graph.leaving)))
    return Partition(runs=tuple(runs), roots=roots)


def _engine_run(
    graph: Graph,
    roots: dict[int, int],
    stages: dict[int, tuple[Stage, ...]],
    host_tensors: set[int],
    nodes: list[Node],
) -> EngineRun:
    """Return an engine run of `nodes`, with the tensors that it reads, and leaves to others."""
    produced = {number for node in nodes for number in node.outputs}
    consumed = [
        roots[number]
        for node in nodes
        for number in _computed_inputs(graph, node)
        if roots[number] not in produced
    ]
    return EngineRun(
        nodes=tuple(nodes),
        stages=tuple(stages[id(node)] for node in nodes),
        consumed=tuple(dict.fromkeys(consumed)),
        produced=tuple(number for number in sorted(host_tensors) if roots[number] in produced),
    )


def _reshape_runs(
    graph: Graph, roots: dict[int, int], on_host: set[int], needed: list[int]
) -> list[HostRun]:
    """Return host runs that make `needed` tensors by reshaping, and add these to `on_host`.

    Tensors that are in `on_host` already need none.
    """
    runs = []
    for number in needed:
        if number not in on_host:
            node = next(node for node in graph.nodes if number in node.outputs)
            inner = Node(
                op=Op.RESHAPE, inputs=(roots[number],), outputs=(number,), index=node.index
            )
            runs.append(HostRun(node=inner, reason="another shape for the host"))
            on_host.add(number)
    return runs
