"""Small programs and networks of many kinds, whose files are then edited."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from matloom import frontend
from matloom.arch.config import load_config
from matloom.compiler import CompileOptions, compile_network
from matloom.data.digits import NETWORK
from matloom.data.matrix_products import product_graph
from matloom.data.streaming import streaming_network
from matloom.frontend.opaque import file_tensor, whole_network_node
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import INTERPRETERS
from matloom.ir.graph import Graph, Op
from matloom.verification.random_operators import KINDS, RandomOperators

__all__ = ["NOT_UNSIGNED", "REFERENCE", "networks", "programs"]

#: The program with a model file in it.
REFERENCE = "reference"

_FLOATS = "nano+bf16+weight_rows=2+float_rows=2"

#: Types of operators that have none of uint8.
NOT_UNSIGNED = {
    Op.BATCH_MATMUL: "int8",
    Op.LOG_SOFTMAX: "int8",
    Op.SQUARED_DIFFERENCE: "int8",
}


def _graphs() -> Iterator[tuple[str, Graph, str, CompileOptions | None, str | None]]:
    """Yield names, graphs, configurations, options and precisions."""
    yield "product", product_graph(2, 12, 8), "nano", None, None
    yield "repetition", product_graph(2, 12, 8), "nano", CompileOptions(resident=True), None
    layer = RandomOperators([11, 6], "float32").make(Op.FULLY_CONNECTED)
    yield "bf16", layer, _FLOATS, None, "bf16"
    yield REFERENCE, _reference(), "nano", None, None
    for op in (Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.ADD, Op.MAX_POOL_2D, Op.CONCATENATION):
        yield f"int8 {op}", RandomOperators([11, 1], "int8").make(op), "nano", None, None
    for op in (Op.FULLY_CONNECTED, Op.ADD):
        yield f"int16 {op}", RandomOperators([11, 2], "int16").make(op), "nano+i16xi8", None, None
    for op in (Op.LOGISTIC, Op.MUL):
        yield (
            f"small {op}",
            RandomOperators([11, 3], "int8").make(op),
            "small+tables=1+products=1",
            None,
            None,
        )
    for op in KINDS:
        dtype = NOT_UNSIGNED.get(op, "uint8")
        yield f"{dtype} {op}", RandomOperators([11, 4], dtype).make(op), "nano", None, None
    for op in (Op.CONV_2D, Op.FULLY_CONNECTED, Op.MEAN, Op.PRELU, Op.TRANSPOSE_CONV):
        yield f"float32 {op}", RandomOperators([11, 5], "float32").make(op), "nano", None, None
    yield "streaming", streaming_network(11, layers=1), "nano", None, None
    yield "digits", frontend.load(NETWORK), "nano", None, None


def _reference() -> Graph:
    """Return a network that only a reference interpreter runs."""
    graph = RandomOperators([11, 7], "int8").make(Op.TANH)
    number, file = len(graph.tensors), file_tensor(write_tflite(graph))
    node = whole_network_node(
        ["TANH"], "a test", (*graph.inputs, number), graph.outputs, INTERPRETERS
    )
    return replace(graph, tensors={**graph.tensors, number: file}, nodes=(node,))


@cache
def programs() -> dict[str, bytes]:
    """Return Program files by name: engine and host steps, repetitions, all number formats."""
    return {
        name: compile_network(graph, load_config(config), options, precision).to_bytes()
        for name, graph, config, options, precision in _graphs()
    }


@cache
def networks() -> dict[str, bytes]:
    """Return TensorFlow Lite files by name: one operator each, and a trained network."""
    files = {"digits": NETWORK.read_bytes(), "streaming": write_tflite(streaming_network(11))}
    for op in KINDS:
        if op is not Op.TRANSPOSE_CONV:
            files[str(op)] = write_tflite(RandomOperators([12, 1], "int8").make(op))
    return files
