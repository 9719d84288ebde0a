"""Converts operators that compute with indices, such as tokens, or masks of 0 and 1."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.elementwise import ELEMENTWISE
from matloom.frontend.onnx.floats.index_pairs import JointFunction, combine, move_joint
from matloom.frontend.onnx.floats.index_tables import COMPUTED, MOVES, IndexFunction, move
from matloom.frontend.onnx.floats.values import FloatValues
from matloom.frontend.onnx.values import in_file_order
from matloom.ir.attributes import Arithmetic, Axis
from matloom.ir.graph import Array, Op

#: Number of values of an input that chooses no rows, such as a mask: 0 and 1.
_FLAGS = 2
#: Maximum number of classes of indices of a function that differs between places.
_MOST_CLASSES = 4
_Function = IndexFunction | JointFunction
#: Numbers of masks below this one exclude as well as it does.
_EXCLUDED = np.float32(-1e4)


class IndexFunctions:
    """Converts operators that compute with indices.

    Inputs of integers are indices. If they choose rows of tables, the shortest table limits them;
    otherwise they are 0 and 1. Functions of an index become tables when operators on floats read
    them.

    Parameters
    ----------
    nodes:
        All operators, in order of execution.
    """

    def __init__(self, values: FloatValues, nodes: Sequence[FileNode]) -> None:
        self._values = values
        #: Functions by name; those of inputs are the indices themselves.
        self._found: dict[str, _Function] = {}
        names = [name for name in values.held if values.is_integer(name)]
        counts = _counts(values, nodes, names)
        for name in names:
            dtype = values.builder.tensors[values.in_file_order(name)].dtype
            made = IndexFunction.of_input(name, values.shape(name), dtype, counts[name])
            self._found[name] = made

    def convert(self, node: FileNode) -> FileNode | None:
        """Convert an operator that reads indices or functions of them.

        Returns None if it did, otherwise an operator on floats, whose inputs are converted.

        Raises
        ------
        Unsupported
            It computes with indices in another way.
        """
        given = {name: self._found[name] for name in node.inputs if name in self._found}
        if not given:
            return node
        if node.op == "Shape":
            self._values.constants[node.output] = node.sizes(given[node.source].shape)
        elif self._evaluate(node, given):
            pass
        elif node.op == "Gather" and node.source not in given:
            self._gather(node, given[node.inputs[1]])
        elif node.op == "Where" and node.source in given:
            self._choose(node, given)
        else:
            if node.op == "Attention" and node.input(3) in given:
                node = self._exclude(node, given[node.input(3)])
            for name in node.inputs:
                self.look_up(name)
            return node
        return None

    def look_up(self, name: str) -> None:
        """Convert a value to a tensor of numbers if it is a function of an index.

        Raises
        ------
        Unsupported
            It has integers, or differs too much between places.
        """
        function = self._found.get(name)
        if function is None or (name in self._values.held and not self._values.is_integer(name)):
            return
        if isinstance(function, JointFunction):
            parts, op = function.parts, Op.MINIMUM if function.op == "Min" else Op.MAXIMUM
        else:
            parts, op = (function,), Op.MINIMUM
        if any(part.values.dtype.kind not in "fb" for part in parts):
            raise Unsupported("computes with integers")
        number, *others = (
            self._numbers(replace(part, values=part.values.astype(np.float32))) for part in parts
        )
        for other in others:
            number = self._values.add(op, [number, other])
        self._hold(name, function.shape, number)

    def _evaluate(self, node: FileNode, given: Mapping[str, _Function]) -> bool:
        """Record the outputs of an operator if they are functions of one index."""
        others = {name for name in node.inputs if name and name not in given}
        if not all(map(self._values.is_constant, others)):
            return False
        constants = {name: self._values.constants[name] for name in others}
        if node.op in MOVES and list(given) == [node.source]:
            source = given[node.source]
            if isinstance(source, JointFunction):
                self._found.update(move_joint(node, source, constants))
            else:
                self._found.update(move(node, source, constants))
            return True
        made = combine(node, given, constants) if node.op in COMPUTED else None
        if made is not None:
            self._found[node.output] = made
        return made is not None

    def _gather(self, node: FileNode, index: _Function) -> None:
        """Convert Gather by a function of an index."""
        values, name = self._values, node.source
        if isinstance(index, JointFunction) or not index.is_uniform:
            raise Unsupported("chooses rows by numbers that differ between indices and places")
        shape, table = values.shape(name), index.table
        axis = int(node.options.get("axis", 0)) % len(shape)
        known = (table >= -shape[axis]) & (table < shape[axis])
        rows = table[: len(table) if known.all() else known.argmin()]
        if values.is_constant(name) and values.constants[name].dtype.kind != "f":
            raise Unsupported("computes with integers")
        if np.array_equal(rows, np.arange(len(rows))):
            number = values.in_file_order(name)
        elif values.is_constant(name):
            number = values.builder.constant(values.constants[name].take(rows, axis))
        else:
            raise Unsupported("chooses rows of a computed value by computed indices")
        number = self._choose_rows(number, index, axis)
        self._hold(node.output, (*shape[:axis], *index.shape, *shape[axis + 1 :]), number)

    def _choose(self, node: FileNode, given: Mapping[str, _Function]) -> None:
        """Convert Where with a function as its condition to a sum of what it chooses."""
        both = self._term(node, 1, given), self._term(node, 2, given)
        terms = tuple(name for name in both if name)
        op = "Add" if len(terms) > 1 else "Identity"
        ELEMENTWISE[op](self._values, replace(node, op=op, inputs=terms))

    def _exclude(self, node: FileNode, mask: _Function) -> FileNode:
        """Return an Attention whose mask has numbers to add to scores, instead of bools."""
        parts = mask.parts if isinstance(mask, JointFunction) else (mask,)
        if any(part.values.dtype != bool for part in parts):
            return node
        name = f"{node.output}/mask"
        numbers = {"zero": np.array(0, np.float32), "least": np.array(_EXCLUDED)}
        choice = replace(
            node, op="Where", inputs=("mask", "zero", "least"), outputs=(name,), options={}
        )
        made = combine(choice, {"mask": mask}, numbers)
        assert made is not None
        self._found[name] = made
        return replace(node, inputs=(*node.inputs[:3], name, *node.inputs[4:]))

    def _term(self, node: FileNode, place: int, given: Mapping[str, _Function]) -> str:
        """Return the name of an operand of Where with zeros where it is not chosen.

        The name is empty for a constant of which nothing but zeros is left.
        """
        values, name, term = self._values, node.inputs[place], f"{node.output}/{place}"
        if values.is_constant(name) or name in given:
            made = self._choice(node, place, name, given)
            if made is not None and _is_zero(made):
                return ""
            if made is not None:
                self._found[term] = made
                self.look_up(term)
                return term
        self.look_up(name)
        factor = self._choice(node, place, "", given)
        assert factor is not None
        self._found[term] = factor
        self.look_up(term)
        product = f"{term}/product"
        ELEMENTWISE["Mul"](values, replace(node, op="Mul", inputs=(name, term), outputs=(product,)))
        return product

    def _choice(
        self, node: FileNode, place: int, name: str, given: Mapping[str, _Function]
    ) -> _Function | None:
        """Return an operand of Where, or 1 if `name` is empty, with zeros where it is not chosen.

        It is None if it depends on several indices.
        """
        constants = {"zero": np.array(0, np.float32), "one": np.array(1, np.float32)}
        functions = {node.source: given[node.source]}
        if name in given:
            functions[name] = given[name]
        elif name:
            constants[name] = self._values.constants[name]
        operands = [name or "one", "zero"] if place == 1 else ["zero", name or "one"]
        used = {each: constants[each] for each in operands if each in constants}
        return combine(replace(node, inputs=(node.source, *operands)), functions, used)

    def _hold(self, name: str, shape: tuple[int, ...], number: int) -> None:
        """Record the tensor of a value; `shape` includes axes along which it is repeated."""
        self._values.held[name] = {in_file_order(len(shape)): number}
        if self._values.builder.tensors[number].shape != shape:
            self._values.expanded[name] = shape

    def _numbers(self, function: IndexFunction) -> int:
        """Return the number of a tensor with the values of a function, without repetitions."""
        values = self._values
        if function.is_uniform:
            return self._look_up_table(function, function.table)
        for op, limit in ((Op.MINIMUM, np.minimum), (Op.MAXIMUM, np.maximum)):
            parts = function.as_limits(limit, _EXCLUDED)
            if parts is None:
                continue
            limits, placed = parts
            table, constant = limits[function.classes], values.builder.constant(placed)
            if op is Op.MINIMUM and len(np.unique(placed[placed > _EXCLUDED])) > 1:
                # A limit would have the scale of the biases, which a mask is added to instead.
                if ((limits > _EXCLUDED) & (limits < placed.max())).any():
                    continue
                table = np.where(table > _EXCLUDED, 0, table)
                operands = [self._look_up_table(function, table), constant]
                return values.add(Op.ADD, operands, Arithmetic())
            return values.add(op, [self._look_up_table(function, table), constant])
        first, *others = function.values
        if len(others) >= _MOST_CLASSES or not np.isfinite(function.values).all():
            raise Unsupported("computes numbers that differ between indices and places")
        number = values.builder.constant(np.ascontiguousarray(first))
        for at, other in enumerate(others, 1):
            chosen = self._look_up_table(function, function.classes == at)
            difference = values.builder.constant(np.ascontiguousarray(other - first))
            term = values.add(Op.MUL, [chosen, difference], Arithmetic())
            number = values.add(Op.ADD, [term, number], Arithmetic())
        return number

    def _look_up_table(self, function: IndexFunction, table: Array) -> int:
        """Return the number of a tensor with the number of a table for each index."""
        number = self._values.builder.constant(np.ascontiguousarray(table, np.float32))
        return self._choose_rows(number, function, 0)

    def _choose_rows(self, number: int, function: IndexFunction, axis: int) -> int:
        """Return the number of a tensor of slices of tensor `number`, chosen by indices."""
        values, places = self._values, function.places
        index = values.in_file_order(function.source)
        size = int(np.prod(values.builder.tensors[index].shape))
        if not np.array_equal(places.reshape(-1), np.arange(size)):
            flat = values.add(Op.RESHAPE, [index], shape=(size,))
            chosen = values.builder.constant(places.astype(np.int32))
            index = values.add(Op.GATHER, [flat, chosen], Axis(axis=0))
        shape = values.builder.tensors[number].shape
        number = values.add(Op.GATHER, [number, index], Axis(axis=axis))
        wanted = (*shape[:axis], *places.shape, *shape[axis + 1 :])
        if values.builder.tensors[number].shape != wanted:
            number = values.add(Op.RESHAPE, [number], shape=wanted)
        return number


def _is_zero(function: _Function) -> bool:
    """Return whether a function has no other number than 0."""
    parts = function.parts if isinstance(function, JointFunction) else (function,)
    return not any(part.values.any() for part in parts)


def _counts(values: FloatValues, nodes: Sequence[FileNode], names: Sequence[str]) -> dict[str, int]:
    """Return the number of values that each input of indices may have, from 0, by its name.

    Tables of which indices choose rows limit them. If only functions of indices choose rows, the
    number is large enough for all rows.
    """
    moved, computed = ({name: name for name in names} for _each in range(2))
    direct, others = dict[str, int](), dict[str, int]()
    for node in nodes:
        index = node.input(1)
        if node.op == "Gather" and index in computed and values.is_constant(node.source):
            axis = int(node.options.get("axis", 0))
            length = values.constants[node.source].shape[axis]
            if index in moved:
                name = moved[index]
                direct[name] = min(direct.get(name, length), length)
            else:
                name = computed[index]
                others[name] = max(others.get(name, length), length)
        if node.op in (*MOVES, "Cast", "Identity") and node.source in moved:
            moved.update(dict.fromkeys(node.outputs, moved[node.source]))
        known = [computed[name] for name in node.inputs if name in computed]
        if node.op in (*MOVES, *COMPUTED) and known:
            computed.update(dict.fromkeys(node.outputs, known[0]))
    return {name: direct.get(name, 2 * others.get(name, _FLAGS // 2)) for name in names}
