"""Splits loops whose number of iterations is known only at run time into separate networks."""

from typing import Any

import numpy as np

from matloom.frontend.loops import LoopParts
from matloom.frontend.onnx.bodies import body_of, is_layered_loop, outer_values
from matloom.frontend.onnx.graph import GraphReader
from matloom.frontend.onnx.model import is_exact
from matloom.kernels.onnx_model import parse, value_numbers

#: Maximum number of iterations if the file states none.
_WITHOUT_END = np.iinfo(np.int64).max


def onnx_loop(content: bytes, position: int) -> LoopParts | None:
    """Return the parts of a loop of a file, by the index of its operator.

    The result is None if the operator is not a loop with quantised layers, or its body cannot be a
    separate model, for instance because a value changes its type or shape.
    """
    model = parse(content)
    node = model.graph.node[position]
    if not is_layered_loop(node):
        return None
    body = body_of(model, node)
    if body is None:
        return None
    graph = GraphReader(body, body.graph.name or "body", exact=is_exact(model)).graph()
    carried, outer = node.input[2:], outer_values(model, node)
    constants = {each.name: each for each in model.graph.initializer}
    numbers = value_numbers(model.graph)

    def operand(name: str) -> Any:
        """Return an input's constant array, or its tensor number."""
        from onnx import numpy_helper

        return numpy_helper.to_array(constants[name]) if name in constants else numbers[name]

    most, begin = (operand(name) if name else None for name in node.input[:2])
    return LoopParts(
        operands=(
            np.array(_WITHOUT_END) if most is None else most,
            np.array(True) if begin is None else begin,
            *map(operand, (*carried, *outer)),
        ),
        carried=len(carried),
        results=tuple(numbers.get(name, -1) for name in node.output),
        body=graph,
    )
