"""Splits loops whose number of iterations is known only at run time into separate networks."""

from typing import Any

import tflite

from matloom.frontend.loops import LoopParts
from matloom.frontend.tflite.control import called_subgraphs
from matloom.frontend.tflite.flatbuffer import numbers
from matloom.frontend.tflite.subgraph import SubgraphReader
from matloom.ir.graph import Array
from matloom.kernels.cut import keep_used_parts, plain_model, serialise


def tflite_loop(content: bytes, position: int) -> LoopParts | None:
    """Return the parts of the WHILE with index `position` in a file's first subgraph.

    Its condition and body must have no state and no control flow.
    """
    model = tflite.Model.GetRootAs(content)
    main = SubgraphReader(content)
    operator = model.Subgraphs(0).Operators(position)
    condition, body = (
        SubgraphReader(_single_subgraph(content, number)).graph(name)
        for number, name in zip(
            called_subgraphs("WHILE", operator), ("condition", "body"), strict=True
        )
    )
    given = numbers(operator, "Inputs").tolist()
    operands: list[int | Array] = []
    for number in given:
        data = main.known.opaque_tensor(number).data
        operands.append(number if data is None else data)
    return LoopParts(
        operands=tuple(operands),
        carried=len(operands),
        results=tuple(numbers(operator, "Outputs").tolist()),
        body=body,
        condition=condition,
    )


def _single_subgraph(content: bytes, number: int) -> bytes:
    """Return a file that contains only the subgraph with index `number`."""
    model: Any = plain_model(content, "ai-edge-litert")
    model.subgraphs = [model.subgraphs[number]]
    keep_used_parts(model, model.subgraphs[0])
    return serialise(model)
