"""Operators of an ONNX file, with their inputs, outputs and attributes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from matloom.ir.graph import Array


@dataclass(frozen=True, kw_only=True)
class FileNode:
    """An operator of an ONNX file.

    Members
    -------
    op:
        Name of the operator, with its domain unless it is ONNX's own.
    inputs, outputs:
        Names of values; an absent one is empty, or missing at the end.
    options:
        Attributes by name, as Python values.
    opset:
        Version of the operator set.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: dict[str, Any]
    opset: int

    @classmethod
    def from_proto(cls, proto: Any, opset: int) -> "FileNode":
        """Return the operator of a NodeProto."""
        import onnx

        domain = "" if proto.domain in ("", "ai.onnx") else f"{proto.domain}."
        value_of = onnx.helper.get_attribute_value
        options = {each.name: value_of(each) for each in proto.attribute}
        return cls(
            op=domain + proto.op_type,
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            options=options,
            opset=opset,
        )

    @property
    def source(self) -> str:
        """Name of the first input."""
        return self.inputs[0]

    @property
    def output(self) -> str:
        """Name of the first output."""
        return self.outputs[0]

    def input(self, index: int) -> str:
        """Return the name of the input with index `index`; empty if it is absent."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def sizes(self, shape: tuple[int, ...]) -> Array:
        """Return the sizes that a Shape of a value of this shape returns (or some of them)."""
        chosen = shape[self.options.get("start", 0) : self.options.get("end")]
        return np.array(chosen, np.int64)

    def parameter(
        self, name: str, index: int, constant: Callable[[str], Array], default: object = None
    ) -> object:
        """Return a parameter of the operator, from an attribute or a constant input.

        Older files state it as the attribute `name`, newer ones as the constant input `index`.

        `constant` returns the value of a constant by its name. `default` is returned if the file
        has neither.
        """
        if name in self.options:
            return self.options[name]
        if self.input(index):
            return constant(self.input(index)).tolist()
        return default
