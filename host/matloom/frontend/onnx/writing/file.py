"""An ONNX file under construction: names of values by axis order, constants and operators."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from matloom.frontend.onnx.inner_values import QUANTISED, REAL_OUTPUT
from matloom.frontend.onnx.values import Order, in_file_order, kept_axes
from matloom.ir.graph import Array, Graph, Tensor

#: Order of axes that gives an image of the graph channels first, as in ONNX.
FIRST = (0, 3, 1, 2)
#: Version of the operator set of ONNX, and of the file format (`ir_version`).
OPSET, FORMAT = 17, 8
#: Offset that turns int8 into uint8. On some processors ONNX Runtime computes products of int8 and
#: int8 in floats; on others, products of uint8 and int8 overflow 16 bits.
_UNSIGNED_OFFSET = 128


class OnnxFile:
    """Operators and constants of an ONNX file.

    Each tensor of the graph is a float value in the file. If it is quantised, the value passes
    through QuantizeLinear and DequantizeLinear. A value may exist with its axes in several orders.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._names: dict[int, dict[Order, str]] = {}
        self._used: set[str] = set()
        self._ends = {graph.tensors[number].name for number in (*graph.inputs, *graph.outputs)}

    def unique(self, name: str) -> str:
        """Return a name that the file does not use yet, and reserve it; `name` if possible."""
        base = name.split(";")[0] or "value"
        made, count = base, 1
        while made in self._used or made in self._ends:
            made, count = f"{base}_{count}", count + 1
        self._used.add(made)
        return made

    def constant(self, data: Array, name: str = "constant") -> str:
        """Add a constant; return its name."""
        from onnx import numpy_helper

        new_name = self.unique(name)
        self.constants.append(numpy_helper.from_array(np.asarray(data, order="C"), new_name))
        return new_name

    def node(self, op: str, inputs: Sequence[str], name: str = "", **attributes: Any) -> str:
        """Add an operator; return the name of its output, which is `name` unless that is empty."""
        import onnx

        new_name = name or self.unique(op.lower())
        label = f"{op}_{len(self.nodes)}"
        node = onnx.helper.make_node(op, inputs, [new_name], name=label, **attributes)
        self.nodes.append(node)
        return new_name

    def names_by_order(self, number: int) -> dict[Order, str]:
        """Return the names of a tensor's value, by axis order; callers may add names to it."""
        return self._names.setdefault(number, {})

    def order_of(self, numbers: Sequence[int]) -> Order:
        """Return the axis order for an element-wise operator on these tensors.

        It is that of the first tensor of the highest rank that only exists in another order than
        the graph's; if there is none, the graph's.
        """
        rank = max(len(self.graph.tensors[number].shape) for number in numbers)
        plain = in_file_order(rank)
        for number in numbers:
            held = self._names.get(number, {})
            if len(self.graph.tensors[number].shape) == rank and held and plain not in held:
                return next(iter(held))
        return plain

    def value(self, number: int, order: Order | None = None) -> str:
        """Return the name of a tensor's value with its axes in an order; None is the graph's order.

        Operators that reorder the axes are added if necessary. If `order` has more axes than the
        tensor, the tensor gets axes of length one in front.
        """
        tensor = self.graph.tensors[number]
        rank = len(tensor.shape)
        order = in_file_order(rank) if order is None else order
        if tensor.data is not None:
            return self._add_constant_value(tensor, order)
        if len(order) != rank:
            full = (1,) * (len(order) - rank) + tensor.shape
            shape = self.constant(np.array([full[axis] for axis in order], np.int64), "shape")
            name = self.node("Reshape", [self.value(number), shape])
            return self.requantise(tensor, name)
        held = self.names_by_order(number)
        if order not in held:
            before, name = next(iter(held.items()))
            if kept_axes(before, tensor.shape) == kept_axes(order, tensor.shape):
                sizes = [tensor.shape[axis] for axis in order]
                shape = self.constant(np.array(sizes, np.int64), "shape")
                moved = self.node("Reshape", [name, shape])
            else:
                moved = self.node("Transpose", [name], perm=[before.index(a) for a in order])
            held[order] = self.requantise(tensor, moved)
        return held[order]

    def record_output(self, number: int, order: Order, name: str) -> None:
        """Record the output `name` of an operator as the value of a tensor, after `requantise`.

        The operator that was added last gives the value the name of the tensor.
        """
        tensor = self.graph.tensors[number]
        if self.nodes and list(self.nodes[-1].output) == [name] and not self._is_recorded(name):
            # The network's output itself comes after DequantizeLinear.
            suffix = REAL_OUTPUT if tensor.name in self._ends else ""
            name = self.nodes[-1].output[0] = self.unique(tensor.name + suffix)
        self.names_by_order(number)[order] = self.requantise(tensor, name)

    def _is_recorded(self, name: str) -> bool:
        """Return whether the value `name` has been recorded as that of a tensor."""
        return any(name in held.values() for held in self._names.values())

    def requantise(self, tensor: Tensor, name: str) -> str:
        """Add QuantizeLinear and DequantizeLinear after a value; return the name of the result.

        If the tensor has no quantisation, `name` is returned.

        Raises
        ------
        ValueError
            The tensor has integers of 16 bits.
        """
        if tensor.quantisation is None:
            return name
        scale = self._add_scale_and_zero_point(tensor)
        integers = self.node("QuantizeLinear", [name, *scale], self.unique(name + QUANTISED))
        real = self.unique(f"{name}_dequantized")
        return self.node("DequantizeLinear", [integers, *scale], real)

    def _add_scale_and_zero_point(self, tensor: Tensor) -> list[str]:
        """Add the scale and the zero point of a tensor as uint8; return the names of both."""
        if tensor.dtype != "int8":
            raise ValueError(f"{tensor.name!r} is {tensor.dtype}, not int8")
        zero = np.array(tensor.zero_point + _UNSIGNED_OFFSET, np.uint8)
        scale = self.constant(np.array(tensor.scale, np.float32), "scale")
        return [scale, self.constant(zero, "zero_point")]

    def dequantise(self, data: Array, scales: Array, name: str, axis: int = 0) -> str:
        """Add a DequantizeLinear of constant integers; return the name of its output.

        `scales` is one scale, or one for each index along `axis`. Zero points are 0.
        """
        single = scales.size == 1
        scales = scales.reshape(() if single else -1).astype(np.float32)
        zero = np.zeros(scales.shape, data.dtype)
        if data.dtype == np.int8:
            data = (data.astype(np.int16) + _UNSIGNED_OFFSET).astype(np.uint8)
            zero = np.full(scales.shape, _UNSIGNED_OFFSET, np.uint8)
        operands = [
            self.constant(data, name),
            self.constant(scales, f"{name}_scale"),
            self.constant(zero, f"{name}_zero_point"),
        ]
        if single:
            return self.node("DequantizeLinear", operands)
        return self.node("DequantizeLinear", operands, axis=axis)

    def _add_constant_value(self, tensor: Tensor, order: Order) -> str:
        """Write a constant with its axes in an order, dequantised; return its name."""
        data = tensor.data
        assert data is not None
        full = data.reshape((1,) * (len(order) - data.ndim) + data.shape).transpose(order)
        if tensor.quantisation is None:
            return self.constant(full, tensor.name)
        data = (full.astype(np.int16) + _UNSIGNED_OFFSET).astype(np.uint8)
        return self.node(
            "DequantizeLinear",
            [self.constant(data, tensor.name), *self._add_scale_and_zero_point(tensor)],
        )
