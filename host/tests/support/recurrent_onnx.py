"""ONNX networks of one LSTM, GRU or RNN of floats."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from matloom.ir.graph import Array

__all__ = ["RecurrentFile"]

#: Gates of each operator.
_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


@dataclass(frozen=True, kw_only=True)
class RecurrentFile:
    """One operator, whose input is (steps, batch, inputs).

    Members
    -------
    initial:
        State before the first step: `none`, a `constant`, or an `input`.
    options:
        Attributes of the operator.
    """

    op: str
    steps: int = 4
    batch: int = 2
    inputs: int = 3
    cells: int = 5
    direction: str = "forward"
    initial: str = "none"
    biased: bool = True
    options: tuple[tuple[str, Any], ...] = ()

    def content(self, seed: int = 0) -> bytes:
        """Return a file with random weights."""
        from onnx import TensorProto, helper, numpy_helper

        random, ways = np.random.default_rng(seed), 1 + (self.direction == "bidirectional")
        outer, state = _GATES[self.op] * self.cells, (ways, self.batch, self.cells)
        constants: dict[str, Array] = {}
        ends: dict[str, tuple[int, ...]] = {"x": (self.steps, self.batch, self.inputs)}
        shapes: dict[str, tuple[int, ...]] = {
            "w": (outer, self.inputs),
            "r": (outer, self.cells),
            "b": (2 * outer,),
        }
        for name, shape in shapes.items():
            constants[name] = random.normal(0, 0.5, (ways, *shape))
        states = ("h", "c")[: 1 + (self.op == "LSTM")]
        for name in states if self.initial == "constant" else ():
            constants[name] = random.normal(0, 0.5, state)
        for name in states if self.initial == "input" else ():
            ends[name] = state
        given = () if self.initial == "none" else states
        inputs = ["x", "w", "r", "b" if self.biased else "", "", *given]
        made: dict[str, tuple[int, ...]] = {"y": (self.steps, ways, self.batch, self.cells)}
        made |= {f"last {name}": state for name in states}
        options = {"hidden_size": self.cells, "direction": self.direction, **dict(self.options)}
        node = helper.make_node(self.op, inputs, list(made), **options)
        first, last = (
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in side]
            for side in (ends.items(), made.items())
        )
        stored = [
            numpy_helper.from_array(data.astype(np.float32), name)
            for name, data in constants.items()
        ]
        graph = helper.make_graph([node], "recurrent", first, last, stored)
        imports = [helper.make_opsetid("", 17)]
        content: bytes = helper.make_model(
            graph, opset_imports=imports, ir_version=8
        ).SerializeToString()
        return content
