"""Operators that cannot stand alone: with effects beyond their tensors, or outputs of any shape."""

from collections.abc import Callable, Sequence
from typing import Any

from matloom.frontend.tflite.flatbuffer import numbers
from matloom.frontend.tflite.tensors import FileTensors

__all__ = ["joined", "sized_by_values"]

#: Operators with effects beyond their tensors: a network that has one runs as a whole.
_JOINED = frozenset(
    {
        *("CALL", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "IF"),
        "WHILE",
    }
)


#: Inputs whose values decide the shape of an operator's outputs; all of them where none is named.
_SIZES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "SLICE", "SPLIT_V"), (1, 2)),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN", "BROADCAST_TO", "MEAN", "MIRROR_PAD", "ONE_HOT"), (1,)),
    **dict.fromkeys(("PAD", "PADV2", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN"), (1,)),
    **dict.fromkeys(("REDUCE_PROD", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SUM"), (1,)),
    **dict.fromkeys(("SEGMENT_SUM", "SPARSE_TO_DENSE", "TILE", "TOPK_V2", "TRANSPOSE"), (1,)),
    **dict.fromkeys(("FILL", "MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), (0,)),
    **dict.fromkeys(("SPLIT", "TRANSPOSE_CONV"), (0,)),
    "STRIDED_SLICE": (1, 2, 3),
    **dict.fromkeys(("RANGE", "UNIQUE", "WHERE"), ()),
}


def sized_by_values(name: str, inputs: Sequence[int], computed: Callable[[int], bool]) -> bool:
    """Return whether an operator's outputs have shapes that are known at run time only."""
    if name not in _SIZES:
        return False
    places = _SIZES[name] or range(len(inputs))
    return any(computed(inputs[at]) for at in places if at < len(inputs))


def joined(
    model: Any, known: FileTensors, names: Sequence[str], operators: Sequence[Any]
) -> str | None:
    """Return why a network must stay in one piece; None if it need not."""
    for name in names:
        if name in _JOINED:
            return f"{name} joins the network's parts"
    if model.SubgraphsLength() > 1 + list(names).count("CALL_ONCE"):
        return f"the network has {model.SubgraphsLength()} subgraphs"
    readers = [set(numbers(operator, "Inputs").tolist()) for operator in operators]
    for number in range(len(known)):
        variable = known.subgraph.Tensors(number).IsVariable()
        if variable and sum(number in inputs for inputs in readers) > 1:
            return f"operators share the state of tensor {number}"
    return None
