"""Operators that the engine can run, with their stages, and why the host runs the others."""

from collections.abc import Callable, Iterator, Mapping

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, largest
from matloom.arch.machine import Machine
from matloom.arch.modes import FLOAT_MODES
from matloom.ir.graph import Graph, Node, Op
from matloom.select.context import Context, NotOnEngine, source_name
from matloom.select.elementwise import (
    add,
    leaky_relu,
    maximum_or_minimum,
    quantize,
    relu,
    relu6,
    squared_difference,
    subtract,
)
from matloom.select.exec_steps import limit_steps, read_bytes
from matloom.select.float_elementwise import float_add, float_quantize, float_relu
from matloom.select.float_layers import matrix_product
from matloom.select.layers import convolution, dense, depthwise, pooling
from matloom.select.lookup import curve_or_table, table_stage
from matloom.select.matmul import batch_matmul
from matloom.select.moves import (
    join_stages,
    pad_stages,
    resize_stages,
    slice_stages,
    split_stages,
    transpose_stages,
)
from matloom.select.parametric import parametric_relu
from matloom.select.pooling import average_stage, maximum_stage
from matloom.select.reduction import reduction
from matloom.select.scaled_channels import multiplication
from matloom.select.softmax import softmax_stage
from matloom.select.spread import repeat_operands
from matloom.select.spread_products import spread_product
from matloom.select.stage import ArrayStage, Stage
from matloom.select.transposed import transposed_convolution

__all__ = ["ENGINE", "NotOnEngine", "stages_of"]

#: Largest value of the fields that a stage sets directly, by meaning.
_FIELD_LIMITS = {
    "kernel rows": largest(Opcode.EXEC, "kernel_rows"),
    "kernel row step": largest(Opcode.EXEC, "kernel_row_step"),
    "kernel columns": largest(Opcode.EXEC, "kernel_cols"),
    "row stride": largest(Opcode.EXEC, "y_step"),
    "blocks of the reduction": largest(Opcode.EXEC, "blocks"),
    "output blocks": largest(Opcode.EXEC, "oc_blocks"),
    "bytes of an input row": largest(Opcode.EXEC, "input_row_bytes"),
    "bytes of an output row": largest(Opcode.POST, "dest_pitch"),
    "input rows": largest(Opcode.EXEC, "input_rows"),
    "bytes between input positions": largest(Opcode.EXEC, "x_step"),
    "bytes between taps": largest(Opcode.EXEC, "kernel_col_step"),
    "bytes of an output position": largest(Opcode.POST, "x_step"),
    "bytes between output positions": largest(Opcode.POST, "x_step"),
    "bytes between output rows": largest(Opcode.POST, "dest_pitch"),
}

_STAGES: dict[Op, Callable[[Context], Stage | tuple[Stage, ...]]] = {
    Op.ADD: add,
    Op.AVERAGE_POOL_2D: pooling(average_stage),
    Op.BATCH_MATMUL: batch_matmul,
    Op.CONCATENATION: join_stages,
    Op.CONV_2D: convolution,
    Op.DEPTHWISE_CONV_2D: depthwise,
    Op.FULLY_CONNECTED: dense,
    Op.HARD_SWISH: table_stage,
    Op.LEAKY_RELU: leaky_relu,
    Op.LOGISTIC: curve_or_table,
    Op.LOOKUP: table_stage,
    Op.MAXIMUM: maximum_or_minimum,
    Op.MAX_POOL_2D: pooling(maximum_stage),
    Op.MEAN: reduction,
    Op.MINIMUM: maximum_or_minimum,
    Op.MUL: multiplication,
    Op.PACK: join_stages,
    Op.PAD: pad_stages,
    Op.PADV2: pad_stages,
    Op.PRELU: parametric_relu,
    Op.QUANTIZE: quantize,
    Op.RELU: relu,
    Op.RELU6: relu6,
    Op.RESIZE_NEAREST_NEIGHBOR: resize_stages,
    Op.SLICE: slice_stages,
    Op.SOFTMAX: softmax_stage,
    Op.SPLIT: split_stages,
    Op.SPLIT_V: split_stages,
    Op.SQUARED_DIFFERENCE: squared_difference,
    Op.STRIDED_SLICE: slice_stages,
    Op.SUB: subtract,
    Op.SUM: reduction,
    Op.TANH: curve_or_table,
    Op.TRANSPOSE: transpose_stages,
    Op.TRANSPOSE_CONV: transposed_convolution,
    Op.UNPACK: split_stages,
}

#: Functions that build the stages of operators on float32.
_FLOAT_STAGES: dict[Op, Callable[[Context], Stage]] = {
    Op.ADD: float_add,
    Op.QUANTIZE: float_quantize,
    Op.RELU: float_relu,
    Op.RELU6: float_relu,
}

#: Dtypes that operators accept besides int8: int16, uint8, and int32 for sums that leave the
#: network.
_MORE_TYPES = {
    Op.BATCH_MATMUL: ("int32",),
    Op.CONV_2D: ("int16", "int32"),
    **dict.fromkeys((Op.ADD, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED), ("int16",)),
    Op.QUANTIZE: ("int16", "uint8"),
    **dict.fromkeys((Op.AVERAGE_POOL_2D, Op.MEAN, Op.SUM), ("int16",)),
    **dict.fromkeys((Op.LEAKY_RELU, Op.MAXIMUM, Op.MINIMUM, Op.MUL, Op.RELU), ("int16",)),
    **dict.fromkeys((Op.CONCATENATION, Op.PACK, Op.PAD, Op.PADV2, Op.SLICE, Op.SPLIT), ("int16",)),
    **dict.fromkeys((Op.SPLIT_V, Op.STRIDED_SLICE, Op.TRANSPOSE, Op.UNPACK), ("int16",)),
    **dict.fromkeys((Op.LOGISTIC, Op.RELU6, Op.RESIZE_NEAREST_NEIGHBOR, Op.TANH), ("int16",)),
}

