"""The roofline of a network: the cycles of its slowest part, if that hid all others."""

from matloom.arch.config import Config
from matloom.ir.attributes import Reference
from matloom.ir.graph import Graph


def roofline(macs: int, graph: Graph, config: Config) -> int:
    """Return the fewest cycles in which an engine could run a network.

    The parts are the multipliers and each direction of the bus, with constants and inputs read
    once and outputs written once. Constants that only an interpreter on the host reads do not
    count.
    """
    nodes = (node for node in graph.nodes if not isinstance(node.attributes, Reference))
    used = {number for node in nodes for number in node.inputs}
    read = {number for number in used if graph.tensors[number].data is not None}
    read |= set(graph.entering)
    bytes_in = sum(graph.tensors[number].size_bytes for number in read)
    bytes_out = sum(graph.tensors[number].size_bytes for number in graph.leaving)
    parts = (macs / (config.rows * config.columns), bytes_in / config.bus_bytes)
    return round(max(*parts, bytes_out / config.bus_bytes))
