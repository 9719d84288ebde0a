"""Functions of indices, such as masks of padding tokens, as tables with a number for each index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.elementwise import ELEMENTWISE
from matloom.frontend.onnx.floats.evaluate import evaluate
from matloom.frontend.onnx.floats.moves import MOVES
from matloom.frontend.onnx.floats.values import FloatValues
from matloom.frontend.onnx.values import in_file_order
from matloom.ir.attributes import Axis
from matloom.ir.graph import Array, Op

#: Operators that compute each element of their output from the same element of their inputs.
_ELEMENTWISE = frozenset(
    {
        *("Abs", "Add", "And", "Cast", "Clip", "Div", "Equal", "Greater", "GreaterOrEqual"),
        *("Identity", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or"),
        *("Sign", "Sub", "Where", "Xor"),
    }
)
#: No change of type, int32 and int64 in `onnx.TensorProto.DataType`.
_INTEGERS = (None, 6, 7)


@dataclass(frozen=True, kw_only=True, eq=False)
class _IndexFunction:
    """A value computed from one index, element by element.

    Members
    -------
    index:
        Name of the index, of the same shape.
    table:
        The value for each index, from 0.
    """

    index: str
    table: Array


class IndexFunctions:
    """Converts operators that compute with indices.

    The indices must choose rows of a table, too, because its length limits their values. What they
    are compared with or added to must be one number. Results become tables when other operators
    read them.

    Parameters
    ----------
    nodes:
        All operators, in order of execution.
    """

    def __init__(self, values: FloatValues, nodes: Sequence[FileNode]) -> None:
        self._values = values
        self._found: dict[str, _IndexFunction] = {}
        #: The network's input that an index is, by name; indices may be moved.
        self._inputs = {name: name for name in values.held if values.is_integer(name)}
        self._lengths: dict[str, int] = {}
        for node in nodes:
            self._trace(node)

    def _trace(self, node: FileNode) -> None:
        """Record an operator that moves an index, or chooses rows of a table by one."""
        if node.op == "Gather" and node.inputs[1] in self._inputs:
            if node.source in self._values.constants:
                axis = int(node.options.get("axis", 0))
                length = self._values.constants[node.source].shape[axis]
                key = self._inputs[node.inputs[1]]
                self._lengths[key] = min(self._lengths.get(key, length), length)
        elif node.op in (*MOVES, "Cast", "Identity") and node.source in self._inputs:
            self._inputs.update(dict.fromkeys(node.outputs, self._inputs[node.source]))

    def convert(self, node: FileNode) -> bool:
        """Convert an operator that reads indices or functions of them; return whether it did.

        If it did not, its inputs are converted, and it is an operator on floats.

        Raises
        ------
        Unsupported
            It computes with indices in another way.
        """
        values, names = self._values, [name for name in node.inputs if name]
        indices = [name for name in names if values.is_integer(name)]
        functions = [name for name in names if name in self._found]
        # Numbers can be repeated where indices cannot.
        if node.op in MOVES and not (functions and node.op == "Expand"):
            return self._move(node) if node.source in functions else False
        if node.op in ("Cast", "Identity") and indices and node.options.get("to") in _INTEGERS:
            values.copy(node.source, node.output)
            return True
        if not indices and not functions:
            return False
        if self._evaluate(node, indices, functions):
            return True
        if indices:
            raise Unsupported("computes with integers")
        if node.op == "Where" and node.source in functions:
            self._choose(node)
            return True
        for name in functions:
            self._look_up(name)
        return False

    def _move(self, node: FileNode) -> bool:
        """Convert a move of a function of an index: the index is moved instead. Returns True."""
        function, moved = self._found[node.source], f"{node.output}/index"
        inputs = (function.index, *node.inputs[1:])
        MOVES[node.op](self._values, replace(node, inputs=inputs, outputs=(moved,)))
        self._inputs[moved] = self._inputs[function.index]
        self._found[node.output] = replace(function, index=moved)
        return True

    def _evaluate(self, node: FileNode, indices: list[str], functions: list[str]) -> bool:
        """Record the output of an operator if it is a function of one index."""
        bases = {*indices, *(self._found[name].index for name in functions)}
        names = [name for name in node.inputs if name]
        others = [name for name in names if name not in (*indices, *functions)]
        if len(bases) != 1 or node.op not in _ELEMENTWISE:
            return False
        if not all(self._values.is_constant(name) for name in others):
            return False
        (index,) = bases
        constants = {name: self._values.constants[name] for name in others}
        shapes = [each.shape for each in constants.values()]
        shape = self._values.shape(index)
        if np.broadcast_shapes(shape, *shapes) != shape:
            return False
        if any((each != each.reshape(-1)[:1]).any() for each in constants.values()):
            return False
        given = {name: each.reshape(-1)[0] for name, each in constants.items()}
        # Integers of an operator have one type; a Cast of an index before it has kept the other.
        types = [each.dtype for each in given.values() if each.dtype.kind == "i"]
        given |= dict.fromkeys(indices, self._all_values(index).astype((*types, np.int64)[0]))
        given |= {name: self._found[name].table for name in functions}
        self._found[node.output] = _IndexFunction(index=index, table=_table(node, given))
        return True

    def _all_values(self, index: str) -> Array:
        """Return all values that an index may have."""
        base = self._inputs.get(index, "")
        if base not in self._lengths:
            raise Unsupported("computes with integers that choose no rows of a constant table")
        return np.arange(self._lengths[base])

    def _look_up(self, name: str) -> None:
        """Convert a function of an index to a GATHER from the table of its results."""
        if name not in self._values.held:
            self._hold(name, self._gather_numbers(self._found[name], self._found[name].table))

    def _hold(self, name: str, number: int) -> None:
        rank = len(self._values.builder.tensors[number].shape)
        self._values.hold(name, in_file_order(rank), number)

    def _gather_numbers(self, function: _IndexFunction, table: Array) -> int:
        """Return the number of a tensor that holds, for each index, its number in a table."""
        values = self._values
        operands = [values.builder.constant(np.asarray(table, np.float32))]
        operands.append(values.in_file_order(function.index))
        return values.add(Op.GATHER, operands, Axis(axis=0))

    def _choose(self, node: FileNode) -> None:
        """Convert Where with a function as its condition to a sum of what it chooses."""
        chosen = self._found[node.source].table.astype(bool)
        both = self._term(node, 1, chosen), self._term(node, 2, ~chosen)
        terms = tuple(name for name in both if name)
        op = "Add" if len(terms) > 1 else "Identity"
        ELEMENTWISE[op](self._values, replace(node, op=op, inputs=terms))

    def _term(self, node: FileNode, place: int, chosen: Array) -> str:
        """Return the name of an operand of Where, set to zero where it is not chosen.

        `place` is the operand's input index. The name is empty for a constant that becomes all
        zeros.
        """
        values, name, term = self._values, node.inputs[place], f"{node.output}/{place}"
        number = np.array(1)
        if values.is_constant(name):
            number = values.constants[name]
            if number.size != 1:
                raise Unsupported("chooses from a constant of several numbers")
        elif name in self._found:
            self._look_up(name)
        table = np.where(chosen, number.reshape(-1)[0], 0)
        if values.is_constant(name) and not table.any():
            return ""
        self._hold(term, self._gather_numbers(self._found[node.source], table))
        if values.is_constant(name):
            return term
        product = f"{term}/product"
        product_node = replace(node, op="Mul", inputs=(name, term), outputs=(product,))
        ELEMENTWISE["Mul"](values, product_node)
        return product


def _table(node: FileNode, given: Mapping[str, Array]) -> Array:
    """Return the results of an element-wise operator for all values of an index."""
    import onnx

    # A Cast to floats has become an Identity that keeps the type.
    op = "Cast" if "to" in node.options else node.op
    proto = onnx.helper.make_node(op, list(node.inputs), list(node.outputs), **node.options)
    return evaluate(proto, given, node.opset)[node.output]
