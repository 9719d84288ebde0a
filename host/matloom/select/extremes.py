"""Stages of MAXIMUM and MINIMUM of two computed tensors."""

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from matloom.arch.config import Config
from matloom.arch.isa import Destination, Opcode, Source, largest
from matloom.arch.numerics import Rounding
from matloom.ir.graph import Op
from matloom.ir.shapes import IMAGE_RANK
from matloom.select.context import Context, NotOnEngine, bias_post
from matloom.select.copies import copy_of_lines, copy_stage, row_grid
from matloom.select.layout.base import Fields
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.loop_nest import LoopNest
from matloom.select.operand import same_weights
from matloom.select.post_input import PostInput
from matloom.select.stage import ArrayStage, OutputRegion
from matloom.select.weights import identity_tile

#: Maximum number of bytes of a row.
_LONGEST_ROW = largest(Opcode.EXEC, "input_row_bytes")

_UNCHANGED = {"rounding": Rounding.DOUBLE, "multiplier": 2**30, "shift": 1}


@dataclass(frozen=True, kw_only=True)
class ByteComparison:
    """Comparison of the bytes of two tensors, as the array and post-processing compute it.

    Members
    -------
    weight:
        The factor by which EXEC multiplies bytes of the first tensor.
    limit:
        Fields of the POST that sets the accumulators to bytes of the second tensor, times the same
        factor.
    result:
        Fields of the POST that turns the larger values into results.
    """

    weight: int
    limit: Fields
    result: Fields


#: Comparison of two tensors on one scale.
_MAXIMUM = ByteComparison(weight=1, limit=_UNCHANGED, result=bias_post())

#: Comparison of a tensor with the complement of another; results are the complement of the smaller
#: byte.
_MINIMUM = ByteComparison(weight=-1, limit={**_UNCHANGED, "bias": 1}, result=bias_post(-1))


def extreme(context: Context) -> tuple[ArrayStage, ...]:
    """Return the stages of MAXIMUM or MINIMUM of two computed int8 tensors.

    For each tile, POST sets the accumulators to bytes of the second tensor, and EXEC keeps the
    larger of these and the first tensor's. A minimum is computed as a maximum of complements, with
    copies that complement the second tensor and the results.
    """
    _require_comparable(context)
    shape, result = context.output.shape, context.results[0]
    rows = shape[0] * shape[1] if len(shape) == IMAGE_RANK else prod(shape[:-1])
    size = context.output.size_bytes // rows
    if size > _LONGEST_ROW:
        raise NotOnEngine(f"rows that are compared have at most {_LONGEST_ROW} bytes, not {size}")
    first, second = context.sources[:2]
    if context.node.op is Op.MAXIMUM:
        # EXEC and POST can read the same tensor.
        tensors = tuple(dict.fromkeys((first, second)))
        return (_maximum_stage(context, (rows, size), tensors, result, _MAXIMUM),)
    copied, larger = context.buffer_name("complement"), context.buffer_name("negated")
    return (
        _complement(context, (rows, size), (second, copied)),
        _maximum_stage(context, (rows, size), (first, copied), larger, _MINIMUM),
        _complement(context, (rows, size), (larger, result)),
    )


def _require_comparable(context: Context) -> None:
    """Raise `NotOnEngine` if the engine cannot compare the two inputs."""
    first, second = context.inputs
    if not context.config.maximum:
        raise NotOnEngine("it keeps maxima, and the configuration has maximum = 0")
    if first.data is not None or not first.shape == context.output.shape == second.shape:
        raise NotOnEngine(f"it broadcasts {second.shape} to {context.output.shape}")
    if context.output.dtype != "int8":
        raise NotOnEngine("the engine compares computed tensors of int8")
    if not first.quantisation == second.quantisation == context.output.quantisation:
        raise NotOnEngine("its tensors must have one scale and one zero point")


def _complement(context: Context, shape: tuple[int, int], tensors: tuple[str, str]) -> ArrayStage:
    """Return the stage that writes the complement, -1 - x, of each byte x of a tensor."""
    return copy_stage(
        name=context.name,
        nodes=context.nodes,
        tensors=tensors,
        copy=copy_of_lines(*shape, context.config),
        config=context.config,
        complement=True,
    )


def _maximum_stage(
    context: Context,
    shape: tuple[int, int],
    tensors: tuple[str, ...],
    output: str,
    comparison: ByteComparison,
) -> ArrayStage:
    """Return the stage that writes the element-wise maximum of two tensors of bytes.

    `tensors` has one name if both are the same. `shape` has the number of rows and the bytes of a
    row; `comparison` says how bytes are scaled before EXEC compares them, and afterwards.
    """
    config, (count, size) = context.config, shape
    grid = row_grid(count, size, config)
    stage = ArrayStage(
        name=context.name,
        nodes=context.nodes,
        inputs=tensors,
        output=output,
        input_layout=DenseInput(rows=grid.rows, row_bytes=size),
        output_layout=Dense(grid=grid),
        loop_nest=_position_loop_nest(grid.position_bytes),
        regions=(OutputRegion.whole(grid, {}),),
        weights=same_weights(identity_tile(config), 1),
        params=np.zeros((1, 0), np.uint8),
        macs=0,
    )
    return replace_comparison(stage, comparison, config)


def replace_comparison(stage: ArrayStage, comparison: ByteComparison, config: Config) -> ArrayStage:
    """Return a stage of MAXIMUM or MINIMUM, made by `extreme`, with another comparison of bytes."""
    tile = identity_tile(config).view(np.int8) * np.int8(comparison.weight)
    region = replace(stage.regions[0], post=comparison.result)
    limit = {"source": Source.SPAD, "destination": Destination.ACC_SET, **comparison.limit}
    return replace(
        stage,
        regions=(region,),
        weights=same_weights(tile.view(np.uint8), 1),
        post_input=PostInput(post=limit),
    )


def _position_loop_nest(size: int) -> LoopNest:
    """Return the loop nest of EXECs that keep maxima; a vector is a position of `size` bytes."""
    return LoopNest(x_step=size, maximum=True, weights_fixed=True)
