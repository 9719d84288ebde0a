"""Expected contents of a network's tensors, from the operators' definitions on probes.

Probes are numbers that stand for unknown bytes.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from matloom.arch.config import Config
from matloom.ir.graph import RESHAPES, Graph, Node, Op
from matloom.meaning import elementwise, float_layers, layers, moves
from matloom.meaning.channels import ChannelTables
from matloom.meaning.context import NodeInputs, Unproven
from matloom.meaning.terms import Integers, fresh_probes, split_words

#: Definition of an operator: returns the bytes of each output of a node, in any shape.
_Rule = Callable[[NodeInputs], list[Integers]]

_RULES: dict[Op, _Rule] = {
    Op.ADD: elementwise.add,
    Op.AVERAGE_POOL_2D: layers.average_pool,
    Op.BATCH_MATMUL: layers.batch_matmul,
    Op.CONCATENATION: moves.concatenation,
    Op.CONV_2D: layers.convolution,
    Op.DEPTHWISE_CONV_2D: layers.depthwise,
    Op.FULLY_CONNECTED: layers.dense,
    Op.HARD_SWISH: elementwise.table,
    Op.LEAKY_RELU: elementwise.leaky_relu,
    Op.LOGISTIC: elementwise.sigmoid,
    Op.LOOKUP: elementwise.table,
    Op.MATRIX_PRODUCT: float_layers.matrix_product,
    Op.MAXIMUM: elementwise.limit,
    Op.MAX_POOL_2D: layers.max_pool,
    Op.MEAN: layers.reduction,
    Op.MINIMUM: elementwise.limit,
    Op.MUL: elementwise.multiply,
    Op.PACK: moves.pack,
    Op.PAD: moves.pad,
    Op.PADV2: moves.pad,
    Op.PRELU: elementwise.prelu,
    Op.QUANTIZE: elementwise.rescale,
    Op.RELU: elementwise.rescale,
    Op.RELU6: elementwise.limit,
    Op.RESIZE_NEAREST_NEIGHBOR: moves.resize,
    Op.SLICE: moves.slice_tensor,
    Op.SOFTMAX: elementwise.softmax,
    Op.SPLIT: moves.split,
    Op.SPLIT_V: moves.split,
    Op.SQUARED_DIFFERENCE: elementwise.squared_difference,
    Op.STRIDED_SLICE: moves.slice_tensor,
    Op.SUB: elementwise.add,
    Op.SUM: layers.reduction,
    Op.TANH: elementwise.sigmoid,
    Op.TRANSPOSE: moves.transpose,
    Op.TRANSPOSE_CONV: layers.transposed_convolution,
    Op.UNPACK: moves.unpack,
}


@dataclass
class Expected:
    """Expected bytes of every tensor of a network, flat, and intermediate bytes.

    Members
    -------
    bytes_of:
        Bytes by tensor number; None if no definition exists for the operator that computes the
        tensor, or for one before it.
    made:
        Intermediate bytes within operators, each with a description.
    nodes:
        Nodes that run on the engine.
    missing:
        Reasons why nodes have no definition, by `Node.index`.
    joined:
        Whether any lookup was fused with the lookup whose result it reads.
    """

    bytes_of: dict[int, Integers | None] = field(default_factory=dict)
    made: list[tuple[Integers, str]] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    missing: dict[int, str] = field(default_factory=dict)
    joined: bool = False


def readings(
    graph: Graph, config: Config, on_host: Collection[int], image: bytes
) -> Iterator[Expected]:
    """Yield the expected contents of all tensors, in each way that a program may compute them.

    The likeliest comes first: a program may also perform two lookups that one fused table could
    replace.
    """
    first = _expected_bytes(graph, config, on_host, image=image)
    yield first
    if first.joined:
        yield _expected_bytes(graph, config, on_host, joins=False, image=image)


def _expected_bytes(
    graph: Graph,
    config: Config,
    on_host: Collection[int],
    *,
    joins: bool = True,
    image: bytes = b"",
) -> Expected:
    """Return the expected contents of all tensors of a network.

    Outputs of host operators are new probes (numbers for unknown bytes), like inputs.

    Parameters
    ----------
    on_host:
        Numbers of the tensors that host operators compute.
    joins:
        Whether to fuse two lookups if only the second reads the result of the first.
    image:
        The program's image, which contains the tables of lookups that differ by channel.
    """
    channels = ChannelTables(graph=graph, config=config, image=image)
    network = _Network(graph=graph, config=config, joins=joins, channels=channels)
    known = network.expected.bytes_of
    for number, tensor in graph.tensors.items():
        if tensor.data is not None:
            raw = np.frombuffer(np.ascontiguousarray(tensor.data).tobytes(), np.int8)
            known[number] = raw.astype(np.int64)
    for number in graph.entering:
        known[number] = _outside_probes(graph, number)
    for node in graph.nodes:
        if node.op in RESHAPES:
            known[node.output] = known[node.inputs[0]]
        elif node.outputs[0] in on_host:
            known.update((number, _outside_probes(graph, number)) for number in node.outputs)
        else:
            network.expected.nodes.append(node)
            known.update(zip(node.outputs, network.outputs(node), strict=True))
    return network.expected


def _outside_probes(graph: Graph, number: int) -> Integers:
    """Return new probes (numbers for unknown bytes) of a tensor that the engine does not compute.

    The two bytes of an int16 element are split from a probe of the element.
    """
    tensor = graph.tensors[number]
    if tensor.dtype == "int16":
        parts = split_words(fresh_probes(tensor.size, number, words=True))
        return np.stack(parts, axis=-1).reshape(-1)
    return fresh_probes(tensor.size_bytes, number)


@dataclass(frozen=True, kw_only=True)
class _Network:
    """A graph whose nodes are evaluated one after another.

    Members
    -------
    lookup:
        Table and input bytes of each lookup, by the number of the tensor that it computes.
    """

    graph: Graph
    config: Config
    joins: bool
    channels: ChannelTables
    expected: Expected = field(default_factory=Expected)
    lookup: dict[int, tuple[Integers, Integers]] = field(default_factory=dict)

    def outputs(self, node: Node) -> list[Integers] | list[None]:
        """Return the bytes of a node's outputs, flat; None for each output if they are unknown."""
        lookup = self.channels.lookup(node)
        if lookup is not None:
            source, table = lookup
            known = self.expected.bytes_of[source]
            return [None] if known is None else [self.channels.result(table, known)]
        input_bytes = [self.expected.bytes_of[number] for number in node.inputs]
        raw = tuple(item for item in input_bytes if item is not None)
        if len(raw) < len(input_bytes):
            return [None] * len(node.outputs)
        root = self._shared_root(node.inputs[0])
        context = NodeInputs(
            graph=self.graph,
            node=node,
            config=self.config,
            raw=raw,
            lookup=self.lookup.get(root) if self._has_single_reader(root) else None,
            made=self.expected.made,
        )
        if elementwise.is_table(context):
            self.lookup[node.output] = elementwise.table_and_source(context)
            self.expected.joined |= context.lookup is not None
        try:
            if node.op not in _RULES:
                raise Unproven(f"the check has no rule for {node.op}")
            return [np.asarray(item).reshape(-1) for item in _RULES[node.op](context)]
        except Unproven as reason:
            self.expected.missing[node.index] = str(reason)
            return [None] * len(node.outputs)

    def _shared_root(self, number: int) -> int:
        """Return the tensor that reshapes turn into tensor `number`, or `number` if none do."""
        at = self.graph.producers.get(number)
        while at is not None and self.graph.nodes[at].op in RESHAPES:
            number = self.graph.nodes[at].inputs[0]
            at = self.graph.producers.get(number)
        return number

    def _has_single_reader(self, root: int) -> bool:
        """Return whether only one node reads the results of the lookup that computes `root`.

        Return False if they are also a network output, if `joins` is not set, or if no lookup
        computes the tensor.
        """
        if not self.joins or root not in self.lookup:
            return False
        same = [number for number in self.graph.tensors if self._shared_root(number) == root]
        readers = [
            at
            for number in same
            for at in self.graph.consumers[number]
            if self.graph.nodes[at].op not in RESHAPES
        ]
        outside = set(self.graph.outputs).intersection(same)
        return len(readers) == 1 and not outside
