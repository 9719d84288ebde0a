"""Values of an ONNX model as tensors of the graph, in the axis orders that operators need.

ONNX convolutions have channels first; convolutions of the graph have channels last. A value may
exist in several axis orders. It is transposed to an order only when an operator needs it.
"""

from collections.abc import Sequence
from dataclasses import replace

from matloom.frontend.errors import Unsupported
from matloom.frontend.opaque import OpaqueOperator
from matloom.ir.attributes import Attributes, Transpose
from matloom.ir.graph import Array, FileCopy, Node, Op, Quantisation, Tensor
from matloom.ir.shapes import MATRIX_RANK

#: Axis order that gives an image of the file channels last.
LAST = (0, 2, 3, 1)
#: Axis order that gives a line, a tensor with one spatial axis, channels last.
LINE = (0, 2, 1)

#: Suffix of the names of int8 tensors that hold a value of the file.
IN_INT8 = " in int8"

Order = tuple[int, ...]


def in_file_order(rank: int) -> Order:
    """Return the axis order of the file for a value of this rank: (0, 1, 2, ...)."""
    return tuple(range(rank))


class FileValue:
    """A value of the file, and the int8 tensors that hold it.

    `held` has the number of a tensor for each axis order in which the value exists. `flattened` is
    the name of another value with the same elements in the file's order, but another shape, such as
    the image from which this value was flattened.
    """

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype = shape, dtype
        self.quantisation: Quantisation | None = None
        self.held: dict[Order, int] = {}
        self.flattened = ""


