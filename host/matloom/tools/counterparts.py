"""Pairs the tensors of a quantised network with those of its floating-point original."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from matloom.ir.graph import Array, Graph, Tensor, short_name
from matloom.ir.shapes import MATRIX_RANK


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
        clipped = self.clipped.get(name, name)
        if clipped in self._names or not _is_never_negative(self.graph.tensors[number]):
            return name
        return clipped

    @cached_property
    def _names(self) -> frozenset[str]:
        """Names of the float values for which the tensors of the network stand."""
        return frozenset(map(self._float_name, _computed_tensors(self.graph)))

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
        orders = self._fitting_orders(number, other)
        if not orders:
            return None
        return Counterpart(number=twin, axes=orders[-1 if self._has_channels_last else 0])

    def _fitting_orders(self, number: int, other: Tensor) -> list[tuple[int, ...]]:
        """Return the orders of axes in which `other` has the shape of a tensor.

        If the file does not tell the order, these may be two: the same, and channels last, to which
        networks from ONNX files may be converted.
        """
        shape, copy = self.graph.tensors[number].shape, self.graph.copies.get(number)
        same = tuple(range(len(shape)))
        orders = [same, (*same[:1], *same[2:], *same[1:2])]
        if copy is not None:
            orders = [copy.axes or same]
        if len(other.shape) != len(shape):
            return []
        fits = (axes for axes in orders if tuple(other.shape[axis] for axis in axes) == shape)
        return list(dict.fromkeys(fits))

    @cached_property
    def _has_channels_last(self) -> bool:
        """Whether more tensors fit their namesakes with channels last than with the same axes.

        They decide on the order of tensors that fit in both, as if all axes have one length.
        """
        others = {self.other.tensors[n].name: n for n in _computed_tensors(self.other)}
        votes = Counter[bool]()
        for number in _computed_tensors(self.graph):
            twin, rank = others.get(self.name_of(number)), len(self.graph.tensors[number].shape)
            if twin is None or rank <= MATRIX_RANK:
                continue
            orders = self._fitting_orders(number, self.other.tensors[twin])
            if len(orders) == 1:
                votes[orders[0] != tuple(range(rank))] += 1
        return votes[True] > votes[False]


def _computed_tensors(graph: Graph) -> Iterable[int]:
    """Return the numbers of the tensors that a network computes, in order."""
    outputs = (number for node in graph.nodes for number in node.outputs)
    return (number for number in outputs if graph.tensors[number].data is None)


def _is_never_negative(tensor: Tensor) -> bool:
    """Return whether the integers of a tensor represent no negative numbers."""
    if tensor.quantisation is None or np.dtype(tensor.dtype).kind not in "iu":
        return False
    zero_points = np.asarray(tensor.quantisation.zero_point)
    return bool((zero_points <= np.iinfo(tensor.dtype).min).all())
