"""Pairs the tensors of a quantised network with those of its floating-point original."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from matloom.ir.graph import Array, Graph, Tensor, short_name
from matloom.ir.shapes import MATRIX_RANK

_LOWEST = {"int8": -128, "uint8": 0, "int16": -32768}


@dataclass(frozen=True, kw_only=True)
class Counterpart:
    """Tensor of another network that represents the same values.

    Members
    -------
    number:
        Its number in the other network.
    axes:
        Its axes, in the order of the axes of the tensor that it is compared with.
    """

    number: int
    axes: tuple[int, ...]

    def reorder(self, array: Array) -> Array:
        """Return the contents of the counterpart with its axes in the order of the tensor's."""
        return array.transpose(self.axes)


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Search for the counterparts of a network's tensors in another network.

    They have the same name, or the same short name if no other tensor has it, and the same shape
    except for the order of axes. Outputs are paired by position.

    Members
    -------
    float_names:
        Names of the float values that quantised values of `graph`'s file stand for, where they
        differ.
    clipped:
        Names of values of `other` that only a Relu or Clip reads, with the name of its result.
    """

    graph: Graph
    other: Graph
    float_names: Mapping[str, str] = field(default_factory=dict)
    clipped: Mapping[str, str] = field(default_factory=dict)

    def counterparts(self) -> dict[int, Counterpart]:
        """Return the counterpart of each computed tensor that has one, by tensor number."""
        computed = list(_computed_tensors(self.graph))
        found: dict[int, Counterpart] = {}
        paired: set[int] = set()
        for key in (str, short_name):
            twins: dict[str, list[int]] = {}
            for number in _computed_tensors(self.other):
                twins.setdefault(key(self.other.tensors[number].name), []).append(number)
            for number in computed:
                name = key(self.name_of(number))
                near = [
                    pair
                    for twin in twins.get(name, [])
                    if (pair := self._pair(number, twin)) is not None
                ]
                if number in found or len(near) != 1 or near[0].number in paired:
                    continue
                found[number] = near[0]
                # A value of an ONNX file may be in several tensors.
                paired.add(near[0].number)
        for number, twin in zip(self.graph.outputs, self.other.outputs, strict=False):
            pair = self._pair(number, twin)
            if pair is not None:
                found[number] = pair
        return {number: found[number] for number in computed if number in found}

    def missing_names(self, found: Mapping[int, Counterpart]) -> tuple[str, ...]:
        """Return the names of operators' first outputs without any counterpart in `found`."""
        graph, outside = self.graph, {self.other.tensors[at].name for at in self.other.inputs}
        matched = {self.name_of(number) for number in found} | outside
        first = [node.outputs[0] for node in graph.nodes]
        # In a graph with copies, other tensors hold a value of the file once more.
        values = [number for number in first if not graph.copies or number in graph.copies]
        missing = [number for number in values if self.name_of(number) not in matched]
        return tuple(graph.tensors[number].name for number in missing)

    def name_of(self, number: int) -> str:
        """Return the name that the counterpart of a tensor must have.

        If a tensor cannot represent negative numbers, quantisers leave out the Relu that follows,
        so the counterpart is the result of that Relu, unless another tensor has its name.
        """
        name = self._float_name(number)
        tensor, clipped = self.graph.tensors[number], self.clipped.get(name)
        if clipped is None or clipped in map(self._float_name, _computed_tensors(self.graph)):
            return name
        return clipped if _is_never_negative(tensor) else name

    def _float_name(self, number: int) -> str:
        """Return the name of the float value for which a tensor stands."""
        copy = self.graph.copies.get(number)
        name = self.graph.tensors[number].name if copy is None else copy.name
        return self.float_names.get(name, name)

    def _pair(self, number: int, twin: int) -> Counterpart | None:
        """Return a tensor of `other` as a counterpart; None if shapes or types differ."""
        tensor, other = self.graph.tensors[number], self.other.tensors[twin]
        if other.dtype == "float32" and tensor.dtype != "float32" and not tensor.quantisation:
            return None
        copy = self.graph.copies.get(number)
        if copy is not None:
            fits = _fits(other, copy.axes or _same_order(other), tensor)
            orders = [copy.axes or _same_order(other)] if fits else []
        else:
            orders = _fitting_orders(other, tensor)
        if not orders:
            return None
        return Counterpart(number=twin, axes=orders[-1 if self._has_channels_last else 0])

    @cached_property
    def _has_channels_last(self) -> bool:
        """Whether more tensors fit their namesakes with channels last than with the same axes.

        If all axes of a tensor have one length, the others decide on its order.
        """
        others = {
            self.other.tensors[n].name: self.other.tensors[n] for n in _computed_tensors(self.other)
        }
        votes = Counter[bool]()
        for number in _computed_tensors(self.graph):
            tensor, other = self.graph.tensors[number], others.get(self.name_of(number))
            orders = [] if other is None else _fitting_orders(other, tensor)
            if other is not None and len(orders) == 1 and len(other.shape) > MATRIX_RANK:
                votes[orders[0] != _same_order(other)] += 1
        return votes[True] > votes[False]


def _same_order(tensor: Tensor) -> tuple[int, ...]:
    """Return the axes of a tensor in their own order: 0, 1 and so on."""
    return tuple(range(len(tensor.shape)))


def _fitting_orders(other: Tensor, tensor: Tensor) -> list[tuple[int, ...]]:
    """Return the orders of the axes of `other` with which it has the shape of `tensor`.

    Of the same order and channels last, to which networks from ONNX files may be converted.
    """
    same = _same_order(other)
    orders = dict.fromkeys((same, (*same[:1], *same[2:], *same[1:2])))
    return [axes for axes in orders if _fits(other, axes, tensor)]


def _fits(other: Tensor, axes: tuple[int, ...], tensor: Tensor) -> bool:
    """Return whether `other` with its axes in an order has the shape of `tensor`."""
    if len(other.shape) != len(tensor.shape):
        return False
    return tuple(other.shape[axis] for axis in axes) == tensor.shape


def _computed_tensors(graph: Graph) -> Iterable[int]:
    """Return the numbers of the tensors that a network computes, in order."""
    outputs = (number for node in graph.nodes for number in node.outputs)
    return (number for number in outputs if graph.tensors[number].data is None)


def _is_never_negative(tensor: Tensor) -> bool:
    """Return whether the integers of a tensor represent no negative numbers."""
    if tensor.quantisation is None or tensor.dtype not in _LOWEST:
        return False
    zero_points = np.asarray(tensor.quantisation.zero_point)
    return bool((zero_points <= _LOWEST[tensor.dtype]).all())
