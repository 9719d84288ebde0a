"""Order of an ONNX model's operators in which each quantised operator is in one piece.

ONNX Runtime makes one integer operator of DequantizeLinear, an operator and QuantizeLinear. A part
of a model must have all three to give the same integers: each operator gets DequantizeLinear of its
own, right before it, as ONNX Runtime's EnsureUniqueDQForNodeUnit does.
"""

from typing import Any

from matloom.kernels.onnx_model import captured

__all__ = ["in_pieces"]


def in_pieces(model: Any) -> Any:
    """Return a model with its operators in such an order; what no output needs is left out."""
    import onnx

    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
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
            for name in captured(node)
            if (producer := _before(producers, name, outputs)) is not None
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
    return made


def _real(node: Any) -> bool:
    return bool(node.op_type == "DequantizeLinear")


def _before(producers: dict[str, Any], name: str, outputs: set[str]) -> Any:
    """Return the operator that must be placed before a reader of a value; None where none must."""
    node = producers.get(name)
    while node is not None and _real(node) and node.output[0] not in outputs:
        node = producers.get(node.input[0])
    return node


def _with_own_inputs(
    producers: dict[str, Any], node: Any, outputs: set[str], place: int
) -> list[Any]:
    """Return an operator behind copies of the DequantizeLinear that it reads."""
    import onnx

    made: list[Any] = []
    own = onnx.NodeProto()
    own.CopyFrom(node)
    for at, name in enumerate(node.input):
        source = producers.get(name)
        if source is None or not _real(source) or name in outputs:
            continue
        made += _with_own_inputs(producers, source, outputs, place)
        made[-1].output[0] = own.input[at] = f"{name} for {place}.{at}"
        made[-1].name = ""
    return [*made, own]
