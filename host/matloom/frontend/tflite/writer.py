"""Collects the nodes that replace one operator of a file."""

from dataclasses import replace

from matloom.frontend.tflite.additions import Additions, FileItem
from matloom.ir.attributes import Attributes
from matloom.ir.graph import Array, Node, Op, Quantisation, Tensor


class NodeWriter:
    """The nodes that replace one operator; their new tensors are named after the operator's output.

    Members
    -------
    nodes:
        The nodes so far, in order.
    """

    def __init__(self, item: FileItem, additions: Additions) -> None:
        self.nodes: list[Node] = []
        self._index, self._add = item.index, additions.add
        self._name = additions.known[item.outputs[0]].name

    def node(
        self,
        op: Op,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        attributes: Attributes | None = None,
    ) -> None:
        """Add a node whose tensors exist already."""
        node = Node(
            op=op,
            inputs=inputs,
            outputs=outputs,
            attributes=attributes or Attributes(),
            index=self._index,
        )
        self.nodes.append(node)

    def add(
        self, op: Op, inputs: tuple[int, ...], output: Tensor, attributes: Attributes | None = None
    ) -> int:
        """Add a node with a new output tensor; return the tensor's number."""
        number = self.tensor(output)
        self.node(op, inputs, (number,), attributes)
        return number

    def constant(self, name: str, data: Array, quantisation: Quantisation | None = None) -> int:
        """Add a constant tensor; return its number."""
        return self.tensor(Tensor.constant(name, data, quantisation))

    def tensor(self, tensor: Tensor) -> int:
        """Add a tensor, with the operator's output name before its own name; return its number."""
        return self._add(replace(tensor, name=f"{self._name} {tensor.name}"))


def computed_like(tensor: Tensor, name: str, shape: tuple[int, ...] | None = None) -> Tensor:
    """Return a copy of `tensor` without data, with another name and, if given, another shape."""
    return replace(tensor, name=name, shape=tensor.shape if shape is None else shape, data=None)
