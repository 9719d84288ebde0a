"""Gives loops images with channels last, so that no iteration transposes them."""

from collections.abc import Iterator, Sequence
from typing import Any

from matloom.frontend.onnx.bodies import body_of, is_layered_loop, outer_values
from matloom.frontend.onnx.bytewise import ELEMENTWISE
from matloom.frontend.onnx.shapes import infer_shapes
from matloom.kernels.onnx_model import subgraphs

#: Operators on images of quantised integers, with channels first.
_IMAGES = frozenset({"MaxPool", "QLinearAveragePool", "QLinearConv", "QLinearGlobalAveragePool"})
#: Operators that work in any order of axes, as long as operands and results have the same one.
_ELEMENTWISE = ELEMENTWISE | {"QLinearAdd", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid"}


def with_channels_last(model: Any) -> Any:
    """Return a model whose loops with quantised layers carry images with channels last.

    Each image is transposed once before its loop and, if the loop carries it, once after it. The
    transposes at the start and the end of the body cancel with those that its layers need.
    """
    import onnx

    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    changed.graph.ClearField("node")
    taken = {*_names(model.graph)}
    for node in model.graph.node:
        layered = is_layered_loop(node) and body_of(model, node) is not None
        changed.graph.node.extend(_Loop(model, node, taken).nodes() if layered else [node])
    return model if len(changed.graph.node) == len(model.graph.node) else infer_shapes(changed)


class _Loop:
    """A copy of a loop, and the transposes before and after it.

    New values get names that are not in `used_names`, and are added to it.
    """

    def __init__(self, model: Any, node: Any, used_names: set[str]) -> None:
        import onnx

        self._node = onnx.NodeProto()
        self._node.CopyFrom(node)
        (self._body,) = subgraphs(self._node)
        self._outer = outer_values(model, node)
        self._before: list[Any] = []
        self._after: list[Any] = []
        self._taken = used_names
        values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
        self._ranks = {each.name: len(each.type.tensor_type.shape.dim) for each in values}
        self._ranks |= {each.name: len(each.dims) for each in model.graph.initializer}

    def nodes(self) -> list[Any]:
        """Return the transposes before the loop, the loop, and the transposes after it."""
        images = _images(self._body)
        carried, begins, ends = self._node.input[2:], self._body.input[2:], self._body.output[1:]
        for at, (name, begin, end) in enumerate(zip(carried, begins, ends, strict=False)):
            if self._ranks[name] > 2 and images & {begin.name, end.name}:
                self._change_carried_value(at, *_orders(self._ranks[name]))
        nested = any(True for each in self._body.node for _ in subgraphs(each))
        for name in self._outer:
            if self._ranks[name] > 2 and name in images and not nested:
                self._change_outer_value(name, *_orders(self._ranks[name]))
        return [*self._before, self._node, *self._after]

    def _change_carried_value(
        self, index: int, to_last: Sequence[int], to_first: Sequence[int]
    ) -> None:
        """Change the carried value with this index to channels last.

        `to_last` is the order of axes that a transpose to channels last has, `to_first` that of its
        inverse.
        """
        begin, end, given = self._body.input[2 + index], self._body.output[1 + index], 2 + index
        self._node.input[given] = self._transpose(self._before, self._node.input[given], to_last)
        inside, begin.name = begin.name, self._unused_name(begin.name)
        self._transpose_at_start(begin.name, to_first, inside)
        end.name = self._transpose(self._body.node, end.name, to_last)
        for each in (begin, end):
            each.type.tensor_type.ClearField("shape")
        if self._node.output[index]:
            made, self._node.output[index] = (
                self._node.output[index],
                self._unused_name(self._node.output[index]),
            )
            self._after.append(_transpose(self._node.output[index], to_first, made))

    def _change_outer_value(
        self, name: str, to_last: Sequence[int], to_first: Sequence[int]
    ) -> None:
        """Change a value that the body reads from outside to channels last.

        `to_last` and `to_first` are as in `_change_carried_value`.
        """
        given, inside = self._transpose(self._before, name, to_last), self._unused_name(name)
        for each in self._body.node:
            each.input[:] = [inside if one == name else one for one in each.input]
        self._transpose_at_start(given, to_first, inside)

    def _transpose_at_start(self, name: str, order: Sequence[int], output: str) -> None:
        """Insert a transpose of the value `name`, with the result `output`, before all nodes."""
        nodes = [_transpose(name, order, output), *self._body.node]
        self._body.ClearField("node")
        self._body.node.extend(nodes)

    def _transpose(self, nodes: Any, name: str, order: Sequence[int]) -> str:
        """Append a transpose of a value to `nodes`; return the name of its result."""
        new_name = self._unused_name(name)
        nodes.append(_transpose(name, order, new_name))
        return new_name

    def _unused_name(self, name: str) -> str:
        """Return an unused name for the transposed value `name`."""
        name = f"{name} transposed"
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name


def _images(body: Any) -> set[str]:
    """Return the names of a body's values that are images.

    These are the inputs and outputs of operators on images, and all inputs and outputs of
    element-wise operators that read or make an image.
    """
    found = {
        name
        for node in body.node
        if node.op_type in _IMAGES
        for name in (node.input[0], node.output[0])
    }
    before = -1
    while before < len(found):
        before = len(found)
        for node in body.node:
            ends = {*node.input, *node.output}
            if node.op_type in _ELEMENTWISE and ends & found:
                found |= ends
    return found


def _orders(rank: int) -> tuple[list[int], list[int]]:
    """Return the permutation of axes from channels first to channels last, and its inverse."""
    return [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]


def _transpose(name: str, order: Sequence[int], output: str) -> Any:
    """Return an ONNX Transpose node of tensor `name`."""
    import onnx

    return onnx.helper.make_node("Transpose", [name], [output], perm=list(order))


def _names(graph: Any) -> Iterator[str]:
    """Yield the names of the values of a graph, including those of its branches and bodies."""
    yield from (each.name for each in (*graph.input, *graph.initializer))
    for node in graph.node:
        yield from node.output
        for inner in subgraphs(node):
            yield from _names(inner)
