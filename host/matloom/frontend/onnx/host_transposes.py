"""Moves transposes between the engine and ONNX Runtime to ONNX Runtime.

Operators on ONNX Runtime keep the file's order of axes; the engine often has channels last. A
transpose between them costs few cycles in a host step, but many on the engine.
"""

from dataclasses import replace

from matloom.frontend.onnx.host_parts import OnnxPart
from matloom.frontend.onnx.quantised import Model
from matloom.frontend.onnx.values import Values, in_file_order
from matloom.frontend.opaque import OpaqueOperator
from matloom.ir.attributes import Transpose
from matloom.ir.graph import Node, Op, Tensor

_REASON = "stands between ONNX Runtime and the engine, which has its axes in another order"
#: Operators that convert a tensor of the file to the same values as int8, or back.
_COPIES = (Op.QUANTIZE, Op.RESHAPE)


def transpose_on_host(values: Values, model: Model, outputs: list[int]) -> None:
    """Let ONNX Runtime run the transposes next to its operators, instead of the engine.

    Changes `values` in place. `outputs` are the tensor numbers of the network's outputs, before
    which transposes stay on the engine.
    """
    moved = _HostTransposes(values, model)
    for item in list(values.operators):
        if isinstance(item, Node) and item.op is Op.TRANSPOSE:
            moved.move_before_copy(item)
        elif isinstance(item, Node) and item.op in _COPIES and item.outputs[0] not in outputs:
            moved.move_after_copy(item)


class _HostTransposes:
    """Moves transposes of a graph under construction to ONNX Runtime."""

    def __init__(self, values: Values, model: Model) -> None:
        self.values, self.model = values, model
        self.names = {number: name for name, number in values.numbers.items()}
        self.part = OnnxPart(values=values, model=model, reason=_REASON)
        self.producers = {number: item for item in values.operators for number in item.outputs}
        self.readers: dict[int, list[Node | OpaqueOperator]] = {}
        for item in values.operators:
            for number in item.inputs:
                self.readers.setdefault(number, []).append(item)

    def move_before_copy(self, transpose: Node) -> None:
        """Move a transpose to ONNX Runtime if it reads a result of ONNX Runtime, copied to int8.

        Afterwards, the transpose precedes the copy.
        """
        copy = self.producers.get(transpose.inputs[0])
        if not isinstance(copy, Node) or copy.op not in _COPIES:
            return
        (source,) = copy.inputs
        producer = self.producers.get(source)
        if not isinstance(producer, OpaqueOperator) or producer.has_own_node:
            return
        tensor = self.values.tensors[source]
        last = self._transpose(self.names[source], tensor, transpose)
        self.values.operators.insert(self._index_of(producer) + 1, last)
        after = replace(copy, inputs=last.outputs, outputs=transpose.outputs, index=transpose.index)
        self.values.operators[self._index_of(transpose)] = after

    def move_after_copy(self, copy: Node) -> None:
        """Move the transpose before `copy`, if any, to ONNX Runtime if only that reads the copy.

        `copy` converts int8 values of the engine to the file's type.
        """
        transpose, (number,) = self.producers.get(copy.inputs[0]), copy.outputs
        readers = [
            item
            for item in self.readers.get(number, [])
            if isinstance(item, OpaqueOperator)
            and not item.has_own_node
            and self._reads(item, number)
        ]
        if not isinstance(transpose, Node) or transpose.op is not Op.TRANSPOSE or not readers:
            return
        if len(readers) < len(self.readers[number]):
            return
        name, tensor = self.names[number], self.values.tensors[number]
        permutation = transpose.attributes_as(Transpose).permutation
        order = [permutation.index(axis) for axis in range(len(permutation))]
        shape = tuple(tensor.shape[axis] for axis in order)
        held = self.part.append("Transpose", [name], shape, tensor.dtype, perm=order)
        inner = self.values.provide(held)
        self.values.known[held].held[in_file_order(len(order))] = transpose.inputs[0]
        self.values.tensors[inner] = replace(tensor, name=f"{name} transposed", shape=shape)
        back = self._transpose(held, tensor, transpose)
        self.values.operators[self._index_of(copy)] = replace(
            copy, inputs=transpose.inputs, outputs=(inner,)
        )
        self.values.operators.insert(min(map(self._index_of, readers)), back)
        for item in readers:
            self._rewire(item, number, back.outputs[0])

    def _rewire(self, item: OpaqueOperator, number: int, replacement: int) -> None:
        """Let an operator on ONNX Runtime read tensor `replacement` instead of tensor `number`."""
        names = {at: name for name, at in self.values.numbers.items()}
        node = self.model.proto.graph.node[item.index]
        node.input[:] = [
            names[replacement] if each == names[number] else each for each in node.input
        ]
        at = self._index_of(item)
        inputs = [
            replacement if each == number else each for each in self.values.operators[at].inputs
        ]
        self.values.operators[at] = replace(item, inputs=tuple(inputs))

    def _reads(self, item: OpaqueOperator, number: int) -> bool:
        """Return whether an operator reads a tensor as its own input, not only within its body."""
        return self.names.get(number) in self.model.proto.graph.node[item.index].input

    def _transpose(self, name: str, tensor: Tensor, transpose: Node) -> OpaqueOperator:
        """Return an operator that transposes the value `name` on ONNX Runtime as `transpose` does.

        The caller must insert it in `values.operators`.
        """
        axes = transpose.attributes_as(Transpose).permutation
        given = self.values.known[name].shape
        shape = tuple(given[axis] for axis in axes)
        result = self.part.run("Transpose", [name], shape, tensor.dtype, perm=list(axes))
        self.values.known[result].held[in_file_order(len(axes))] = transpose.outputs[0]
        made = self.values.operators.pop()
        assert isinstance(made, OpaqueOperator)
        transposed = replace(tensor, name=f"{tensor.name} transposed", shape=shape)
        self.values.tensors[made.outputs[0]] = transposed
        return made

    def _index_of(self, item: Node | OpaqueOperator) -> int:
        """Return the index in `values.operators` of the item with the first output of `item`."""
        places = enumerate(self.values.operators)
        return next(at for at, each in places if each.outputs[:1] == item.outputs[:1])
