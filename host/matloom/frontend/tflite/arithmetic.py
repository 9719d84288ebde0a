"""Counts the multiply-accumulates of operators that a reference interpreter runs."""

import math
from collections.abc import Sequence
from typing import Any

import tflite

from matloom.frontend.tflite.flatbuffer import numbers

#: Indices of the inputs of an LSTM that are weights: of its input, recurrence and projection.
_LSTM_WEIGHTS = (*range(1, 9), 16)

Shape = tuple[int, ...]


def file_macs(content: bytes, names: Sequence[str], positions: Sequence[int]) -> list[int]:
    """Return the number of multiply-accumulates of operators of a model file; 0 if unknown.

    `names` are the operators' names, and `positions` their indices in the first subgraph. If
    `positions` is empty, `names` must list all operators of the subgraph.
    """
    subgraph = tflite.Model.GetRootAs(content).Subgraphs(0)
    places = positions or range(subgraph.OperatorsLength())
    return [
        _macs(name, subgraph, subgraph.Operators(at))
        for name, at in zip(names, places, strict=True)
    ]


def _shapes(subgraph: Any, operator: Any, field: str) -> list[Shape]:
    """Return the shapes of an operator's inputs or outputs; (0,) for an absent tensor.

    `field` is "Inputs" or "Outputs".
    """
    return [
        tuple(int(n) for n in numbers(subgraph.Tensors(at), "Shape")) if at >= 0 else (0,)
        for at in numbers(operator, field).tolist()
    ]


def _macs(name: str, subgraph: Any, operator: Any) -> int:
    """Return the number of multiply-accumulates of an operator in a TensorFlow Lite file."""
    inputs = _shapes(subgraph, operator, "Inputs")
    if name == "UNIDIRECTIONAL_SEQUENCE_LSTM":
        weights = [math.prod(inputs[at]) for at in _LSTM_WEIGHTS if at < len(inputs)]
        return int(math.prod(inputs[0][:2]) * sum(weights))
    if name == "TRANSPOSE_CONV":
        return math.prod(inputs[2]) * math.prod(inputs[1][:3])
    if name in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
        output = _shapes(subgraph, operator, "Outputs")[0]
        taps = inputs[1][1:3] if name == "DEPTHWISE_CONV_2D" else inputs[1][1:]
        return math.prod(output) * math.prod(taps)
    return 0
