"""Finds functions of a byte that differ by channel, which a program stores as lookup tables."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from matloom.arch.config import Config
from matloom.ir.graph import Graph, Node, Op
from matloom.kernels.kernels import kernel_of
from matloom.meaning.terms import Integers, look_up

_ELEMENTWISE = (
    *(Op.ADD, Op.SUB, Op.MUL, Op.MAXIMUM, Op.MINIMUM, Op.PRELU, Op.LEAKY_RELU),
    *(Op.RELU, Op.RELU6, Op.QUANTIZE, Op.LOGISTIC, Op.TANH, Op.HARD_SWISH, Op.LOOKUP),
)

#: Maximum number of tensors to try as the start of a function, the earliest first.
_MAX_STARTS = 8


@dataclass(frozen=True, kw_only=True)
class ChannelTables:
    """Tensors that are functions of other tensors, byte by byte and channel by channel.

    Members
    -------
    image:
        The program's image. An operator is taken for a lookup if the image contains its tables.
    functions:
        For each tensor, the tensors that it is a function of, each with the table of the function:
        int8 values (channels, 256).
    """

    graph: Graph
    config: Config
    image: bytes
    functions: dict[int, list[tuple[int, Integers]]] = field(default_factory=dict)

    def lookup(self, node: Node) -> tuple[int, Integers] | None:
        """Return the tensor that a node looks up by channel, and the tables (channels, 256).

        Return None if the program does not compute the node in this way. The functions found are
        recorded in `functions`.
        """
        if not self.config.has_channel_tables or not self._is_elementwise(node):
            return None
        found = self.functions[node.output] = list(self._functions(node))[:_MAX_STARTS]
        return next((each for each in found if self._is_stored(each[1])), None)

    def result(self, table: Integers, source: Integers) -> Integers:
        """Return the bytes, flat, that a lookup by `table` (channels, 256) reads for `source`."""
        return look_up(table, source.reshape(-1, len(table))).reshape(-1)

    def _is_elementwise(self, node: Node) -> bool:
        """Return whether each int8 output depends on inputs at its position, and on constants.

        Constants may differ by channel only.
        """
        output, known = self.graph.tensors[node.outputs[0]], []
        for number in node.inputs:
            tensor = self.graph.tensors[number]
            shapes = [output.shape] if tensor.data is None else [(), (1,), output.shape[-1:]]
            shape = tensor.shape if tensor.data is None else tensor.shape[-1:]
            flat = tensor.data is None or tensor.size in (1, *output.shape[-1:])
            known.append(tensor.dtype == "int8" and shape in shapes and flat)
        return node.op in _ELEMENTWISE and all(known) and bool(output.shape)

    def _functions(self, node: Node) -> Iterator[tuple[int, Integers]]:
        """Yield each tensor of which a node's result is a bytewise function, with its tables."""
        channels = self.graph.tensors[node.output].shape[-1]
        every = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.int64)
        computed = [number for number in node.inputs if self.graph.tensors[number].data is None]
        known = {
            number: dict([*self.functions.get(number, ()), (number, np.tile(every, (channels, 1)))])
            for number in computed
        }
        for source in known[computed[0]] if computed else ():
            if all(source in each for each in known.values()):
                yield source, self._function_tables(node, {n: known[n][source] for n in computed})

    def _function_tables(self, node: Node, tables: dict[int, Integers]) -> Integers:
        """Return the results (channels, 256) of a node if its inputs are functions of one tensor.

        `tables` are the functions of the inputs that are not constant, by tensor number.
        """
        inputs = []
        for number in node.inputs:
            data = self.graph.tensors[number].data
            inputs.append(tables[number].T.astype(np.int8) if data is None else data.reshape(1, -1))
        results = np.asarray(kernel_of(node, inputs)(self.graph, node, inputs))
        return np.ascontiguousarray(results.T).astype(np.int64)

    def _is_stored(self, table: Integers) -> bool:
        """Return whether the program's image contains the tables of all blocks of channels.

        The tables of a function that is the same for all channels are not in the image; if it is
        constant, another constant may have the same bytes.
        """
        columns, channels = self.config.columns, len(table)
        if (table == table[0]).all():
            return False
        if channels % columns and columns % channels:
            return False
        rows = np.tile(table, (max(1, columns // channels), 1)).astype(np.int8)
        blocks = rows.reshape(-1, columns * 256)
        return all(block.tobytes() in self.image for block in blocks)
