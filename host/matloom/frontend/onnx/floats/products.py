"""Converts Einsum and Attention."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.values import FloatValues
from matloom.frontend.onnx.move_options import MOST_JOINED
from matloom.frontend.onnx.values import in_file_order
from matloom.ir.attributes import Arithmetic, Axis, BatchMatmul, FullyConnected, Softmax
from matloom.ir.graph import Op

#: Number that is added to a score that a mask excludes.
_MASKED_SCORE = np.float32(-1e9)
#: Attributes of Attention that are supported, or change no result in floats.
_OPTIONS = frozenset(
    {"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale"}
    | {"softmax_precision"}
)
#: Number of axes of queries, keys and values with heads: images, heads, positions, channels.
_HEADS_RANK = 4


def _convert_einsum(values: FloatValues, node: FileNode) -> None:
    """Convert Einsum of two operands to a product of two matrices for each index of shared axes."""
    terms, wanted = _equation(node)
    first, second = terms
    batch = [axis for axis in wanted if axis in first and axis in second]
    rows = [axis for axis in wanted if axis in first and axis not in second]
    columns = [axis for axis in wanted if axis in second and axis not in first]
    summed = [axis for axis in first if axis in second and axis not in wanted]
    if {*first} - {*batch, *rows, *summed} or {*second} - {*batch, *columns, *summed}:
        raise Unsupported("sums axes of one operand alone")
    sizes = {
        axis: size
        for name, term in zip(node.inputs, terms, strict=True)
        for axis, size in zip(term, values.shape(name), strict=True)
    }

    def matrices(operand: int, *groups: Sequence[str]) -> int:
        """Return an operand's tensor number, reshaped so that each group of axes is one axis.

        `operand` is 0 for the first operand, 1 for the second.
        """
        name, term = node.inputs[operand], terms[operand]
        order = [term.index(axis) for group in groups for axis in group]
        shape = tuple(math.prod(sizes[axis] for axis in group) for group in groups)
        if values.is_constant(name):
            data = values.constant(name).transpose(order).reshape(shape)
            return values.builder.constant(np.ascontiguousarray(data, np.float32), name=name)
        return values.add(Op.RESHAPE, [values.tensor_in_order(name, tuple(order))], shape=shape)

    if values.is_constant(node.inputs[1]) and not batch:
        operands = [matrices(0, rows, summed), matrices(1, columns, summed)]
        number = values.add(Op.FULLY_CONNECTED, operands, FullyConnected())
    else:
        operands = [matrices(0, batch, rows, summed), matrices(1, batch, columns, summed)]
        kind = BatchMatmul(adj_x=False, adj_y=True)
        number = values.add(Op.BATCH_MATMUL, operands, kind)
    made = [*batch, *rows, *columns]
    shape = tuple(sizes[axis] for axis in made)
    number = values.add(Op.RESHAPE, [number], shape=shape, name=node.output)
    values.hold(node.output, tuple(wanted.index(axis) for axis in made), number)


def _equation(node: FileNode) -> tuple[list[str], str]:
    """Return the letters of the axes of both operands, and those of the result."""
    equation = node.options["equation"].decode().replace(" ", "")
    given, arrow, wanted = equation.partition("->")
    terms = given.split(",")
    if not arrow or len(terms) != 2 or "." in equation:
        raise Unsupported(f"has the equation {equation}; two operands and a result are taken")
    if any(len({*term}) != len(term) for term in (*terms, wanted)):
        raise Unsupported(f"has the equation {equation}, which repeats an axis")
    return terms, wanted


def _convert_attention(values: FloatValues, node: FileNode) -> None:
    """Convert Attention: softmax(Q K^T * scale + mask) V, for each head."""
    if any(node.outputs[1:]) or any(node.input(place) for place in (4, 5, 6)):
        raise Unsupported("has keys of earlier calls, or more than one result")
    for option in node.options.keys() - _OPTIONS:
        if node.options[option]:
            raise Unsupported(f"has the option {option}")
    shape = values.shape(node.source)
    queries, keys, others = (
        _separate_heads(values, node, place, name)
        for place, name in enumerate(("q_num_heads", "kv_num_heads", "kv_num_heads"))
    )
    tensors = values.builder.tensors
    count = tensors[queries].shape[1] // tensors[keys].shape[1]
    keys, others = (_repeat_heads(values, number, count) for number in (keys, others))
    size = tensors[queries].shape[-1]
    factor = float(node.options.get("scale", 1 / math.sqrt(size)))
    kind = BatchMatmul(adj_x=False, adj_y=True)
    scores = values.add(Op.BATCH_MATMUL, [queries, keys], kind)
    scores = values.add(Op.MUL, [scores, values.number(factor)], Arithmetic())
    if node.input(3) and not values.is_constant(node.input(3)):
        name = f"{node.output}/scores"
        values.hold(name, in_file_order(_HEADS_RANK), scores)
        operands = values.operands([name, node.input(3)], in_file_order(_HEADS_RANK))
        scores = values.add(Op.ADD, operands, Arithmetic())
    for mask in _constant_masks(values, node, tensors[scores].shape[-2:]):
        scores = values.add(Op.ADD, [scores, mask], Arithmetic())
    shares = values.add(Op.SOFTMAX, [scores], Softmax(beta=1.0))
    kind = BatchMatmul(adj_x=False, adj_y=False)
    made = values.add(Op.BATCH_MATMUL, [shares, others], kind, name=node.output)
    if len(shape) == _HEADS_RANK:
        values.hold(node.output, in_file_order(_HEADS_RANK), made)
        return
    # Heads lie side by side in a row.
    name = f"{node.output}/heads"
    values.hold(name, in_file_order(_HEADS_RANK), made)
    images, heads, positions, channels = tensors[made].shape
    rows = values.tensor_in_order(name, (0, 2, 1, 3))
    rows = values.add(Op.RESHAPE, [rows], shape=(images, positions, heads * channels))
    values.hold(node.output, in_file_order(len(shape)), rows)


def _separate_heads(
    values: FloatValues, node: FileNode, place: int, head_count_attribute: str
) -> int:
    """Return input `place` (queries, keys, values) as (images, heads, positions, channels).

    In the file, the channels of all heads may be one axis. `place` is the index of the input, and
    `head_count_attribute` is the name of the attribute with the number of heads.
    """
    name = node.inputs[place]
    shape = values.shape(name)
    if len(shape) == _HEADS_RANK:
        return values.in_file_order(name)
    heads = int(node.options[head_count_attribute])
    parts = (*shape[:2], heads, shape[2] // heads)
    number = values.add(Op.RESHAPE, [values.in_file_order(name)], shape=parts)
    values.hold(f"{node.output}/{place}", (0, 2, 1, 3), number)
    return values.in_file_order(f"{node.output}/{place}")


def _repeat_heads(values: FloatValues, number: int, count: int) -> int:
    """Return the tensor number of heads of keys or values, each repeated for `count` queries."""
    images, heads, positions, channels = values.builder.tensors[number].shape
    if count == 1:
        return number
    if count > MOST_JOINED:
        raise Unsupported(f"has {count} heads of queries for each of keys, more than {MOST_JOINED}")
    flat = values.add(Op.RESHAPE, [number], shape=(images, heads, 1, positions * channels))
    copies = values.add(Op.CONCATENATION, [flat] * count, Axis(axis=2))
    return values.add(Op.RESHAPE, [copies], shape=(images, heads * count, positions, channels))


def _constant_masks(values: FloatValues, node: FileNode, shape: tuple[int, ...]) -> list[int]:
    """Return the tensor numbers of constant masks to add to scores of shape (..., rows, columns).

    Raises
    ------
    Unsupported
        They exclude all keys of a query.
    """
    masks = []
    if values.is_constant(node.input(3)):
        data = values.constant(node.input(3))
        masks.append(np.where(data, np.float32(0), _MASKED_SCORE) if data.dtype == bool else data)
    if node.options.get("is_causal", 0):
        masks.append(np.triu(np.full(shape, _MASKED_SCORE), 1))
    total = sum(masks, np.zeros(shape, np.float32))
    if (total <= _MASKED_SCORE / 2).all(axis=-1).any():
        raise Unsupported("excludes all keys of a query")
    return [values.builder.constant(np.asarray(mask, np.float32)) for mask in masks]


#: Converters by operator name.
PRODUCTS: dict[str, Callable[[FloatValues, FileNode], None]] = {
    "Attention": _convert_attention,
    "Einsum": _convert_einsum,
}
