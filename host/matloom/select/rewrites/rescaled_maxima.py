"""Fuses a QUANTIZE into the MAXIMUM that reads its result.

The bytes are compared before they are rounded to the new scale, with exactly the same results.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import numpy as np

from matloom.arch.config import Config
from matloom.arch.numerics import LARGER_BITS, quantize_multiplier, requantize, wrap32
from matloom.ir.graph import Array, Node, Op
from matloom.select.context import bias_post
from matloom.select.extremes import ByteComparison, replace_comparison
from matloom.select.limited_scales import ROUNDINGS
from matloom.select.lookup import table_of
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import ArrayStage, Stage

_ALL_BYTES = np.arange(-128, 128, dtype=np.int64)
_SUM_LIMIT = 2 ** (LARGER_BITS - 1)


def fuse_rescaling_into_maxima(staged: StagedRun) -> StagedRun:
    """Return a run in which MAXIMUM reads the input of a QUANTIZE of which it is the only reader.

    EXEC multiplies the bytes of that input by a weight, and POST scales the other tensor to match.
    Tensors that nothing else reads are left to `fuse_tables`, which makes the lookup free.
    """
    groups: list[tuple[Stage, ...]] = list(staged.stages)
    readers = Counter(name for group in groups for stage in group for name in stage.inputs)
    places: dict[str, int] = {}
    for at, (node, group) in enumerate(zip(staged.run.nodes, staged.stages, strict=True)):
        if _rescales(staged, node) and len(group) == 1:
            (lookup,) = group
            alone = readers[lookup.output] == 1 < readers[lookup.inputs[0]]
            places |= {lookup.output: at} if alone else {}
        for name in _compared_tensors(node, group):
            if name not in places or name in staged.kept:
                continue
            (stage,), (lookup,) = groups[at], groups[places[name]]
            # Only stages of the array have an addend.
            compared = cast(ArrayStage, stage)
            changed = _with_rescaling(compared, lookup, staged.run.nodes[places[name]], staged)
            if changed is not None:
                groups[places[name]], groups[at] = (), (changed,)
                break
    return staged if groups == list(staged.stages) else staged.with_stages(groups)


def _compared_tensors(node: Node, group: tuple[Stage, ...]) -> tuple[str, ...]:
    """Return the names of the two tensors that a MAXIMUM compares; none for other operators."""
    if node.op is not Op.MAXIMUM or len(group) != 1 or group[0].addend is None:
        return ()
    return group[0].inputs


def _rescales(staged: StagedRun, node: Node) -> bool:
    """Return whether an operator only changes the scale of bytes."""
    ends = (staged.graph.tensors[number].dtype for number in (*node.inputs, *node.outputs))
    return node.op is Op.QUANTIZE and set(ends) == {"int8"}


def _with_rescaling(
    stage: ArrayStage, rescaling: Stage, node: Node, staged: StagedRun
) -> ArrayStage | None:
    """Return the MAXIMUM stage changed to read the input of a QUANTIZE; None if not exact."""
    graph, config = staged.graph, staged.config
    source, output = (graph.tensors[number] for number in (*node.inputs, *node.outputs))
    ratio, zeros = source.scale / output.scale, (source.zero_point, output.zero_point)
    found = comparison(table_of(graph, node).view(np.int8), ratio, zeros, config)
    if found is None:
        return None
    (other,) = (name for name in stage.inputs if name != rescaling.output)
    return replace_comparison(replace(stage, inputs=(rescaling.inputs[0], other)), found, config)


def comparison(
    expected: Array, ratio: float, zeros: tuple[int, int], config: Config
) -> ByteComparison | None:
    """Find parameters with which a stage compares one byte, exactly rescaled, with another.

    Return None if none are found. A sum is ``weight * byte``, and a result ``zero + (sum + bias) *
    ratio / weight``. The other byte has the inverse scale. Weights are tried until all results are
    right.

    Parameters
    ----------
    expected:
        The rescaled byte of each unsigned byte, int8 (256,).
    ratio:
        Scale of the byte divided by that of results.
    zeros:
        Zero points of the byte and of results.
    """
    expected = np.roll(expected, 128).astype(np.int64)
    rules = [rule for rule in ROUNDINGS if rule in config.roundings]
    for weight, bias, limit_bias in _parameters_to_try(ratio, zeros):
        scale = quantize_multiplier(ratio / weight)
        inverse = quantize_multiplier(weight / ratio)
        limits = requantize(wrap32(_ALL_BYTES + limit_bias), *inverse, rules[0])
        for rule in rules:
            sums = requantize(wrap32(weight * _ALL_BYTES + bias), *scale, rule)
            same = requantize(wrap32(limits + bias), *scale, rule) + zeros[1]
            rescaled = np.clip(sums + zeros[1], -128, 127)
            if np.array_equal(rescaled, expected) and np.array_equal(same, _ALL_BYTES):
                result = {**bias_post(bias), "rounding": rule, "output_zero": zeros[1]}
                limit = {"rounding": rules[0], "bias": limit_bias}
                return ByteComparison(
                    weight=weight,
                    limit={**limit, "multiplier": int(inverse[0]), "shift": int(inverse[1])},
                    result={**result, "multiplier": int(scale[0]), "shift": int(scale[1])},
                )
    return None


def _parameters_to_try(ratio: float, zeros: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
    """Yield parameters to try: a weight, the bias of results, and the bias of the other byte."""
    # The other byte, at most 256 from its zero point, has fewer than 17 bits on this scale.
    for weight in range(min(127, int(_SUM_LIMIT * ratio / 512)), 0, -1):
        for more in (0, 1, -1, 2, -2):
            bias = more - weight * zeros[0]
            yield weight, bias, round(-zeros[1] - bias * ratio / weight)
