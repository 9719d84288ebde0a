"""Values each of whose elements is a function of one index, such as a mask of padding."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.evaluate import evaluate
from matloom.ir.graph import Array

#: Operators that compute each element of their output from the same element of their inputs.
COMPUTED = frozenset(
    {
        *("Abs", "Add", "And", "Cast", "Clip", "Div", "Equal", "Greater", "GreaterOrEqual"),
        *("Identity", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or"),
        *("Sign", "Sub", "Where", "Xor"),
    }
)
#: Operators that move or repeat the elements of their first input.
MOVES = frozenset(
    {
        *("Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Reshape", "Slice"),
        *("Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
    }
)
#: Maximum number of elements of the values of a function.
_MOST_VALUES = 1 << 24


@dataclass(frozen=True, kw_only=True, eq=False)
class IndexFunction:
    """A value computed from indices: each element is a function of one index of one input.

    The function may differ between elements, as in a mask that also excludes later tokens.

    Members
    -------
    source:
        Name of the input.
    places:
        For each element, the position of its index in the input. Axes along which elements have the
        same index have a length of one.
    classes:
        For each index, from 0, the number of its class; the function is the same for all indices of
        a class.
    values:
        The results. The first axis is the class, and the others are the axes of the value, of
        length one where the function is the same along them.
    shape:
        Shape of the value.
    """

    source: str
    places: Array
    classes: Array
    values: Array
    shape: tuple[int, ...]

    @classmethod
    def of_input(cls, name: str, shape: tuple[int, ...], dtype: str, count: int) -> "IndexFunction":
        """Return the identity function of an input's indices, which are less than `count`."""
        values = np.arange(count, dtype=dtype).reshape(count, *(1 for _size in shape))
        places = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        classes = np.arange(count)
        return cls(source=name, places=places, classes=classes, values=values, shape=shape)

    @property
    def is_uniform(self) -> bool:
        """Whether the function is the same for all elements."""
        return self.values.size == len(self.values)

    @property
    def table(self) -> Array:
        """The value of each index, from 0; the function must be uniform."""
        table: Array = self.values.reshape(-1)[self.classes]
        return table

    def as_limits(
        self, limit: Callable[[Array, Array], Array], excluded: np.float32
    ) -> tuple[Array, Array] | None:
        """Return numbers by class of indices and by element, of which `limit` makes the values.

        The result is None if there are no such numbers. Values below `excluded` count as equal to
        it.

        Parameters
        ----------
        limit:
            `np.minimum` or `np.maximum`.
        """
        values = np.maximum(self.values, excluded)
        furthest = np.max if limit is np.minimum else np.min
        limits = furthest(values, axis=tuple(range(1, values.ndim)), keepdims=True)
        placed = furthest(values, axis=0, keepdims=True)
        if not np.array_equal(limit(limits, placed), values):
            return None
        return limits.reshape(-1), placed[0]

    def broadcast_to(self, shape: tuple[int, ...]) -> "IndexFunction":
        """Return the function with its elements repeated to `shape`, as in NumPy's broadcasting."""
        added = (1,) * (len(shape) - len(self.shape))
        places = self.places.reshape(*added, *self.places.shape)
        values = self.values.reshape(len(self.values), *added, *self.values.shape[1:])
        return replace(self, places=places, values=values, shape=shape)

    def simplify(self) -> "IndexFunction":
        """Return the same function with fewest classes (indices with equal values) and axes."""
        rows = self.values.reshape(len(self.values), -1)
        _rows, first, classes = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        axes = range(1, self.values.ndim)
        values = _without_repetitions(self.values[first], axes)
        places = _without_repetitions(self.places, range(self.places.ndim))
        classes = classes.reshape(-1)[self.classes]
        return replace(self, places=places, classes=classes, values=values)


def compute(
    node: FileNode, functions: Mapping[str, IndexFunction], constants: Mapping[str, Array]
) -> IndexFunction | None:
    """Return the result of an element-wise operator as a function of one index.

    The result is None if its elements depend on several indices, or it would have too many values.

    Parameters
    ----------
    functions, constants:
        The operator's inputs, by name.
    """
    operands = list(functions.values())
    shapes = [each.shape for each in operands] + [each.shape for each in constants.values()]
    shape = np.broadcast_shapes(*shapes)
    places = [_with_rank(each.places, len(shape)) for each in operands]
    first, *others = operands
    for other, at in zip(others, places[1:], strict=True):
        if other.source != first.source or not np.array_equal(at, places[0]):
            return None
    count = min(len(each.classes) for each in operands)
    pairs = np.stack([each.classes[:count] for each in operands], axis=1)
    joint, classes = np.unique(pairs, axis=0, return_inverse=True)
    inputs = {name: each[np.newaxis] for name, each in _with_ranks(constants, len(shape)).items()}
    for number, (name, each) in enumerate(functions.items()):
        rows = each.values[joint[:, number]]
        added = (1 for _axis in shape[len(each.shape) :])
        inputs[name] = rows.reshape(len(rows), *added, *rows.shape[1:])
    sizes = np.broadcast_shapes(*(each.shape for each in inputs.values()))
    if np.prod(sizes, dtype=float) > _MOST_VALUES:
        return None
    # A Cast to floats has become an Identity that keeps the type.
    op = "Cast" if "to" in node.options else node.op
    values = _evaluate_node(replace(node, op=op), inputs)[node.output]
    made = replace(first, places=places[0], classes=classes.reshape(-1), values=values, shape=shape)
    return made.simplify()


def move(
    node: FileNode, source: IndexFunction, constants: Mapping[str, Array]
) -> dict[str, IndexFunction]:
    """Return the outputs, by name, of an operator that only moves elements, such as Transpose.

    `constants` are the operator's other inputs, by name.
    """

    def apply(data: Array) -> dict[str, Array]:
        """Return the node's outputs, by name, for an input broadcast to the source's shape."""
        return _evaluate_node(node, {node.source: np.broadcast_to(data, source.shape), **constants})

    places = apply(source.places)
    if source.is_uniform:
        count = len(source.values)
        values = {
            name: source.values.reshape(count, *(1 for _axis in each.shape))
            for name, each in places.items()
        }
    else:
        parts = [apply(each) for each in source.values]
        values = {name: np.stack([part[name] for part in parts]) for name in places}
    return {
        name: replace(source, places=each, values=values[name], shape=each.shape).simplify()
        for name, each in places.items()
    }


def _with_rank(data: Array, rank: int) -> Array:
    """Return an array with axes of length one in front, so that it has `rank` axes."""
    return data.reshape(*(1 for _axis in range(rank - data.ndim)), *data.shape)


def _with_ranks(arrays: Mapping[str, Array], rank: int) -> dict[str, Array]:
    """Return each array with unit axes in front, up to a number of axes."""
    return {name: _with_rank(each, rank) for name, each in arrays.items()}


def _without_repetitions(data: Array, axes: Iterable[int]) -> Array:
    """Return an array cut to a length of one along those of `axes` along which it is constant."""
    for axis in axes:
        first = np.take(data, [0], axis=axis) if data.shape[axis] else data
        if (data == first).all():
            data = first
    return data


def _evaluate_node(node: FileNode, inputs_by_name: Mapping[str, Array]) -> dict[str, Array]:
    """Compute a node with ONNX's reference evaluator; return its outputs by name."""
    import onnx

    inputs: Sequence[str] = node.inputs
    proto = onnx.helper.make_node(node.op, list(inputs), list(node.outputs), **node.options)
    return evaluate(proto, inputs_by_name, node.opset)
