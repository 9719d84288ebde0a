"""Finds TensorFlow Lite operators whose output shapes are known only at run time."""

from collections.abc import Callable, Sequence

#: Indices of inputs whose values decide the shapes of outputs, by operator; () means all inputs.
SIZES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "SLICE", "SPLIT_V"), (1, 2)),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN", "BROADCAST_TO", "MEAN", "MIRROR_PAD", "ONE_HOT"), (1,)),
    **dict.fromkeys(("PAD", "PADV2", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN"), (1,)),
    **dict.fromkeys(("REDUCE_PROD", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SUM"), (1,)),
    **dict.fromkeys(("SEGMENT_SUM", "SPARSE_TO_DENSE", "TILE", "TOPK_V2", "TRANSPOSE"), (1,)),
    **dict.fromkeys(("FILL", "MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), (0,)),
    **dict.fromkeys(("SPLIT", "TRANSPOSE_CONV"), (0,)),
    "SCATTER_ND": (2,),
    "STRIDED_SLICE": (1, 2, 3),
    **dict.fromkeys(("RANGE", "UNIQUE", "WHERE"), ()),
}


def has_run_time_shape(
    name: str, inputs: Sequence[int], is_computed: Callable[[int], bool]
) -> bool:
    """Return whether the output shapes of an operator are known only at run time.

    `inputs` are the operator's tensors; `is_computed` tells which are not constants.
    """
    if name not in SIZES:
        return False
    places = SIZES[name] or range(len(inputs))
    return any(is_computed(inputs[at]) for at in places if at < len(inputs))
