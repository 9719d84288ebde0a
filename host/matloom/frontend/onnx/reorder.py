"""Reorders an ONNX model so that each quantised operator and its QDQ nodes are adjacent.

ONNX Runtime fuses DequantizeLinear, an operator and QuantizeLinear into one integer operator. A
part of a model must contain all three to give the same integers, so each operator gets its own
DequantizeLinear directly before it, as in ONNX Runtime's EnsureUniqueDQForNodeUnit.
"""

from typing import Any

from matloom.kernels.onnx_model import values_read


def reorder(model: Any) -> Any:
    """Return a model in which each operator follows copies of the DequantizeLinear that it reads.

    Operators that no output needs are left out. The given model stays unchanged.
    """
    import onnx

    reordered = onnx.ModelProto()
    reordered.CopyFrom(model)
    graph = reordered.graph
    producers = {name: node for node in model.graph.node for name in node.output if name}
    outputs = {value.name for value in graph.output}
    ordered: list[Any] = []
    done: set[int] = set()
    pending = [producers[value.name] for value in graph.output if value.name in producers]
    pending.reverse()
    while pending:
        node = pending[-1]
        waits = [
            producer
            for name in values_read(node)
            if (producer := _preceding_operator(producers, name, outputs)) is not None
            and id(producer) not in done
        ]
        if waits and id(node) not in done:
            pending.extend(reversed(waits))
            continue
        pending.pop()
        if id(node) not in done:
            done.add(id(node))
            ordered += _with_own_inputs(producers, node, outputs, len(ordered))
    graph.ClearField("node")
    graph.node.extend(ordered)
    return reordered


def _is_dequantize(node: Any) -> bool:
    """Return whether a node is a DequantizeLinear."""
    return bool(node.op_type == "DequantizeLinear")


def _preceding_operator(producers: dict[str, Any], name: str, outputs: set[str]) -> Any:
    """Return the operator that must precede a reader of the value `name`; None if there is none.

    DequantizeLinear operators are skipped, because each reader gets its own copies, unless their
    results are outputs of the model.
    """
    node = producers.get(name)
    while node is not None and _is_dequantize(node) and node.output[0] not in outputs:
        node = producers.get(node.input[0])
    return node


def _with_own_inputs(
    producers: dict[str, Any], node: Any, outputs: set[str], node_index: int
) -> list[Any]:
    """Return a copy of an operator, preceded by copies of the DequantizeLinear that it reads.

    `node_index` makes the names of new values unique.
    """
    import onnx

    copies: list[Any] = []
    own = onnx.NodeProto()
    own.CopyFrom(node)
    for at, name in enumerate(node.input):
        source = producers.get(name)
        if source is None or not _is_dequantize(source) or name in outputs:
            continue
        copies += _with_own_inputs(producers, source, outputs, node_index)
        copies[-1].output[0] = own.input[at] = f"{name} for {node_index}.{at}"
        copies[-1].name = ""
    return [*copies, own]