#: Operators that the engine runs, if their attributes fit.
ENGINE = frozenset(_STAGES)


def _check(stage: Stage, config: Config) -> None:
    """Raise `NotOnEngine` if a value exceeds its field, or a reduction step reads too much.

    A step must read at most half of the scratchpad.
    """
    if not isinstance(stage, ArrayStage):
        return
    fields = stage.loop_nest.fields((0, 1), (0, 1), 0)
    grid, (x_step, row_step) = stage.grid, stage.output_layout.strides
    values = {
        "kernel rows": fields["kernel_rows"],
        "kernel row step": fields["kernel_row_step"],
        "kernel columns": 1 if stage.loop_nest.is_long else fields["kernel_cols"],
        "row stride": fields["y_step"],
        "blocks of the reduction": fields["blocks"],
        "output blocks": grid.blocks,
        "bytes of an input row": stage.input_layout.row_bytes,
        "bytes of an output row": grid.row_bytes,
        "input rows": stage.input_layout.rows,
        "bytes between input positions": fields["x_step"],
        "bytes between taps": fields["kernel_col_step"],
        "bytes of an output position": grid.position_bytes,
        "bytes between output positions": x_step,
        "bytes between output rows": row_step,
    }
    for name, value in values.items():
        if value > _FIELD_LIMITS[name]:
            raise NotOnEngine(f"{name} must be at most {_FIELD_LIMITS[name]}, not {value}")
    step = limit_steps(fields, 0, 1, config.rows)
    minimum, maximum = read_bytes(step, config.rows), config.spad_bytes // 2
    if minimum > maximum:
        raise NotOnEngine(f"a step must read at most {maximum} bytes of input, not {minimum}")


def _makes_input_signed(node: Node, graph: Graph) -> bool:
    """Return whether a node only stores a uint8 input of the network as int8, 128 less."""
    if node.op is not Op.QUANTIZE or node.inputs[0] not in graph.inputs:
        return False
    data, output = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    if (data.dtype, output.dtype) != ("uint8", "int8"):
        return False
    return data.scale == output.scale and data.zero_point == output.zero_point + 128


def _builder(node: Node, graph: Graph) -> Callable[[Context], Stage | tuple[Stage, ...]]:
    """Return the function that builds the stages of an operator from its `Context`.

    Raise `NotOnEngine` if the engine does not support the operator or its types.
    """
    if node.op is Op.MATRIX_PRODUCT:
        return matrix_product
    if node.op not in _STAGES:
        raise NotOnEngine(f"the engine has no {node.op}")
    if _makes_input_signed(node, graph):
        # A table takes a pass over the input.
        raise NotOnEngine("the host subtracts 128 from an input")
    input_type = graph.tensors[node.inputs[0]].dtype
    if input_type == "float32" and node.op in _FLOAT_STAGES:
        return _FLOAT_STAGES[node.op]
    if getattr(node.attributes, "mode", None) in FLOAT_MODES:
        return _STAGES[node.op]
    data = {input_type, *(graph.tensors[number].dtype for number in node.outputs)}
    for dtype in sorted(data - {"int8", *_MORE_TYPES.get(node.op, ())}):
        lowered = node.op in (Op.CONV_2D, Op.FULLY_CONNECTED) and dtype == "float32"
        hint = "; a precision of bf16 or fp16 makes it run there" if lowered else ""
        raise NotOnEngine(f"the engine has no {node.op} of {dtype}{hint}")
    return _STAGES[node.op]


def _external_tensors(graph: Graph) -> Iterator[int]:
    """Yield the tensor numbers of inputs of the network, and of tensors that the host quantises.

    These are in external memory at the start.
    """
    yield from graph.entering
    for node in graph.nodes:
        if node.op is Op.QUANTIZE:
            types = [graph.tensors[number].dtype for number in (node.inputs[0], node.output)]
            if types == ["float32", "int8"] or _makes_input_signed(node, graph):
                yield node.output


def stages_of(
    node: Node, graph: Graph, names: Mapping[int, str], machine: Machine
) -> tuple[Stage, ...]:
    """Return the stages with which the engine runs a node.

    Raise `NotOnEngine` with the reason if the host must run it. `names` maps tensors to the names
    of their buffers; tensors that share bytes share a name.
    """
    build = _builder(node, graph)
    if not all(graph.tensors[number].size for number in (*node.inputs, *node.outputs)):
        raise NotOnEngine("a tensor is empty")
    context = Context(
        node=node,
        graph=graph,
        sources=tuple(source_name(graph, node, number, names) for number in node.inputs),
        results=tuple(names[number] for number in node.outputs),
        machine=machine,
        external=names[node.inputs[0]] in {names[number] for number in _external_tensors(graph)},
    )
    if node.op is Op.MUL and (repeated := spread_product(context)) is not None:
        _check(repeated, machine.config)
        return (repeated,)
    spread, context = repeat_operands(context)
    built = build(context)
    stages = (*spread, *(built if isinstance(built, tuple) else (built,)))
    for stage in stages:
        _check(stage, machine.config)
    return stages