class Values:
    """The tensors and operators of a graph under construction.

    Tensors of the file keep their numbers, which `numbers` gives by name. The next `first` tensor
    numbers are reserved for operators appended to the model, and new tensors follow. New operators
    get indices from `first`.
    """

    def __init__(
        self, numbers: dict[str, int], known: dict[str, FileValue], first: int = 0
    ) -> None:
        self.numbers, self.known, self._first = numbers, known, first
        self.tensors: dict[int, Tensor] = {}
        self.operators: list[Node | OpaqueOperator] = []
        self._free = len(numbers) + first
        self._provided: set[str] = set()

    def provide(self, name: str) -> int:
        """Record that an input or ONNX Runtime provides a value; return its tensor number."""
        self._provided.add(name)
        return self._file_tensor(name)

    def opaque_output(self, name: str) -> int:
        """Record that ONNX Runtime makes a value, even one of unknown type; return its number."""
        if name in self.known:
            return self.provide(name)
        return self.numbers[name]

    def file_tensor(self, name: str) -> int:
        """Return the number of a value's tensor in the file's type and order; add it if missing."""
        if name not in self._provided:
            self._provided.add(name)
            value = self.known[name]
            order = in_file_order(len(value.shape))
            source = self.bytes_of(name, order)
            number = self._file_tensor(name)
            if value.dtype == "uint8":
                self.tensors[number] = replace(
                    self.tensors[number], quantisation=_as_uint8(value.quantisation)
                )
                self.node(Op.QUANTIZE, [source], [number])
            else:
                self.node(Op.RESHAPE, [source], [number])
        return self.numbers[name]

    def mark(self) -> tuple[int, frozenset[str], dict[str, dict[Order, int]]]:
        """Return the current state of the graph, for `undo`."""
        held = {name: dict(value.held) for name, value in self.known.items() if value.held}
        return len(self.operators), frozenset(self._provided), held

    def undo(self, mark: tuple[int, frozenset[str], dict[str, dict[Order, int]]]) -> None:
        """Remove the operators added since `mark` was returned, and forget the values they made."""
        length, there, held = mark
        del self.operators[length:]
        self._provided = set(there)
        for name, value in self.known.items():
            value.held = held.get(name, {})

    def copies(self) -> dict[int, FileCopy]:
        """Return, for each int8 tensor, its value in the file, with the order of axes and offset.

        If a tensor holds several values, which are transposed views of it, the first is returned.
        """
        found: dict[int, FileCopy] = {}
        for name, value in self.known.items():
            if name not in self.numbers:
                continue
            offset = 128 if value.dtype == "uint8" else 0
            for order, number in value.held.items():
                found.setdefault(number, FileCopy(name=name, axes=order, offset=offset))
        # Values appended to the model are values of the file with other axes.
        for name in self._provided & self.known.keys():
            value = self.known[name]
            copy = found.get(value.held.get(in_file_order(len(value.shape)), -1))
            if copy is not None:
                found.setdefault(self.numbers[name], replace(copy, offset=0))
        return found

    def is_bytes(self, name: str, *, declared: bool = True) -> bool:
        """Return whether a value's type is int8 or uint8.

        If `declared`, the value must also have a tensor or a known scale.
        """
        value = self.known.get(name)
        if value is None or value.dtype not in ("int8", "uint8"):
            return False
        if not declared:
            return True
        if value.held or value.flattened:
            return True
        return name in self._provided and value.quantisation is not None

    def declare(self, name: str, quantisation: Quantisation) -> None:
        """Record a value's quantisation, in the file's type, unless one is recorded already."""
        value = self.known[name]
        if value.quantisation is None:
            value.quantisation = as_int8(quantisation, value.dtype)

    def order_of(self, *names: str) -> Order:
        """Return the axis order in which most of these values, of one rank, exist already."""
        plain = in_file_order(len(self.known[names[0]].shape))
        orders = [order for name in names for order in self.known[name].held or (plain,)]
        last = (*plain[:1], *plain[2:], *plain[1:2]) if len(plain) > MATRIX_RANK else plain
        # Of several, channels last.
        return max(orders, key=lambda order: (orders.count(order), order == last))

    def bytes_of(self, name: str, order: Order, quantisation: Quantisation | None = None) -> int:
        """Return the number of an int8 tensor that holds a value in an axis order.

        It is made if necessary. `quantisation`, in the file's type, is what the file states for the
        reader. Raises `Unsupported` if no operator makes the value.
        """
        value = self.known[name]
        if quantisation is not None:
            self.declare(name, quantisation)
        if order not in value.held:
            value.held[order] = self._reorder(name, value, order)
        if quantisation is None:
            return value.held[order]
        return self.read_as(value.held[order], as_int8(quantisation, value.dtype))

    def read_as(self, number: int, quantisation: Quantisation, *, scaled: bool = False) -> int:
        """Return the number of a tensor with the same bytes and another quantisation.

        The scale is ignored unless `scaled`. Each reader in a file may state its own quantisation;
        nearly all repeat that of the producer.
        """
        tensor = self.tensors[number]
        have = tensor.quantisation
        same = have is not None and have.zero_point == quantisation.zero_point
        if same and (not scaled or have == quantisation):
            return number
        name = tensor.name.removesuffix(IN_INT8)
        return self.add_operator(Op.RESHAPE, [number], tensor.shape, quantisation, name)

    def _reorder(self, name: str, value: FileValue, order: Order) -> int:
        """Add operators that make an int8 tensor of a value in an axis order; return its number."""
        shape = tuple(value.shape[axis] for axis in order)
        if not value.held and value.flattened:
            flat = self.known[value.flattened]
            source = self.bytes_of(value.flattened, in_file_order(len(flat.shape)))
            plain = in_file_order(len(value.shape))
            reshaped = self.add_operator(
                Op.RESHAPE, [source], value.shape, value.quantisation, name
            )
            value.held[plain] = reshaped
            return reshaped if order == plain else self._reorder(name, value, order)
        for have, source in value.held.items():
            if kept_axes(have, value.shape) == kept_axes(order, value.shape):
                return self.add_operator(Op.RESHAPE, [source], shape, value.quantisation, name)
        if value.held:
            have, source = next(iter(value.held.items()))
            permutation = tuple(have.index(axis) for axis in order)
            attributes = Transpose(permutation=permutation)
            return self.add_operator(
                Op.TRANSPOSE, [source], shape, value.quantisation, name, attributes
            )
        if name not in self._provided:
            raise Unsupported(f"reads {name!r}, which nothing provides")
        plain = in_file_order(len(value.shape))
        source = self._file_tensor(name)
        if value.dtype == "uint8":
            tensor = self.tensors[source]
            if tensor.quantisation is None:
                unsigned = _as_uint8(value.quantisation)
                self.tensors[source] = replace(tensor, quantisation=unsigned)
            source = self.add_operator(Op.QUANTIZE, [source], value.shape, value.quantisation, name)
        else:
            source = self.add_operator(Op.RESHAPE, [source], value.shape, value.quantisation, name)
        value.held[plain] = source
        return source if order == plain else self._reorder(name, value, order)

    def hold(self, name: str, order: Order, number: int) -> None:
        """Register an int8 tensor that holds a value in an axis order, with its quantisation."""
        value = self.known[name]
        value.quantisation = self.tensors[number].quantisation
        value.held[order] = number

    def add_operator(
        self,
        op: Op,
        inputs: Sequence[int],
        shape: tuple[int, ...],
        quantisation: Quantisation | None,
        name: str,
        attributes: Attributes | None = None,
    ) -> int:
        """Add an operator; return the number of its output, an int8 tensor of the value `name`."""
        # The file's own tensor has the plain name.
        name = f"{name}{IN_INT8}"
        number = self.add(Tensor(name=name, shape=shape, dtype="int8", quantisation=quantisation))
        self.node(op, inputs, [number], attributes)
        return number

    def node(
        self,
        op: Op,
        inputs: Sequence[int],
        outputs: Sequence[int],
        attributes: Attributes | None = None,
    ) -> None:
        """Add an operator whose output tensors exist already."""
        self.operators.append(
            Node(
                op=op,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                attributes=attributes or Attributes(),
                index=self._first + len(self.operators),
            )
        )

    def constant(self, data: Array, name: str, quantisation: Quantisation | None = None) -> int:
        """Add a constant tensor; return its number."""
        return self.add(Tensor.constant(name, data, quantisation))

    def add(self, tensor: Tensor) -> int:
        """Add a tensor that is not in the file; return its number."""
        self.tensors[self._free] = tensor
        self._free += 1
        return self._free - 1

    def _file_tensor(self, name: str) -> int:
        """Return a value's tensor in the file's type, by number; declare it if that is missing."""
        number, value = self.numbers[name], self.known[name]
        if number not in self.tensors:
            self.tensors[number] = Tensor(name=name, shape=value.shape, dtype=value.dtype)
        return number


def kept_axes(order: Order, shape: tuple[int, ...]) -> list[int]:
    """Return the axes of an order that are longer than one; only they affect where elements lie."""
    return [axis for axis in order if shape[axis] != 1]


def as_int8(quantisation: Quantisation, dtype: str) -> Quantisation:
    """Return the quantisation of a value's bytes as int8, from that of its type in the file."""
    return quantisation if dtype == "int8" else quantisation.move_zero_point(-128)


def _as_uint8(quantisation: Quantisation | None) -> Quantisation | None:
    """Return the quantisation of an int8 tensor after its numbers were increased by 128."""
    return None if quantisation is None else quantisation.move_zero_point(128)
