"""Values of a float ONNX network as tensors of a graph, in the axis orders that operators need."""

from collections.abc import Mapping, Sequence

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.move_options import MOST_JOINED
from matloom.frontend.onnx.values import LAST, Order, in_file_order, kept_axes
from matloom.ir.attributes import Arithmetic, Attributes, Axis, Transpose
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Array, Op

#: Types of indices.
INDICES = ("int32", "int64")


class FloatValues:
    """The graph under construction, and the tensors that hold each value of the file.

    Members
    -------
    builder:
        The graph.
    constants:
        Constant values by name, in the file's order of axes.
    held:
        Tensor numbers of each computed value, by name and axis order.
    expanded:
        Shapes, by name, of values that Expand repeats along axes; their tensors lack the
        repetitions.
    flattened:
        For a value with the elements of an image in another shape, the name of the image.
    """

    def __init__(self, name: str, constants: dict[str, Array]) -> None:
        self.builder = GraphBuilder(name)
        self.constants = constants
        self.held: dict[str, dict[Order, int]] = {}
        self.expanded: dict[str, tuple[int, ...]] = {}
        self.flattened: dict[str, str] = {}

    def is_constant(self, name: str) -> bool:
        """Return whether a value is constant."""
        return name in self.constants

    def is_integer(self, name: str) -> bool:
        """Return whether a value is a computed tensor of indices, not of floats."""
        if name not in self.held:
            return False
        return any(self.builder.tensors[at].dtype in INDICES for at in self.held[name].values())

    def constant(self, name: str) -> Array:
        """Return the value of a constant; raise `Unsupported` if the value is computed."""
        if name not in self.constants:
            raise Unsupported(f"computes {name!r}, which must be a constant")
        return self.constants[name]

    def option(self, node: FileNode, name: str, index: int, default: object = None) -> object:
        """Return a parameter of an operator: an attribute, or the constant input at `index`."""
        return node.parameter(name, index, self.constant, default)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value in the file, with the repetitions of Expand."""
        if name in self.constants:
            return tuple(self.constants[name].shape)
        return self.expanded.get(name) or self.held_shape(name)

    def held_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a computed value in the file, without the repetitions of Expand."""
        order, number = next(iter(self.held[name].items()))
        shape = self.builder.tensors[number].shape
        return tuple(shape[order.index(axis)] for axis in range(len(order)))

    def order_of(self, names: Sequence[str]) -> Order:
        """Return the axis order for an element-wise operator on these values.

        It is the order of the first value of the highest rank that exists in another order than the
        file's, such as channels last; if there is none, the file's.
        """
        rank = max(len(self.shape(name)) for name in names)
        for name in names:
            if name not in self.constants and len(self.shape(name)) == rank:
                others = [order for order in self.held[name] if order != in_file_order(rank)]
                if others:
                    return others[0]
        return in_file_order(rank)

    def tensor_in_order(self, name: str, order: Order) -> int:
        """Return the number of a tensor that holds a value with its axes in an order.

        If `order` has more axes than the value, the value gets axes of length one in front, as in
        NumPy's broadcasting. The repetitions of Expand are included.
        """
        shape = self.shape(name)
        full = (1,) * (len(order) - len(shape)) + shape
        if name in self.constants:
            return self.constant_in_order(self.constants[name], order, name)
        if len(full) != len(shape):
            number = self.tensor_in_order(name, in_file_order(len(shape)))
            number = self.builder.add(Op.RESHAPE, [number], shape=full)
            return self._reorder(number, in_file_order(len(order)), order)
        held = self.tensors_of(name)
        if order not in held:
            before, number = next(iter(held.items()))
            self.hold(name, order, self._reorder(number, before, order))
        return self.held[name][order]

    def tensors_of(self, name: str) -> Mapping[Order, int]:
        """Return the numbers of the tensors that hold a computed value, by axis order.

        The repetitions of Expand are included.
        """
        self._repeat(name)
        return self.held[name]

    def broadcast_shape(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the shape that values have when an element-wise operator broadcasts them."""
        return np.broadcast_shapes(*(self.shape(name) for name in names))

    def operands(self, names: Sequence[str], order: Order) -> list[int]:
        """Return the tensor numbers of an operator's operands with their axes in an order.

        The operator must broadcast: the repetitions of Expand are left out if another operand has
        the full shape.
        """
        shape = self.broadcast_shape(names)
        whole = any(self.shape(name) == shape for name in names if name not in self.expanded)
        if not whole:
            return [self.tensor_in_order(name, order) for name in names]
        return [
            self._reorder(*self._with_leading_axes(name, len(order)), order)
            if name in self.expanded
            else self.tensor_in_order(name, order)
            for name in names
        ]

    def _with_leading_axes(self, name: str, rank: int) -> tuple[int, Order]:
        """Return the number of a tensor that holds a value with `rank` axes, and its axis order.

        Additional axes are in front and have length one. The repetitions of Expand are left out.
        """
        shape = self.held_shape(name)
        order, number = next(iter(self.held[name].items()))
        added = rank - len(shape)
        if added:
            number = self._reorder(number, order, in_file_order(len(shape)))
            number = self.builder.add(Op.RESHAPE, [number], shape=(1,) * added + shape)
            order = in_file_order(rank)
        return number, order

    def _repeat(self, name: str) -> None:
        """Repeat the elements of a value as its Expand demands, unless that has been done."""
        shape = self.expanded.pop(name, None)
        if shape is None:
            return
        number, order = self._with_leading_axes(name, len(shape))
        held = self.builder.tensors[number].shape
        axes = [at for at, axis in enumerate(order) if held[at] != shape[axis]]
        if len(axes) == 1 and shape[order[axes[0]]] <= MOST_JOINED:
            copies = [number] * shape[order[axes[0]]]
            number = self.add(Op.CONCATENATION, copies, Axis(axis=axes[0]), name=name)
        else:
            ones = self.constant_in_order(np.ones(shape, np.float32), order)
            number = self.add(Op.MUL, [number, ones], Arithmetic(), name=name)
        self.held[name] = {order: number}

    def constant_in_order(self, data: Array, order: Order, name: str = "") -> int:
        """Add a constant with its axes in an order; return its number.

        `data` has the file's order of axes; axes of length one are added in front.
        """
        full = data.reshape((1,) * (len(order) - data.ndim) + data.shape).transpose(order)
        return self.builder.constant(np.ascontiguousarray(full, np.float32), name=name)

    def in_file_order(self, name: str) -> int:
        """Return the number of a tensor that holds a value in the file's order of axes."""
        return self.tensor_in_order(name, in_file_order(len(self.shape(name))))

    def channels_last(self, name: str) -> int:
        """Return the number of a tensor that holds an image with channels last.

        Raises
        ------
        Unsupported
            The value does not have four axes.
        """
        if len(self.shape(name)) != len(LAST):
            raise Unsupported(f"has {name!r} of {len(self.shape(name))} dimensions, not four")
        return self.tensor_in_order(name, LAST)

    def hold(self, name: str, order: Order, number: int) -> None:
        """Record that tensor `number` holds the value `name` with its axes in an order."""
        self.held.setdefault(name, {})[order] = number

    def copy(self, name: str, new_name: str) -> None:
        """Give a computed value a second name."""
        self.held[new_name] = self.held[name]
        if name in self.flattened:
            self.flattened[new_name] = self.flattened[name]
        if name in self.expanded:
            self.expanded[new_name] = self.expanded[name]

    def add(
        self,
        op: Op,
        inputs: Sequence[int],
        attributes: Attributes | None = None,
        *,
        name: str = "",
        shape: tuple[int, ...] | None = None,
    ) -> int:
        """Add an operator; return the tensor number of its output, which is always float32."""
        return self.builder.add(op, inputs, attributes, name=name, shape=shape)

    def number(self, value: float) -> int:
        """Add a constant of one element; return its number."""
        return self.builder.constant(np.array([value], np.float32))

    def _reorder(self, number: int, old_order: Order, new_order: Order) -> int:
        """Return the number of a tensor with its axes in another order.

        It is made by a RESHAPE if no element moves, otherwise by a TRANSPOSE.
        """
        if old_order == new_order:
            return number
        tensor = self.builder.tensors[number]
        permutation = tuple(old_order.index(axis) for axis in new_order)
        shape = tuple(tensor.shape[axis] for axis in permutation)
        file = tuple(tensor.shape[old_order.index(axis)] for axis in range(len(old_order)))
        if kept_axes(old_order, file) == kept_axes(new_order, file):
            return self.add(Op.RESHAPE, [number], shape=shape)
        return self.add(Op.TRANSPOSE, [number], Transpose(permutation=permutation))
