"""Scale and zero point of each tensor, from the ranges of its values."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from matloom.ir.graph import Graph, Op, Quantisation
from matloom.quantiser.ranges import Range

#: Number of integers used of each type; those of int16 are symmetric about zero.
LEVELS = {"int8": 256, "int16": 65535}

_WORDS = (1 / 2**15 - 1, 1 - 1 / 2**15)
#: Range of outputs whose scale and zero point are fixed by the kernels, by operator and type.
FIXED: Mapping[tuple[Op, str], Range] = {
    (Op.LOGISTIC, "int8"): (0.0, 255 / 256),
    (Op.LOGISTIC, "int16"): _WORDS,
    (Op.LOG_SOFTMAX, "int8"): (-255 / 16, 0.0),
    (Op.SOFTMAX, "int8"): (0.0, 255 / 256),
    (Op.TANH, "int8"): (-1.0, 127 / 128),
    (Op.TANH, "int16"): _WORDS,
}

#: Operators that copy or compare integers, so that inputs and outputs share a scale.
SAME_SCALE = frozenset(
    {
        *(Op.AVERAGE_POOL_2D, Op.CONCATENATION, Op.EXPAND_DIMS, Op.GATHER, Op.MAXIMUM),
        *(Op.MAX_POOL_2D, Op.MINIMUM, Op.PACK, Op.PAD, Op.PADV2, Op.RELU6, Op.RESHAPE),
        *(Op.RESIZE_NEAREST_NEIGHBOR, Op.SLICE, Op.SPLIT, Op.SPLIT_V, Op.SQUEEZE),
        *(Op.STRIDED_SLICE, Op.TRANSPOSE, Op.UNPACK),
    }
)

#: Smallest scale; smaller ones would put ratios of scales out of range.
_LEAST_STEP = 2.0**-40


def quantisation_of(limits: Range, kind: str) -> Quantisation:
    """Return the scale and zero point by which integers of type `kind` cover a range.

    The range must include zero.

    Zero is represented exactly. A range that contains only zero becomes 0 to 1.
    """
    low, high = limits if any(limits) else (0.0, 1.0)
    if kind == "int16":
        step = max(-low, high) / np.iinfo(np.int16).max
        return Quantisation(scale=(_representable_step(step),), zero_point=(0,))
    step = _representable_step((high - low) / (LEVELS[kind] - 1))
    least = np.iinfo(kind).min
    zero = round(least - low / step)
    return Quantisation(scale=(step,), zero_point=(max(least, min(zero, -least - 1)),))


def _representable_step(step: float) -> float:
    """Return a scale as float32, raised to the smallest one that operators can represent."""
    return float(np.float32(max(step, _LEAST_STEP)))


def shared_ranges(
    graph: Graph, ranges: Mapping[int, Range], kinds: Mapping[int, str]
) -> dict[int, Range]:
    """Return a range for each tensor, the same one for tensors that must share a scale.

    Parameters
    ----------
    ranges:
        Range that each float tensor would have alone, by number.
    kinds:
        Type of each node's data, by the node's index in the graph.
    """
    owner = {number: number for number in ranges}

    def root(number: int) -> int:
        """Return the tensor that owns the range of a tensor."""
        while owner[number] != number:
            number = owner[number]
        return number

    fixed: dict[int, Range] = {}
    for at, node in enumerate(graph.nodes):
        if kinds[at] == "float32":
            continue
        if (node.op, kinds[at]) in FIXED:
            fixed[node.output] = FIXED[node.op, kinds[at]]
        if node.op in SAME_SCALE:
            members = [number for number in (*node.inputs, *node.outputs) if number in owner]
            for number in members[1:]:
                owner[root(number)] = root(members[0])
    groups: dict[int, list[int]] = {}
    for number in ranges:
        groups.setdefault(root(number), []).append(number)
    shared = {number: _group_range(members, ranges, fixed) for number, members in groups.items()}
    multiplied = {root(number) for number in _product_operands(graph, kinds) if number in owner}
    for number in multiplied - fixed.keys():
        most = max(map(abs, shared[number]))
        shared[number] = -most * 128 / 127, most
    return {number: fixed.get(number, shared[root(number)]) for number in ranges}


def _product_operands(graph: Graph, kinds: Mapping[int, str]) -> Iterator[int]:
    """Yield the operands of products of computed tensors, whose zero points should be 0.

    The array needs another pass for each operand with another zero point (decision 0034).
    """
    for at, node in enumerate(graph.nodes):
        if node.op is Op.BATCH_MATMUL and kinds[at] != "float32":
            yield from node.inputs


def _group_range(
    members: Sequence[int], ranges: Mapping[int, Range], fixed: Mapping[int, Range]
) -> Range:
    """Return the range of tensors that share a scale.

    It is the range in `fixed`, if all members that have one there have the same; otherwise, it is
    the union of the members' ranges.
    """
    given = {fixed[number] for number in members if number in fixed}
    if len(given) == 1:
        return given.pop()
    lows, highs = zip(*(ranges[number] for number in members), strict=True)
    return min(lows), max(highs)
