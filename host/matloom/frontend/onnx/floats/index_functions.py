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
    """Converts operators that compute with integer inputs (indices), such as those of masks.

    Inputs of integers are indices. If they choose rows of tables, the shortest table limits them;
    otherwise they are taken to be 0 and 1. When an operator on floats reads a function of an index,
    the function becomes a table from which a GATHER takes a number for each index.

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
        counts = _bounds(values, nodes, names)
        for name in names:
            dtype = values.builder.tensors[values.in_file_order(name)].dtype
            made = IndexFunction.of_input(name, values.shape(name), dtype, counts[name])
            self._found[name] = made

    def convert(self, node: FileNode) -> FileNode | None:
        """Convert an operator that reads indices; return one still to be converted, or None.

        Returns None if this is done. Otherwise, returns an operator on floats, the given one or a
        replacement, for the caller to convert; its inputs are tensors.

        Raises
        ------
        Unsupported
            It computes with indices in another way.
        """
        found = {name: self._found[name] for name in node.inputs if name in self._found}
        if not found:
            return node
        if node.op == "Shape":
            self._values.constants[node.output] = node.sizes(found[node.source].shape)
        elif self._evaluate(node, found):
            pass
        elif node.op == "Gather" and node.source not in found:
            self._convert_gather(node, found[node.inputs[1]])
        elif node.op == "Where" and node.source in found:
            self._convert_where(node, found)
        else:
            if node.op == "Attention" and node.input(3) in found:
                node = self._with_numeric_mask(node, found[node.input(3)])
            for name in node.inputs:
                self.look_up(name)
            return node
        return None

    def look_up(self, name: str) -> None:
        """Convert a value to a tensor of numbers if it is a function of indices.

        Raises
        ------
        Unsupported
            It has integers, or is a different function for too many elements.
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
            self._compute_function(replace(part, values=part.values.astype(np.float32)))
            for part in parts
        )
        for other in others:
            number = self._values.add(op, [number, other])
        self._hold(name, function.shape, number)

    def _evaluate(self, node: FileNode, functions: Mapping[str, _Function]) -> bool:
        """Record an operator's outputs, and return True, if they are functions of indices."""
        others = {name for name in node.inputs if name and name not in functions}
        if not all(map(self._values.is_constant, others)):
            return False
        constants = {name: self._values.constants[name] for name in others}
        if node.op in MOVES and list(functions) == [node.source]:
            source = functions[node.source]
            if isinstance(source, JointFunction):
                self._found.update(move_joint(node, source, constants))
            else:
                self._found.update(move(node, source, constants))
            return True
        made = combine(node, functions, constants) if node.op in COMPUTED else None
        if made is not None:
            self._found[node.output] = made
        return made is not None

    def _convert_gather(self, node: FileNode, index: _Function) -> None:
        """Convert a Gather whose indices are a function of an input's indices."""
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

    def _convert_where(self, node: FileNode, functions: Mapping[str, _Function]) -> None:
        """Convert a Where whose condition is a function of indices to a sum of masked operands."""
        both = self._convert_operand(node, 1, functions), self._convert_operand(node, 2, functions)
        terms = tuple(name for name in both if name)
        op = "Add" if len(terms) > 1 else "Identity"
        ELEMENTWISE[op](self._values, replace(node, op=op, inputs=terms))

    def _with_numeric_mask(self, node: FileNode, mask: _Function) -> FileNode:
        """Return an Attention whose boolean `mask` is replaced by numbers to add to the scores."""
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

    def _convert_operand(
        self, node: FileNode, index: int, functions: Mapping[str, _Function]
    ) -> str:
        """Convert operand `index` of a Where to a tensor with zeros where it is not chosen.

        Returns the name of the tensor; the name is empty if all its elements are zero.
        """
        values, name, term = self._values, node.inputs[index], f"{node.output}/{index}"
        if values.is_constant(name) or name in functions:
            made = self._masked_operand(node, index, name, functions)
            if made is not None and _is_zero(made):
                return ""
            if made is not None:
                self._found[term] = made
                self.look_up(term)
                return term
        self.look_up(name)
        factor = self._masked_operand(node, index, "", functions)
        assert factor is not None
        self._found[term] = factor
        self.look_up(term)
        product = f"{term}/product"
        ELEMENTWISE["Mul"](values, replace(node, op="Mul", inputs=(name, term), outputs=(product,)))
        return product

    def _masked_operand(
        self, node: FileNode, index: int, name: str, functions: Mapping[str, _Function]
    ) -> _Function | None:
        """Return the value `name` with zeros where a Where does not choose its operand `index`.

        An empty `name` stands for the constant 1. The result is None if it depends on several
        indices.
        """
        constants = {"zero": np.array(0, np.float32), "one": np.array(1, np.float32)}
        inputs = {node.source: functions[node.source]}
        if name in functions:
            inputs[name] = functions[name]
        elif name:
            constants[name] = self._values.constants[name]
        operands = [name or "one", "zero"] if index == 1 else ["zero", name or "one"]
        used = {each: constants[each] for each in operands if each in constants}
        return combine(replace(node, inputs=(node.source, *operands)), inputs, used)

    def _hold(self, name: str, shape: tuple[int, ...], number: int) -> None:
        """Record that tensor `number` holds a value; `shape` is the value's, with repetitions."""
        self._values.held[name] = {in_file_order(len(shape)): number}
        if self._values.builder.tensors[number].shape != shape:
            self._values.expanded[name] = shape

    def _compute_function(self, function: IndexFunction) -> int:
        """Add operators that compute a function from its index; return the output's number.

        Axes along which the values do not change have a length of one.
        """
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
        """Add a GATHER of the entries of `table` at the function's indices; return its number."""
        number = self._values.builder.constant(np.ascontiguousarray(table, np.float32))
        return self._choose_rows(number, function, 0)

    def _choose_rows(self, number: int, function: IndexFunction, axis: int) -> int:
        """Add a GATHER from tensor `number` at the function's indices; return its number."""
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
    """Return whether all values of a function are 0."""
    parts = function.parts if isinstance(function, JointFunction) else (function,)
    return not any(part.values.any() for part in parts)


def _bounds(values: FloatValues, nodes: Sequence[FileNode], names: Sequence[str]) -> dict[str, int]:
    """Return an exclusive upper bound of the indices in each input of indices, by name.

    The tables whose rows are chosen by indices limit them. If only functions of indices choose
    rows, the number is large enough for all rows.
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
